"""Signs that files were mixed up: exchanged languages, shifted, empty or repeated lines."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from nmt.data.words import SPACED
from nmt.errors import counted
from nmt.text.corpus import Corpus

BLOCKS = 10  # parts of a text that are read
BLOCK_PAIRS = 1000  # neighbouring pairs of each
MIN_PAIRS = 100  # pairs of which a correlation says something
COMPARED_PAIRS = 500  # pairs of another part whose words are compared
MARGIN = 0.3  # by which a correlation or a share of words has to be larger: corpora sorted by length differ by less
MIN_CORRELATION = 0.5  # correlation of the lengths of translations, which is 0.86 to 0.97 in seven corpora
MIN_LINES = 20  # lines of which a share says something
# The smaller of the shares of words that each side has from the other: at most 0.37 in 18 files of 7 language pairs.
# The halves of one side share 0.84 to 0.98 if they have 3,000 lines.
MAX_SHARED = 0.65
MIN_VOCABULARY = 1000  # different words of a side; tasks with symbols, such as copying them, have fewer
MAX_REPEATED = 0.2  # of the first pairs; at most 0.01 in these files
MAX_TWO_FORMS = 0.05  # of the lines
MAX_DOTTED = 0.01  # of the lines
FIRST_PAIRS = 100_000  # pairs, which take 0.1 s
SIDES = ("source", "target")
STYLES: dict[str, Callable[[str], object]] = {
    "capital letters": lambda line: line != line.lower(),
    "a space before a full stop or comma": SPACED.search,
}
CYRILLIC = re.compile("[а-яђјљњћџА-ЯЂЈЉЊЋЏ]")
SERBIAN: dict[int, int | str] = {
    **str.maketrans("абвгдђежзијклмнопрстћуфхцчш", "abvgdđežzijklmnoprstćufhcčš"),
    **{ord("љ"): "lj", ord("њ"): "nj", ord("џ"): "dž"},
}
Texts = tuple[list[str], list[str]]


def mixed_up(corpora: Mapping[str, Corpus], normalised: Collection[str] = ()) -> Iterator[str]:
    """Yield a warning for each sign that the files of the parts do not belong together, with the fix.

    The tokenizers of ``normalised`` sides read all normal forms of Unicode as one.
    """
    train: Texts = ([], [])
    known = _vocabularies(train)
    for part in sorted(corpora, key=lambda part: part != "train"):
        corpus = corpora[part].head() if part == "train" else corpora[part]
        starts = range(0, len(corpus), max(BLOCK_PAIRS, len(corpus) // BLOCKS))
        blocks = [_texts(corpus, start, BLOCK_PAIRS) for start in starts]
        yield from (f"{part}: {problem}" for problem in _unlike_lengths(blocks, starts))
        texts: Texts = ([x for block in blocks for x in block[0]], [y for block in blocks for y in block[1]])
        lettered = [sum(any(map(str.isalpha, line)) for line in side) * 2 > len(side) for side in texts]
        if lettered[0] != lettered[1] and len(texts[0]) >= MIN_LINES:
            yield f"{part} {SIDES[lettered.index(False)]}: most lines have no letters; choose other files or columns"
        if part == "train":
            train = texts
            known = _vocabularies(train)
            yield from (f"train: {problem}" for problem in (*_one_language(train, known), *_repeated(corpus)))
            yield from (f"train {problem}" for problem in _mixed_letters(train, known, normalised))
            continue
        empty = sum(not (x.strip() and y.strip()) for x, y in zip(corpus.sources(), corpus.targets(), strict=True))
        if empty:
            yield f"{part}: {empty:,} of {counted(len(corpus), 'pair')} have an empty side; they lower its scores"
        yield from (f"{part}{problem}" for problem in _other_language(_texts(corpus, 0, COMPARED_PAIRS), known))
        yield from (f"{part} {problem}" for problem in _other_style(texts, train))
    if {"valid", "test"} <= corpora.keys() and corpora["test"].sources() == corpora["valid"].sources():
        yield "test: has the sources of valid, which chooses the model, so its scores are too high; give other text"


def _other_style(texts: Texts, train: Texts) -> Iterator[str]:
    """Yield a warning for each side that is tokenized or lower-cased while that of train is not, or vice versa."""
    for side, lines, others in zip(SIDES, texts, train, strict=True):
        for style, sign in STYLES.items():
            share, expected = (100 * sum(map(bool, map(sign, text))) / max(1, len(text)) for text in (lines, others))
            if len(lines) >= MIN_LINES and abs(share - expected) > 50:
                counts = f"{share:.0f} % of its lines have {style}, {expected:.0f} % in train"
                yield f"{side}: {counts}; write both in one way"


def _other_language(texts: Texts, known: Sequence[set[str]]) -> Iterator[str]:
    """Yield a warning if sides share more words with the opposite side of train than with the same side.

    ``known`` are the words of both sides of train.
    """
    shares = _shares(texts, known)
    wrong = [shares[0][0] + MARGIN < shares[0][1], shares[1][1] + MARGIN < shares[1][0]]
    if all(wrong):
        yield ": its source and its target seem exchanged, compared with train; exchange them in one of both"
    elif any(wrong):
        side = wrong.index(True)
        counts = (
            f"{100 * shares[side][0]:.0f} % of its words are in the sources of train, {100 * shares[side][1]:.0f} %"
        )
        yield f" {SIDES[side]}: {counts} in its targets; check its language"


def _one_language(train: Texts, known: Sequence[set[str]]) -> Iterator[str]:
    """Yield a warning if the share of words that both sides have suggests one language.

    ``known`` are the words of both sides.
    """
    shares = _shares(train, known)
    if min(map(len, known)) >= MIN_VOCABULARY and min(shares[0][1], shares[1][0]) > MAX_SHARED:
        counts = f"{100 * shares[0][1]:.0f} % of the source words are in its targets, and {100 * shares[1][0]:.0f} %"
        yield f"{counts} of the target words in its sources; check that these are two languages"


def _serbian_latin(word: str) -> str:
    """Return a longer word of Serbian Cyrillic in Latin letters, and any other word as it is."""
    return word.lower().translate(SERBIAN) if len(word) > 3 and CYRILLIC.search(word) else word


def _mixed_letters(train: Texts, known: Sequence[set[str]], normalised: Collection[str]) -> Iterator[str]:
    """Yield a warning for each side that writes words in two ways, or that has lower-cased Turkish wrongly."""
    nfc = partial(unicodedata.normalize, "NFC"), "in another Unicode form than others", "form, as with uconv -x any-nfc"
    latin = _serbian_latin, "in Cyrillic and others in Latin letters", "script, as with uconv -x Serbian-Latin/BGN"
    for side, lines, words in zip(SIDES, train, known, strict=True):
        for convert, difference, fix in (nfc, latin) if side not in normalised else (latin,):
            forms = ((word, convert(word)) for word in words if not word.isascii())
            twice = {word for word, form in forms if word != form and form in words}
            count = sum(not twice.isdisjoint(line.split()) for line in lines) if twice else 0
            if count > MAX_TWO_FORMS * len(lines):
                share = f"{100 * count / len(lines):.0f} % of its lines"
                yield f"{side}: {share} write {min(twice)!r} and the like {difference}; convert all text to one {fix}"
        count = sum("i\u0307" in line for line in lines)
        if count > MAX_DOTTED * len(lines):
            fix = "for Turkish and Azerbaijani, apply sed 's/I/ı/g; s/İ/i/g' to all text before"
            share = f"{100 * count / len(lines):.0f} % of its lines"
            yield f"{side}: {share} have 'i\u0307' with two dots, which lower-casing makes of 'İ'; {fix}"


def _repeated(corpus: Corpus) -> Iterator[str]:
    """Yield a warning if many of the first pairs are copies of earlier ones."""
    sources, targets = _texts(corpus, 0, FIRST_PAIRS)
    copies = len(sources) - len({*zip(sources, targets, strict=True)})
    if copies > MAX_REPEATED * len(sources) and len(sources) >= BLOCK_PAIRS:  # a smaller text is an example
        fix = "data.duplicates=exact drops them, unless you repeat them on purpose"
        yield f"{copies:,} of the first {counted(len(sources), 'pair')} are copies of others; {fix}"


def _vocabularies(texts: Texts) -> list[set[str]]:
    return [{word for line in lines for word in line.split()} for lines in texts]


def _shares(texts: Texts, known: Sequence[set[str]]) -> list[list[float]]:
    """Return, for each side, the share of its words that each of the vocabularies has."""
    return [
        [sum(word in words for word in side) / max(1, len(side)) for words in known]
        for side in (" ".join(lines).split() for lines in texts)
    ]


def _texts(corpus: Corpus, start: int, count: int) -> Texts:
    """Return the sources and the targets of up to ``count`` pairs."""
    rows = corpus.table.slice(start, count)
    return rows.column("source").to_pylist(), rows.column("target").to_pylist()


def _unlike_lengths(blocks: Sequence[Texts], starts: Sequence[int]) -> Iterator[str]:
    """Yield a warning if sources fit the targets of other lines better, or no targets at all, by their lengths."""
    lengths = [[np.log([len(line) + 1 for line in side]) for side in block] for block in blocks]
    for start, (x, y) in zip(starts, lengths, strict=True):
        own = _correlation(x, y)
        for shift in (1, -1, 2, -2, 3, -3):
            moved = _correlation(x[: len(x) - shift], y[shift:]) if shift > 0 else _correlation(x[-shift:], y[:shift])
            if moved > max(MIN_CORRELATION, own + MARGIN):
                where = f"{counted(abs(shift), 'line')} {'below' if shift > 0 else 'above'}"
                lengths_say = f"correlation of their lengths {moved:.2f}, {own:.2f}"
                fit = f"sources fit the targets {where} better than their own ({lengths_say})"
                yield f"near pair {start + 1:,}, {fit}; find the line that one file lacks"
                return
    x, y = (np.concatenate(side) for side in zip(*lengths, strict=True))
    words = [np.mean([len(line.split()) for block in blocks for line in block[side]]) for side in range(2)]
    if len(x) >= 5 * MIN_PAIRS and min(words) > 5 and min(x.std(), y.std()) > 0.2 and _correlation(x, y) < 0.1:
        sign = f"the lengths of its sources and targets are unrelated (correlation {_correlation(x, y):.2f})"
        yield f"{sign}; check that line n of one side belongs to line n of the other"


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Return the correlation of two arrays (N,), or 0 for few or equal numbers."""
    if len(x) < MIN_PAIRS or not (x.std() and y.std()):
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])
