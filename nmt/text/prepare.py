"""Tokenizers and corpora in a folder, from sentence pairs, with ``settings.json``: how the text was prepared."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from nmt.data.filters import TEST_FILTERS, Filters
from nmt.data.invisible import Invisible
from nmt.data.links import Pair
from nmt.data.sources import PARTS
from nmt.errors import UserError, counted
from nmt.files.atomic import make_folder, write_bytes, write_lines
from nmt.files.checksum import checksum, require_format, verify_file
from nmt.files.reading import read_json
from nmt.settings.build import build, plain, problems
from nmt.system.progress import Progress
from nmt.text.corpus import FIX, Corpus, PairCounts, write_corpus
from nmt.text.tokenizer import Tokenizer, TokenizerSettings

TOKENIZER_FILES = ("source.model", "target.model")
SETTINGS_FILE = "settings.json"
FORMAT = 3
SAMPLE_PAIRS = 200_000  # a tokenizer learns from at most this many training pairs
SEED = 1  # of the sample


def sample_pairs(pairs: Iterable[Pair]) -> tuple[int, list[Pair]]:
    """Return the number of pairs, and at most ``SAMPLE_PAIRS`` of them, each equally likely (Vitter's algorithm R)."""
    generator = random.Random(SEED)
    sample: list[tuple[int, Pair]] = []
    count = 0
    for pair in Progress("pair", title="reading the training text").watch(pairs):
        if count < SAMPLE_PAIRS:
            sample.append((count, pair))
        elif (index := int(generator.random() * (count + 1))) < SAMPLE_PAIRS:
            sample[index] = (count, pair)
        count += 1
    sample.sort(key=lambda item: item[0])
    return count, [pair for _, pair in sample]


@dataclass(frozen=True, kw_only=True)
class PreparedSettings:
    """The content of ``settings.json``."""

    format: int = FORMAT
    lowercase: bool
    remove_invisible: Invisible | None
    tokenizer: TokenizerSettings
    pair_counts: dict[str, PairCounts]
    """The counts of each part."""
    checksums: dict[str, int] = field(default_factory=dict)
    """The CRC-32 of each tokenizer and corpus file."""
    checksum: int = 0
    """Changes with all other entries, so with the text, the tokenizers and the settings."""


@dataclass(frozen=True, kw_only=True)
class Prepared(PreparedSettings):
    """A prepared folder: its settings, tokenizers (one object for a joint vocabulary) and corpora."""

    source: Tokenizer
    target: Tokenizer
    corpora: dict[str, Corpus]


def prepare(
    parts: Mapping[str, Iterable[Pair]],
    filters: Filters,
    tokenizer: TokenizerSettings,
    folder: Path,
    *,
    tokenizers: tuple[Tokenizer, Tokenizer] | None = None,
    workers: int = 1,
) -> Prepared:
    """Train tokenizers on the training pairs (or take these ``tokenizers``) and write ``folder``/PART.arrow.

    The filters apply to the training part only: a test set stays complete. A training part that is larger than
    ``SAMPLE_PAIRS`` is iterated twice, and ``workers`` processes encode it.
    """
    count, sample = sample_pairs(parts["train"])
    make_folder(folder)
    sides = [pair.source for pair in sample], [pair.target for pair in sample]
    source, target = tokenizers or tokenizer.train(*sides)
    for name, model in zip(TOKENIZER_FILES, (source, target), strict=True):
        write_bytes(folder / name, model.to_bytes())
    train = sample if len(sample) == count else parts["train"]
    del sides, sample
    accounts = {part: PairCounts() for part in parts}
    others = {part: list(pairs) for part, pairs in parts.items() if part != "train"}
    for part, pairs in others.items():
        write_corpus(folder / f"{part}.arrow", pairs, source, target, TEST_FILTERS, accounts[part])
    overlap = Overlap(others)
    progress = Progress("pair", title="encoding the training text", total=lambda: count)
    distinct = overlap.watch(progress.watch(train))
    if not filters.duplicates:
        distinct = without_duplicates(distinct, accounts["train"])
    write_corpus(folder / "train.arrow", distinct, source, target, filters, accounts["train"], workers=workers)
    overlap.count(accounts)
    settings = PreparedSettings(
        lowercase=filters.lowercase,
        remove_invisible=filters.remove_invisible,
        tokenizer=tokenizer,
        pair_counts=accounts,
    )
    write_settings(folder, settings)
    return open_prepared(folder)


def reading_problems(prepared: Prepared, *, setting: str | None = None) -> list[str]:
    """Return a warning for each side that a tokenizer cannot read, and for a test part that measures something else.

    ``setting`` named the tokenizers, if they were not trained on this text, such as ``init_from=``.
    """
    warnings = []
    given = setting or (None if prepared.tokenizer.model is None else "tokenizer.model=")
    fix = f"train a new tokenizer, without {given}" if given else "train on such text, or give other text"
    for part, counts in prepared.pair_counts.items():
        for side, coverage in counts.sides.items():
            if (problem := coverage.problem()) is not None:
                warnings.append(f"{part} {side}: {problem}; {fix}")
        if counts.empty:
            warnings.append(f"{part}: {counted(counts.empty, 'pair')} with an empty side; remove them")
    corpora = prepared.corpora
    if {"valid", "test"} <= corpora.keys() and corpora["test"].sources() == corpora["valid"].sources():
        warnings.append("test: has the sources of valid, which chooses the model; give other text")
    return warnings


def open_prepared(folder: Path, *, needed: Sequence[str] = ("train",)) -> Prepared:
    """Open a folder that ``prepare`` wrote.

    Raises UserError if a file or a ``needed`` part is missing, or if a file has changed since.
    """
    if missing := missing_parts(folder, needed):
        raise UserError(*missing)
    settings = read_settings(folder)
    for name in settings.checksums:
        verify_file(folder / name, settings.checksums, kind="prepared text", fix=FIX)
    source, target = (Tokenizer.from_file(folder / name) for name in TOKENIZER_FILES)
    target = source if source.to_bytes() == target.to_bytes() else target
    corpora = {part: Corpus(file) for part in PARTS if (file := folder / f"{part}.arrow").name in settings.checksums}
    return Prepared(**vars(settings), source=source, target=target, corpora=corpora)


def write_settings(folder: Path, settings: PreparedSettings) -> None:
    """Write ``settings.json`` with the checksums of the tokenizers and corpora in ``folder``, and its own."""
    names = [*TOKENIZER_FILES, *(f"{part}.arrow" for part in PARTS)]
    checksums = {name: checksum(folder / name) for name in names if (folder / name).is_file()}
    content = plain(replace(settings, checksums=checksums))
    del content["checksum"]
    write_lines(folder / SETTINGS_FILE, [json.dumps({**content, "checksum": settings_checksum(content)})])


def read_settings(folder: Path) -> PreparedSettings:
    """Read ``settings.json``. Raises UserError unless ``write_settings`` could have written it."""
    try:
        stored: dict[str, Any] = read_json(folder / SETTINGS_FILE)
        require_format(stored.get("format"), FORMAT, name=folder / SETTINGS_FILE, fix=FIX)
        content = {key: value for key, value in stored.items() if key != "checksum"}
        valid = stored.get("checksum") == settings_checksum(content) and not any(problems(stored, PreparedSettings))
        counted_files = {f"{part}.arrow" for part in stored["pair_counts"]}
        valid = valid and counted_files >= stored["checksums"].keys() - {*TOKENIZER_FILES}
        # An interpolation in a name of a file would be replaced when it is saved in config.yaml.
        if valid and not any("${" in str(value) for value in stored["tokenizer"].values()):
            return build(PreparedSettings, stored)
    except (OSError, ValueError, AttributeError, KeyError):  # AttributeError: not an object
        pass
    raise UserError(f"data.folder={folder}: its {SETTINGS_FILE} is damaged; {FIX}")


def settings_checksum(settings: Mapping[str, Any]) -> int:
    """Return the CRC-32 of the settings, which does not depend on the order of their keys."""
    return checksum(json.dumps(settings, sort_keys=True).encode())


def missing_parts(folder: Path, needed: Iterable[str]) -> list[str]:
    """Return an error for each ``needed`` part that ``prepare`` did not write into ``folder``."""
    if not (folder / SETTINGS_FILE).is_file():
        return [f"data.folder={folder}: has no {SETTINGS_FILE}; name a folder that nmt-prepare wrote"]
    checksums = read_settings(folder).checksums
    return [
        f"data.folder={folder}: has no {part}.arrow; prepare the text again and add "
        f"data.{part}.src=FILE data.{part}.tgt=FILE"
        for part in needed
        if f"{part}.arrow" not in checksums
    ]


def without_duplicates(pairs: Iterable[Pair], counts: PairCounts) -> Iterator[Pair]:
    """Yield the pairs without later copies of the same pair, and count the copies in ``counts``.

    Two different pairs are taken for copies if their 64-bit hashes are equal: among 50 million pairs the probability is
    below 1 in 10,000.
    """
    seen = set[bytes]()
    for pair in pairs:
        if pair.source.strip() and pair.target.strip():  # empty sides have their own count
            text = f"{len(pair.source)} {pair.source}{pair.target}"
            digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            if digest in seen:
                counts.dropped["duplicate"] += 1
                continue
            seen.add(digest)
        yield pair


class Overlap:
    """Compares ``parts`` with the training pairs that pass through ``watch``, without spaces at their ends."""

    def __init__(self, parts: Mapping[str, Sequence[Pair]]) -> None:
        self._parts = {part: [_sides(pair) for pair in pairs] for part, pairs in parts.items()}
        self._sources = {source for sides in self._parts.values() for source, _ in sides if source}
        self._common: dict[str, set[str]] = {}

    def watch(self, train: Iterable[Pair]) -> Iterator[Pair]:
        """Yield the training pairs, and remember those whose source a part has."""
        for pair in train:
            source = pair.source.strip()
            if source in self._sources:
                self._common.setdefault(source, set()).add(pair.target.strip())
            yield pair

    def count(self, pair_counts: Mapping[str, PairCounts]) -> None:
        """Store the counts of each part in ``pair_counts``."""
        for part, sides in self._parts.items():
            pair_counts[part].sources_in_train = sum(source in self._common for source, _ in sides)
            pair_counts[part].in_train = sum(target in self._common.get(source, ()) for source, target in sides)


def _sides(pair: Pair) -> tuple[str, str]:
    return pair.source.strip(), pair.target.strip()
