"""Settings that are each fine and cannot go together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def impossible(config: Mapping[str, Any]) -> Iterator[str]:
    """One text for each pair of settings that no model or run can have."""
    encoder, decoder, embeddings = config["encoder"], config["decoder"], config["embeddings"]
    if embeddings["shared"] and not config["tokenizer"]["joint"] and config["data"]["kind"] != "prepared":
        yield "embeddings.shared=true: needs one vocabulary for both sides; set tokenizer.joint=true"
    if encoder.get("bidirectional") and encoder["hidden_size"] % 2:
        yield f"encoder.hidden_size={encoder['hidden_size']}: must be even, each direction takes one half"
    dot = config["attention"].get("score") == "dot"
    if dot and encoder["hidden_size"] != decoder["hidden_size"]:
        yield (
            f"attention.score=dot: compares states of equal size, but encoder.hidden_size={encoder['hidden_size']} and "
            f"decoder.hidden_size={decoder['hidden_size']}; make them equal or use attention.score=general"
        )
    if len(config["training"]["betas"]) != 2:
        yield f"training.betas={config['training']['betas']}: must be two numbers"
    if config["data"]["kind"] == "text":
        yield from _files(config["data"])


def _files(data: Mapping[str, Any]) -> Iterator[str]:
    for part in ("train", "valid", "test"):
        files = data[part]
        for side, other in (("src", "tgt"), ("tgt", "src")):
            key = f"data.{part}.{side}"
            if files[side] is None and (part != "test" or files[other] is not None):
                yield f"{key}=null: must be given, as {key}=FILE"
            elif files[side] is not None and not Path(files[side]).is_file():
                yield f"{key}={files[side]}: no such file"
