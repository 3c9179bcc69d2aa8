"""Tokenizers and corpora on disk, from sentence pairs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from nmt.data.filters import TEST_FILTERS, Filters
from nmt.data.pair import Pair
from nmt.data.sources import PARTS
from nmt.errors import UserError, counted, print_message, printable
from nmt.files.atomic import make_folder, write_bytes
from nmt.files.checksum import checksum, verify_file
from nmt.system.progress import Progress
from nmt.text.corpus import Corpus, write_corpus
from nmt.text.duplicates import Overlap, without_duplicates
from nmt.text.pair_counts import PairCounts
from nmt.text.prepared_settings import (
    FIX,
    TOKENIZER_FILES,
    PreparedSettings,
    missing_parts,
    part_files,
    read_settings,
    write_settings,
)
from nmt.text.shards import SHARDING, ShardedCorpus, Sharding, ShardWriter, write_shards
from nmt.text.tokenizer import Tokenizer, TokenizerSettings, WrongSize
from nmt.text.unfinished import Unfinished

MANY_PAIRS = 50_000  # from this number on, a message says that the tokenizer is learning: it takes many seconds
SHOWN = 80  # characters of the pieces of a sentence
SAMPLE_PAIRS = 200_000  # a tokenizer learns from at most this many training pairs
SEED = 1  # of the sample


@dataclass
class Scan:
    """The number of training pairs, a random ``sample`` of them in their order, and the fingerprint of all text."""

    count: int
    sample: list[Pair]
    fingerprint: str

    @property
    def is_complete(self) -> bool:
        """Whether the sample holds every pair."""
        return len(self.sample) == self.count


def scan_pairs(pairs: Iterable[Pair]) -> Scan:
    """Return the scan of the pairs. All pairs are equally likely in its sample (Vitter's algorithm R)."""
    digest = sha256()
    generator = random.Random(SEED)
    sample: list[tuple[int, Pair]] = []
    count = 0
    for pair in Progress("pair", title="reading the training text").watch(pairs):
        digest.update(_bytes(pair))
        if count < SAMPLE_PAIRS:
            sample.append((count, pair))
        elif (index := int(generator.random() * (count + 1))) < SAMPLE_PAIRS:
            sample[index] = (count, pair)
        count += 1
    sample.sort(key=lambda item: item[0])
    return Scan(count, [pair for _, pair in sample], digest.hexdigest())


def unchanged(pairs: Iterable[Pair], scanned: Scan) -> Iterator[Pair]:
    """Yield the pairs again. Raises UserError after the last one if they are not those of the scan."""
    digest = sha256()
    for pair in pairs:
        digest.update(_bytes(pair))
        yield pair
    if digest.hexdigest() != scanned.fingerprint:
        raise UserError("data.train: the text changed while it was read; run the command again when it is complete")


def _bytes(pair: Pair) -> bytes:
    return repr(tuple(pair)).encode("ascii", "backslashreplace")


@dataclass(frozen=True, kw_only=True)
class Prepared(PreparedSettings):
    """A prepared folder: its settings, tokenizers (one object for a joint vocabulary) and corpora."""

    source: Tokenizer
    target: Tokenizer
    corpora: dict[str, Corpus]
    sampled: int | None = None  # training pairs that a tokenizer learned from, if not from all


def prepare(
    parts: Mapping[str, Iterable[Pair]],
    filters: Filters,
    tokenizer: TokenizerSettings,
    folder: Path,
    *,
    tokenizers: tuple[Tokenizer, Tokenizer] | None = None,
    scanned: Scan | None = None,
    sharding: Sharding = SHARDING,
) -> Prepared:
    """Train tokenizers on the training pairs (or take these ``tokenizers``) and write ``folder``/PART.arrow.

    The filters apply to the training part only: a test set stays complete. A training part with more pairs than
    ``sharding.pairs`` is written in shards, and iterated twice unless ``scanned`` is its scan.
    """
    scanned = scanned or scan_pairs(parts["train"])
    make_folder(folder)
    if tokenizers is None and len(scanned.sample) >= MANY_PAIRS:
        print_message(f"tokenizer: learning pieces from {counted(len(scanned.sample), 'pair')} …")
    source, target = tokenizers or _tokenizers(tokenizer, scanned.sample, sharding.unfinished)
    for name, model in zip(TOKENIZER_FILES, (source, target), strict=True):
        write_bytes(folder / name, model.to_bytes())
    sampled = None if tokenizers or scanned.is_complete else len(scanned.sample)
    pair_counts: dict[str, PairCounts] = {part: PairCounts() for part in parts}
    checksums: dict[str, int] = {}
    others = {part: list(pairs) for part, pairs in parts.items() if part != "train"}
    overlap = Overlap(others)
    encoding = Progress("pair", title="encoding the training text", total=lambda: scanned.count)
    for part, others_pairs in others.items():
        write_corpus(folder / f"{part}.arrow", others_pairs, source, target, TEST_FILTERS, pair_counts[part])
    if scanned.count > sharding.pairs:
        scanned.sample.clear()
        writer = ShardWriter(folder, source, target, filters)
        train = overlap.watch(encoding.watch(unchanged(parts["train"], scanned)))
        pair_counts["train"], checksums = write_shards(writer, train, sharding, filters.duplicates)
    else:
        pairs = scanned.sample if scanned.is_complete else unchanged(parts["train"], scanned)
        distinct = without_duplicates(overlap.watch(encoding.watch(pairs)), filters.duplicates, pair_counts["train"])
        write_corpus(folder / "train.arrow", distinct, source, target, filters, pair_counts["train"])
    overlap.count(pair_counts)
    settings = PreparedSettings(
        lowercase=filters.lowercase,
        remove_invisible=filters.remove_invisible,
        tokenizer=tokenizer,
        accounts=pair_counts,
        checksums=checksums,
    )
    write_settings(folder, settings)
    return replace(open_prepared(folder), sampled=sampled)


def piece_lines(prepared: Prepared) -> list[str]:
    """Return one short line for each side of the first training pair: its pieces."""
    sides = zip(("source", "target"), (prepared.source, prepared.target), prepared.corpora["train"].ids(0), strict=True)
    lines = []
    for side, tokenizer, ids in sides:
        text = " ".join(tokenizer.pieces(ids[:SHOWN].tolist()))
        cut = len(ids) > SHOWN or len(text) > SHOWN
        lines.append(printable(f"train {side}: {text[:SHOWN]}{' …' if cut else ''}"))
    return lines


def reading_problems(prepared: Prepared, *, setting: str | None = None) -> list[str]:
    """Return a warning for each side that a tokenizer cannot read, and for a test part that measures something else.

    ``setting`` named the tokenizers, if they were not trained on this text, such as ``init_from=``.
    """
    warnings = []
    for part, counts in prepared.pair_counts.items():
        for side, coverage in (("source", counts.source), ("target", counts.target)):
            if (problem := coverage.problem(_advice(prepared.tokenizer, part, side, setting))) is not None:
                warnings.append(f"{part} {side}: {problem}")
        if counts.empty:
            warnings.append(f"{part}: {counted(counts.empty, 'pair')} with an empty side; remove them")
    corpora = prepared.corpora
    if {"valid", "test"} <= corpora.keys() and corpora["test"].sources() == corpora["valid"].sources():
        warnings.append("test: has the sources of valid, which chooses the model; give other text")
    return warnings


def _advice(settings: TokenizerSettings, part: str, side: str, setting: str | None) -> str:
    """Return the fix for a side of a part that its tokenizer cannot read."""
    if setting is not None:
        return f"start from a model that knows this text, or train a new one without {setting}"
    key, model = settings.model_of(side)
    if model is not None:
        return f"choose another {key}, or remove it to train one on this text"
    if part != "train":
        return f"the training text has no such characters: give {part} text in the same language, or train on such text"
    return "raise tokenizer.character_coverage"


def _tokenizers(
    settings: TokenizerSettings, sample: Sequence[Pair], unfinished: Unfinished | None
) -> tuple[Tokenizer, Tokenizer]:
    """Return trained tokenizers, or those that a killed call has trained."""
    if unfinished is None:
        return train_tokenizers(settings, sample)
    if unfinished.read("tokenizers") is None:
        models = train_tokenizers(settings, sample)
        for name, model in zip(TOKENIZER_FILES, models, strict=True):
            write_bytes(unfinished.folder / name, model.to_bytes())
        files = {name: checksum(unfinished.folder / name) for name in TOKENIZER_FILES}
        unfinished.write("tokenizers", {"files": files})
    return _open_tokenizers(unfinished.folder)


def open_prepared(folder: Path, *, needed: Sequence[str] = ("train",)) -> Prepared:
    """Open a folder that ``prepare`` wrote.

    Raises UserError if a file or a ``needed`` part is missing, or if a file has changed since.
    """
    if missing := missing_parts(folder, needed):
        raise UserError(*missing)
    settings = read_settings(folder)
    checksums = settings.checksums
    files = {part: part_files(part, checksums) for part in PARTS}
    for name in TOKENIZER_FILES:
        verify_file(folder / name, checksums, kind="a tokenizer", fix=FIX)
    source, target = _open_tokenizers(folder)
    corpora = {part: _open_part(folder, part, checksums, (len(source), len(target))) for part in PARTS if files[part]}
    return Prepared(**vars(settings), source=source, target=target, corpora=corpora)


def _open_part(folder: Path, part: str, checksums: Mapping[str, int], vocabularies: tuple[int, int]) -> Corpus:
    """Open a corpus. A single file is verified now, shards when they are used."""
    files = part_files(part, checksums)
    if files != [f"{part}.arrow"]:
        return ShardedCorpus([folder / name for name in files], checksums, vocabularies)
    verify_file(folder / files[0], checksums, kind="a corpus", fix=FIX)
    return Corpus.open(folder / files[0], vocabularies=vocabularies)


def _open_tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """Return the source and the target tokenizer, one object if they are equal."""
    source, target = (Tokenizer.from_file(folder / name) for name in TOKENIZER_FILES)
    return source, source if source.to_bytes() == target.to_bytes() else target


def train_tokenizers(settings: TokenizerSettings, pairs: Sequence[Pair]) -> tuple[Tokenizer, Tokenizer]:
    """Return the source and target tokenizers, one object if ``joint``. SentencePiece models of the user are kept.

    Raises UserError if a text cannot have as many pieces. It names the sides, and for each a size that works.
    """
    texts = {"source": [pair.source for pair in pairs], "target": [pair.target for pair in pairs]}
    if settings.joint:
        texts = {"source": [side for pair in pairs for side in pair[:2]]}
    tokenizers = list[Tokenizer]()
    wrong_sizes = list[str]()
    for side, lines in texts.items():
        if (model := settings.model_of(side)[1]) is not None:
            tokenizers.append(Tokenizer.from_file(Path(model)))
            continue
        try:
            tokenizers.append(_train(settings, lines, settings.size_of(side)[1]))
        except WrongSize as error:
            wrong_sizes.append(_size_advice(settings, lines, error, side))
    if wrong_sizes:
        raise UserError(*wrong_sizes)
    return tokenizers[0], tokenizers[-1]


def _size_advice(settings: TokenizerSettings, lines: Sequence[str], error: WrongSize, side: str) -> str:
    """Return an error message with the limit of the vocabulary size of one side, and a size that works."""
    limits = [error]
    working = None
    while working is None and limits[-1].limit not in [limit.size for limit in limits]:
        try:
            working = len(_train(settings, lines, limits[-1].limit))
        except WrongSize as other:
            limits.append(other)
    text = "this text" if settings.joint else f"the {side} text"
    given = f"{settings.size_of(side)[0]}={error.size}"
    if working is None:
        return f"{given}: {text} is too small for its characters; give more text, or set tokenizer.kind=bpe"
    key = "tokenizer.vocab_size" if settings.joint else f"tokenizer.{side}_vocab_size"
    bound = "yields at most" if working < error.size else "needs at least"
    return f"{given}: {text} {bound} {counted(working, 'piece')}; set {key}={working}"


def _train(settings: TokenizerSettings, lines: Sequence[str], size: int) -> Tokenizer:
    return Tokenizer.train(
        lines,
        vocab_size=size,
        kind=settings.kind,
        character_coverage=settings.character_coverage,
        normalisation=settings.normalisation,
    )
