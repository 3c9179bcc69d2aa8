"""From text, or a generated task, to tokenizers and corpora on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from nmt.errors import UserError
from nmt.text.corpus import Account, Corpus, write_corpus
from nmt.text.files import read_pairs
from nmt.text.pair import Pair
from nmt.text.tokenizer import Tokenizer

PARTS = ("train", "valid", "test")
SETTINGS_FILE = "settings.json"  # what a model must know of the text's preparation, beside its tokenizers


@dataclass(frozen=True)
class Prepared:
    """Tokenizers (one object for a joint vocabulary), corpora by part, and what became of the text on its way there."""

    source: Tokenizer
    target: Tokenizer
    corpora: dict[str, Corpus]
    lowercase: bool
    tokenizer: dict[str, Any]  # the settings of its tokenizers
    accounts: dict[str, Account]


def prepare(
    data: Mapping[str, Any],
    tokenizer: Mapping[str, Any],
    folder: Path,
    *,
    given: tuple[Tokenizer, Tokenizer] | None = None,
) -> Prepared:
    """Read the text that ``data`` names, train tokenizers (or take ``given`` ones), write ``folder``/PART.arrow.

    Filters apply to the training part alone: a test set is translated whole.
    """
    parts = load_pairs(data)
    source, target = given or train_tokenizers(tokenizer, parts["train"])
    folder.mkdir(parents=True, exist_ok=True)
    for name, one in {"source": source, "target": target}.items():
        (folder / f"{name}.model").write_bytes(one.to_bytes())
    accounts, corpora = {}, {}
    for part, pairs in parts.items():
        filters = {"max_length": None, "max_ratio": None}
        if part == "train":
            filters = {name: data[name] for name in filters}
        file = folder / f"{part}.arrow"
        accounts[part] = write_corpus(file, pairs, source, target, **filters, keep_empty=part != "train")
        corpora[part] = Corpus.open(folder / f"{part}.arrow")
    settings: dict[str, Any] = {"lowercase": bool(data["lowercase"]), "tokenizer": dict(tokenizer)}
    (folder / SETTINGS_FILE).write_text(json.dumps(settings) + "\n", encoding="utf-8")
    return Prepared(source, target, corpora, **settings, accounts=accounts)


def open_prepared(folder: Path, *, needed: Sequence[str] = ("train",)) -> Prepared:
    """What ``prepare`` wrote into ``folder``. Raises UserError where a file or a ``needed`` part is missing."""
    if not (folder / SETTINGS_FILE).is_file():
        raise UserError(f"data.folder={folder}: no {SETTINGS_FILE} there; name a folder that nmt-prepare wrote")
    for part in needed:
        if not (folder / f"{part}.arrow").is_file():
            raise UserError(
                f"data.folder={folder}: no {part}.arrow there; name a folder that nmt-prepare wrote, "
                f"given data.{part}.src=FILE data.{part}.tgt=FILE"
            )
    source = Tokenizer.from_file(folder / "source.model")
    target = Tokenizer.from_file(folder / "target.model")
    if source.to_bytes() == target.to_bytes():
        target = source
    settings = _settings(folder)
    there = [part for part in PARTS if (folder / f"{part}.arrow").is_file()]
    corpora = {part: Corpus.open(folder / f"{part}.arrow") for part in there}
    return Prepared(source, target, corpora, settings["lowercase"], settings["tokenizer"], {})


def _settings(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = {"tokenizer": {}} | json.loads((folder / SETTINGS_FILE).read_bytes())
    except (ValueError, TypeError):
        found = {}
    if not isinstance(found.get("lowercase"), bool) or not isinstance(found["tokenizer"], dict):
        raise UserError(f"data.folder={folder}: its {SETTINGS_FILE} is damaged; prepare the text again")
    return found


def load_pairs(data: Mapping[str, Any]) -> dict[str, list[Pair]]:
    """Sentence pairs by part, of the parts that are given, lower-cased on request."""
    if data["kind"] == "text":
        parts = dict(_read_text(data))
    else:
        task = import_module("nmt.tasks.grammar" if data["kind"] == "generated" else "nmt.tasks.copy")
        parts = task.generate(**{f"{part}_pairs": data[f"{part}_pairs"] for part in PARTS}, seed=data["seed"])
    if data["lowercase"]:
        parts = {part: [_lower(pair) for pair in pairs] for part, pairs in parts.items()}
    return parts


def _read_text(data: Mapping[str, Any]) -> Iterator[tuple[str, list[Pair]]]:
    for part in PARTS:
        files = data[part]
        if files["src"] is not None:
            links = {"links": files["links"], "links_base": files["links_base"]} if "links" in files else {}
            yield part, read_pairs(files["src"], files["tgt"], **links)


def _lower(pair: Pair) -> Pair:
    return pair._replace(source=pair.source.lower(), target=pair.target.lower())


def train_tokenizers(settings: Mapping[str, Any], pairs: Sequence[Pair]) -> tuple[Tokenizer, Tokenizer]:
    """Source and target tokenizer, one and the same where ``joint``; given SentencePiece models are kept."""
    sources, targets = (pair.source for pair in pairs), (pair.target for pair in pairs)
    if settings["joint"]:
        if settings["source_model"] is not None:
            joint = Tokenizer.from_file(Path(settings["source_model"]))
        else:
            joint = _train(settings, (text for pair in pairs for text in (pair.source, pair.target)))
        return joint, joint
    found = []
    for given, texts in ((settings["source_model"], sources), (settings["target_model"], targets)):
        found.append(Tokenizer.from_file(Path(given)) if given is not None else _train(settings, texts))
    return found[0], found[1]


def _train(settings: Mapping[str, Any], texts: Iterator[str]) -> Tokenizer:
    return Tokenizer.train(
        texts,
        vocab_size=settings["vocab_size"],
        kind=settings["kind"],
        character_coverage=settings["character_coverage"],
    )
