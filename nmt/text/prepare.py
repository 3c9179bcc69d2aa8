"""Tokenizers and corpora on disk, from sentence pairs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.errors import UserError
from nmt.text.corpus import Account, Corpus, write_corpus
from nmt.text.pair import Pair
from nmt.text.tokenizer import Tokenizer

PARTS = ("train", "valid", "test")
SETTINGS_FILE = "settings.json"  # how the text was prepared


@dataclass(frozen=True)
class Prepared:
    """A prepared folder: tokenizers (one object for a joint vocabulary), corpora, and an account of each part."""

    source: Tokenizer
    target: Tokenizer
    corpora: dict[str, Corpus]
    lowercase: bool
    tokenizer: dict[str, Any]  # the settings of its tokenizers
    accounts: dict[str, Account]


def prepare(
    parts: Mapping[str, Sequence[Pair]],
    data: Mapping[str, Any],
    tokenizer: Mapping[str, Any],
    folder: Path,
    *,
    given: tuple[Tokenizer, Tokenizer] | None = None,
) -> Prepared:
    """Train tokenizers on the training pairs (or take ``given`` ones) and write ``folder``/PART.arrow.

    ``data`` holds the filters ``max_length`` and ``max_ratio``. They apply to the training part only: a test set stays
    complete.
    """
    source, target = given or train_tokenizers(tokenizer, parts["train"])
    folder.mkdir(parents=True, exist_ok=True)
    for side, model in {"source": source, "target": target}.items():
        (folder / f"{side}.model").write_bytes(model.to_bytes())
    accounts, corpora = {}, {}
    for part, pairs in parts.items():
        filters = {name: data.get(name) if part == "train" else None for name in ("max_length", "max_ratio")}
        file = folder / f"{part}.arrow"
        accounts[part] = write_corpus(file, pairs, source, target, **filters, keep_empty=part != "train")
        corpora[part] = Corpus.open(file)
    settings: dict[str, Any] = {"lowercase": bool(data.get("lowercase")), "tokenizer": dict(tokenizer)}
    (folder / SETTINGS_FILE).write_text(json.dumps(settings) + "\n", encoding="utf-8")
    return Prepared(source, target, corpora, **settings, accounts=accounts)


def open_prepared(folder: Path, *, needed: Sequence[str] = ("train",)) -> Prepared:
    """Open what ``prepare`` wrote into ``folder``. Raises UserError where a file or a ``needed`` part is missing."""
    if not (folder / SETTINGS_FILE).is_file():
        raise UserError(f"data.folder={folder}: has no {SETTINGS_FILE}; name a folder that nmt-prepare wrote")
    for part in needed:
        if not (folder / f"{part}.arrow").is_file():
            raise UserError(
                f"data.folder={folder}: has no {part}.arrow; prepare the text again and add "
                f"data.{part}.src=FILE data.{part}.tgt=FILE"
            )
    source = Tokenizer.from_file(folder / "source.model")
    target = Tokenizer.from_file(folder / "target.model")
    if source.to_bytes() == target.to_bytes():
        target = source
    settings = _settings(folder)
    files = {part: folder / f"{part}.arrow" for part in PARTS}
    corpora = {part: Corpus.open(file) for part, file in files.items() if file.is_file()}
    return Prepared(source, target, corpora, settings["lowercase"], settings["tokenizer"], {})


def _settings(folder: Path) -> dict[str, Any]:
    try:
        settings: dict[str, Any] = {"tokenizer": {}} | json.loads((folder / SETTINGS_FILE).read_bytes())
    except (ValueError, TypeError):
        settings = {}
    if not isinstance(settings.get("lowercase"), bool) or not isinstance(settings["tokenizer"], dict):
        raise UserError(f"data.folder={folder}: its {SETTINGS_FILE} is damaged; prepare the text again")
    return settings


def train_tokenizers(settings: Mapping[str, Any], pairs: Sequence[Pair]) -> tuple[Tokenizer, Tokenizer]:
    """Return the source and target tokenizers, one object if ``joint``; given SentencePiece models are used as is."""
    sources, targets = (pair.source for pair in pairs), (pair.target for pair in pairs)
    if settings["joint"]:
        if settings["source_model"] is not None:
            joint = Tokenizer.from_file(Path(settings["source_model"]))
        else:
            joint = _train(settings, (text for pair in pairs for text in (pair.source, pair.target)))
        return joint, joint
    models = {"source_model": sources, "target_model": targets}
    source, target = (
        _train(settings, texts) if settings[key] is None else Tokenizer.from_file(Path(settings[key]))
        for key, texts in models.items()
    )
    return source, target


def _train(settings: Mapping[str, Any], texts: Iterator[str]) -> Tokenizer:
    return Tokenizer.train(
        texts,
        vocab_size=settings["vocab_size"],
        kind=settings["kind"],
        character_coverage=settings["character_coverage"],
    )
