"""Tiny models with random weights, and a short training, for the tests of all folders."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim import Adam

from nmt.errors import UserError
from nmt.inference.engines import OnnxEngineName
from nmt.inference.model_folder import TrainedModel, save_folder
from nmt.inference.translator import Translator
from nmt.kernels.output_loss import output_loss
from nmt.model import Seq2Seq
from nmt.model.build import build_model
from nmt.search.options import LengthModel
from nmt.settings.build import ModelSettings
from nmt.text.specials import BOS, EOS
from nmt.text.tokenizer import Tokenizer

BAHDANAU = {"_target_": "nmt.attention.BahdanauAttention", "attention_size": 8}
MEMORY = {"_target_": "nmt.attention.MemoryAttention", "slots": 3}
LUONG = {"_target_": "nmt.attention.LuongAttention"}


def require_bfloat16_lstm() -> None:
    """Skip the test on a CPU without LSTMs in bfloat16."""
    from nmt.training.trainer import has_bfloat16_lstm

    if not has_bfloat16_lstm():
        pytest.skip("this CPU has no LSTM in bfloat16")


def self_attention(name: str = "softmax", **settings: Any) -> dict[str, Any]:
    """Return the block of a self-attention: ``softmax`` or ``linear``."""
    return {"_target_": f"nmt.self_attention.{name.title()}SelfAttention", **settings}


def tiny_config(
    attention: Mapping[str, Any],
    *,
    size: int = 8,
    embeddings: int = 8,
    shared: bool = True,
    encoder: Mapping[str, Any] | None = None,
    decoder: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a model configuration with LSTMs of ``size`` units and without dropout.

    ``encoder`` and ``decoder`` override settings of these two groups.
    """
    units = {"hidden_size": size, "dropout": 0.0}
    return {
        "data": {"lowercase": False},
        "embeddings": {"size": embeddings, "shared": shared},
        "encoder": {"_target_": "nmt.model.LSTMEncoder", **units, **(encoder or {})},
        "attention": {**attention},
        "decoder": {"_target_": "nmt.model.LSTMDecoder", **units, **(decoder or {})},
    }


def random_model(
    config: Mapping[str, Any],
    *,
    vocabulary: int | tuple[int, int] = 290,
    longest_source: int = 40,
    seed: int = 11,
    scale: float = 1.0,
    eos_bias: float = 0.0,
) -> Seq2Seq:
    """Return an untrained model in evaluation mode.

    ``vocabulary`` is the number of pieces, of both sides or of (source, target). A ``scale`` above 1 multiplies all
    parameters, so that the hypotheses of a search differ. ``eos_bias`` is added to the score of ``</s>``, so that
    translations end.
    """
    source, target = vocabulary if isinstance(vocabulary, tuple) else (vocabulary, vocabulary)
    torch.manual_seed(seed)
    model = build_model(
        ModelSettings.of(config),
        source_vocabulary=source,
        target_vocabulary=target,
        longest_source=longest_source,
        trust=config.get("trust", ()),
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
        model.decoder.output.bias[EOS] += eos_bias
    return model.eval()


def random_trained(
    config: dict[str, Any],
    source: Tokenizer,
    target: Tokenizer | None = None,
    *,
    longest_source: int = 40,
    single_sentences: bool = False,
    length_model: LengthModel | None = None,
    **options: Any,
) -> TrainedModel:
    """Return ``random_model`` with these tokenizers; without ``target``, both sides have the same."""
    target = target or source
    model = random_model(config, vocabulary=(len(source), len(target)), longest_source=longest_source, **options)
    return TrainedModel(
        model=model,
        source=source,
        target=target,
        config=config,
        longest_source=longest_source,
        single_sentences=single_sentences,
        length_model=length_model,
    )


def save_random(
    folder: Path,
    config: dict[str, Any],
    tokenizer: Tokenizer,
    *,
    engines: Collection[OnnxEngineName] = (),
    **options: Any,
) -> TrainedModel:
    """Save ``random_trained`` in ``folder``, and export it for ``engines``."""
    from nmt.inference.onnx.export import export

    trained = random_trained(config, tokenizer, **options)
    folder.mkdir(parents=True, exist_ok=True)
    save_folder(folder, trained)
    if engines:
        export(trained, folder, engines=engines)
    return trained


def forced_log_prob(translator: Translator, line: str, tokens: Sequence[str]) -> float:
    """Return the log-probability of a translation, computed by the engine without search."""
    engine = translator.loaded_model.engine(trace=False)
    names = translator.loaded_model.target.all_pieces
    state = engine.init(engine.encode([translator.encode(line)]))
    previous, total = BOS, 0.0
    for token in tokens:
        piece = names.index(token)
        parents = np.zeros((1, 1), dtype=np.int64)
        state, log_probs, ids, _ = engine.step(state, np.array([[previous]]), parents, len(names))
        total += float(log_probs[0, 0, ids[0, 0] == piece][0])
        previous = piece
    return total


def write_lines(path: Path | str, lines: Iterable[str]) -> Path:
    """Write a text file, and return its path."""
    path = Path(path)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def write_parts(folder: Path, parts: Mapping[str, Sequence[Sequence[str]]]) -> list[str]:
    """Write the pairs of each part into two files. Return the settings that name them."""
    words = []
    for part, pairs in parts.items():
        for side, texts in zip(("src", "tgt"), zip(*pairs, strict=True), strict=True):
            file = write_lines(folder / f"{part}.{side}", texts)
            words.append(f"data.{part}.{side}={file}")
    return words


def refusal(function: Callable[..., Any], *arguments: Any, **settings: Any) -> str:
    """Call a function that must raise UserError, and return its message, which must have one line."""
    with pytest.raises(UserError) as caught:
        function(*arguments, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def expect_error(key: str, function: Callable[..., Any], *arguments: Any, **settings: Any) -> None:
    """Assert that this call raises a UserError of one line about this setting or file, ``UserError.key``.

    A ``key`` with a space is a regular expression for the message.
    """
    text = refusal(function, *arguments, **settings)
    if " " in key:
        assert re.search(key, text), text
    else:
        assert UserError(text).key == key, text


def call_before(patch: pytest.MonkeyPatch, owner: Any, name: str, action: Callable[..., Any]) -> None:
    """Let each call of this method first call ``action`` with the same arguments."""
    original = getattr(owner, name)

    def call(*arguments: Any, **options: Any) -> Any:
        action(*arguments, **options)
        return original(*arguments, **options)

    patch.setattr(owner, name, call)


def loss_curve(model: Seq2Seq, *, updates: int = 40, seed: int = 3) -> list[float]:
    """Train the model on random pairs of ragged lengths, always the same for a seed. Return the loss of each update."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = Adam(model.train().parameters(), lr=0.02)
    source_size, target_size = model.embedding.num_embeddings, model.decoder.embedding.num_embeddings
    device = model.embedding.weight.device
    batches = []
    for _ in range(4):
        ids = (torch.randint(4, size, (6, 7), generator=generator) for size in (source_size, target_size, target_size))
        masks = (torch.arange(7) < torch.randint(1, 8, (6, 1), generator=generator) for _ in range(2))
        batches.append([part.to(device) for part in (*ids, *masks)])
    losses = []
    for update in range(updates):
        source, target_in, target_out, source_mask, target_mask = batches[update % len(batches)]
        features = model.features(source, source_mask, target_in)
        loss = output_loss(model.decoder.output, features, target_out, target_mask, smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def part_spans(parts: str) -> list[tuple[int, int]]:
    """Return the span of each part of a text between bars, without the blank at its start."""
    ends = [0, *accumulate(map(len, parts.split("|")))]
    return [(stop - len(part.strip()), stop) for part, stop in zip(parts.split("|"), ends[1:], strict=True)]
