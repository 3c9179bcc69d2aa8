"""Tokenizers and corpora on disk, from sentence pairs."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.errors import UserError
from nmt.reading import read_json
from nmt.storage import checksum, require_format, verify_file, write_lines
from nmt.text.corpus import Account, Corpus, write_corpus
from nmt.text.pair import Pair
from nmt.text.tokenizer import Tokenizer

PARTS = ("train", "valid", "test")
TOKENIZER_FILES = ("source.model", "target.model")
SETTINGS_FILE = "settings.json"  # how the text was prepared, and a checksum of every file
FORMAT = 2
FIX = "prepare the text again with nmt-prepare"
TOKENIZER_SETTINGS: dict[str, tuple[type, ...]] = {
    "kind": (str,),
    "vocab_size": (int,),
    "joint": (bool,),
    "character_coverage": (float, int),
    "source_model": (str, type(None)),
    "target_model": (str, type(None)),
}


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
    for name, model in zip(TOKENIZER_FILES, (source, target), strict=True):
        (folder / name).write_bytes(model.to_bytes())
    accounts, corpora = {}, {}
    for part, pairs in parts.items():
        filters = {name: data.get(name) if part == "train" else None for name in ("max_length", "max_ratio")}
        file = folder / f"{part}.arrow"
        accounts[part] = write_corpus(file, pairs, source, target, **filters, keep_empty=part != "train")
        corpora[part] = Corpus.open(file)
    settings: dict[str, Any] = {"lowercase": bool(data.get("lowercase")), "tokenizer": dict(tokenizer)}
    write_settings(folder, settings)
    return Prepared(source, target, corpora, **settings, accounts=accounts)


def write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write ``settings.json`` with the checksums of the tokenizers and corpora in ``folder``, and its own."""
    names = [*TOKENIZER_FILES, *(f"{part}.arrow" for part in PARTS)]
    checksums = {name: checksum(folder / name) for name in names if (folder / name).is_file()}
    stored = {"format": FORMAT, **settings, "checksums": checksums}
    write_lines(folder / SETTINGS_FILE, [json.dumps({**stored, "checksum": _own_checksum(stored)})])


def open_prepared(folder: Path, *, needed: Sequence[str] = ("train",)) -> Prepared:
    """Open what ``prepare`` wrote into ``folder``.

    Raises UserError where a file or a ``needed`` part is missing, or where a file differs from what ``prepare`` wrote.
    """
    if not (folder / SETTINGS_FILE).is_file():
        raise UserError(f"data.folder={folder}: has no {SETTINGS_FILE}; name a folder that nmt-prepare wrote")
    settings = _settings(folder)
    checksums = settings["checksums"]
    for part in needed:
        if f"{part}.arrow" not in checksums:
            raise UserError(
                f"data.folder={folder}: has no {part}.arrow; prepare the text again and add "
                f"data.{part}.src=FILE data.{part}.tgt=FILE"
            )
    source, target = (
        Tokenizer.from_file(verify_file(folder / name, checksums, kind="a tokenizer", fix=FIX))
        for name in TOKENIZER_FILES
    )
    if source.to_bytes() == target.to_bytes():
        target = source
    corpora = {}
    for part in PARTS:
        if f"{part}.arrow" in checksums:
            file = verify_file(folder / f"{part}.arrow", checksums, kind="a corpus", fix=FIX)
            corpora[part] = Corpus.open(file, vocabularies=(len(source), len(target)))
    return Prepared(source, target, corpora, settings["lowercase"], settings["tokenizer"], {})


def _settings(folder: Path) -> dict[str, Any]:
    """Read ``settings.json``. Raises UserError unless ``write_settings`` could have written it."""
    try:
        settings: dict[str, Any] = read_json(folder / SETTINGS_FILE)
        require_format(settings.get("format"), FORMAT, place=folder / SETTINGS_FILE, fix=FIX)
        valid = settings.pop("checksum", None) == _own_checksum(settings) and _are_valid(settings)
    except (OSError, ValueError, AttributeError):  # AttributeError: not an object
        valid = False
    if not valid:
        raise UserError(f"data.folder={folder}: its {SETTINGS_FILE} is damaged; {FIX}")
    return settings


def _are_valid(settings: Mapping[str, Any]) -> bool:
    tokenizer, checksums = settings.get("tokenizer"), settings.get("checksums")
    return (
        isinstance(settings.get("lowercase"), bool)
        and isinstance(tokenizer, dict)
        and tokenizer.keys() == TOKENIZER_SETTINGS.keys()
        and all(type(value) in TOKENIZER_SETTINGS[name] for name, value in tokenizer.items())
        and tokenizer["kind"] in ("bpe", "unigram")
        and not any("${" in str(value) for value in tokenizer.values())  # interpolated when it is saved in config.yaml
        and isinstance(checksums, dict)
    )


def _own_checksum(settings: Mapping[str, Any]) -> int:
    """Return the CRC-32 of the settings, however they are laid out."""
    return zlib.crc32(json.dumps(settings, sort_keys=True).encode())


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
