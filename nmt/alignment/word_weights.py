"""Attention weights between pieces and between words, from the raw alignment of a translation, and their labels."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import NamedTuple, Protocol

import numpy as np

from nmt.data.links import Link
from nmt.data.words import PieceWords, last_words, missing_words, split_words, word_spans
from nmt.errors import counted
from nmt.text.specials import SPACE
from nmt.text.writing import UNSPACED

BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class AlignedTranslation(Protocol):
    """A translation, from search or forced decoding, with its raw alignment between pieces."""

    @property
    def alignment(self) -> np.ndarray | None:
        """Raw alignment (T, S), where T and S count ``</s>``; None if it was not asked for."""
        ...

    @property
    def source_tokens(self) -> list[str]: ...

    @property
    def tokens(self) -> list[str]: ...

    @property
    def source_words(self) -> list[int]:
        """Index of the word to which each source piece belongs, without ``</s>``."""
        ...

    @property
    def target_words(self) -> list[int]:
        """Index of the word to which each target piece belongs, without ``</s>``."""
        ...


class Display(NamedTuple):
    """Weights (T, S), with the labels of its columns (source) and rows (target)."""

    weights: np.ndarray
    source: list[str]
    target: list[str]


def display_pieces(translation: AlignedTranslation, *, signed: bool) -> Display:
    """Return the weight (T, S) of each source piece for each target piece.

    ``signed`` weights are the raw ones; otherwise each row holds shares of the source that sum to 1.
    """
    raw = _raw_weights(translation)
    labels = piece_labels(translation.source_tokens), piece_labels(translation.tokens)
    return Display(raw if signed else normalise_rows(raw), *labels)


def word_weights(translation: AlignedTranslation) -> np.ndarray:
    """Return the weight (J, I) of each source word for each target word, without ``</s>``."""
    return merge_pieces(_inner_weights(translation), translation.source_words, translation.target_words)


def _inner_weights(translation: AlignedTranslation) -> np.ndarray:
    """Return the raw weights (T, S) without ``</s>``."""
    # Counts come from the words: a translation that was cut at its maximum length has no </s> to drop.
    return _raw_weights(translation)[: len(translation.target_words), : len(translation.source_words)]


def display_weights(translation: AlignedTranslation, source: str, target: str, *, split: bool = True) -> Display:
    """Return the weights between the words of ``source`` and ``target``.

    A word of a script without spaces, such as a Chinese sentence, is split into its pieces. Without ``split``, it is
    not: gold links count words. Words that the tokenizer removes have weight 0. Raises ValueError if a piece belongs to
    a word that these texts do not have: they are not what was aligned.
    """
    columns, rows = _labels(translation, source, target, split=split)
    weights = merge_pieces(_inner_weights(translation), columns.of_pieces, rows.of_pieces)
    missing = [(0, len(rows.names) - weights.shape[0]), (0, len(columns.names) - weights.shape[1])]
    return Display(np.pad(weights, missing), columns.names, rows.names)


def display_slots(
    translation: AlignedTranslation, source: str, target: str, write: np.ndarray, read: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return α (I, R) of each source word and β (J, R) of each target word, for the words of ``display_weights``.

    ``write`` (R, S) is α and ``read`` (T, R) is β of the pieces. β α of words is the alignment of words, as it is of
    pieces.
    """
    columns, rows = _labels(translation, source, target)
    of_source = _sum_by_word(write[:, : len(columns.of_pieces)], columns.of_pieces).T
    of_target = _mean_by_word(read[: len(rows.of_pieces)], rows.of_pieces)
    return (
        np.pad(of_source, [(0, len(columns.names) - len(of_source)), (0, 0)]),
        np.pad(of_target, [(0, len(rows.names) - len(of_target)), (0, 0)]),
    )


class _Labels(NamedTuple):
    names: list[str]
    of_pieces: Sequence[int]


def _labels(translation: AlignedTranslation, source: str, target: str, *, split: bool = True) -> list[_Labels]:
    """Return the labels of source and target words, and the label of each piece; see ``display_weights``."""
    labels = list[_Labels]()
    for side, text, pieces, of_pieces in (
        ("source", source, translation.source_tokens, translation.source_words),
        ("target", target, translation.tokens, translation.target_words),
    ):
        words = split_words(text)
        if (most := max(last_words(of_pieces), default=-1)) >= len(words):
            raise ValueError(
                f"{side}: {counted(len(words), 'word')}, the alignment has {most + 1}; give the text that was aligned"
            )
        labels.append(_Labels(*(split_unspaced(words, pieces, of_pieces) if split else (words, of_pieces))))
    return labels


def lost_words(translation: AlignedTranslation, source: str, target: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the sides (source, target) that have words without pieces, and these words: the tokenizer removes them."""
    for side, line, of_pieces in (
        ("source", source, translation.source_words),
        ("target", target, translation.target_words),
    ):
        words = split_words(line)
        if numbers := missing_words(of_pieces, len(words)):
            yield side, [words[number] for number in numbers]


def normalise_rows(alignment: np.ndarray) -> np.ndarray:
    """Return |A| (T, S) with rows that sum to 1; rows of zeros stay zero."""
    weights = np.abs(alignment)
    total = weights.sum(axis=1, keepdims=True)
    shares: np.ndarray = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return shares


def merge_pieces(alignment: np.ndarray, source_words: Sequence[int], target_words: Sequence[int]) -> np.ndarray:
    """Return weights (J, I) between words: the sum over a word's source pieces, the mean over its target pieces.

    ``alignment`` (T, S) is raw and without ``</s>``. ``source_words`` (S) and ``target_words`` (T) are the index of
    each piece's word, −1 for none. A source piece of several words has equal parts of its weight for each.
    """
    return _mean_by_word(_sum_by_word(normalise_rows(alignment), source_words), target_words)


def _sum_by_word(weights: np.ndarray, words: Sequence[int]) -> np.ndarray:
    """Return the sums (N, I) of weights (N, S) over the pieces of each word; see ``merge_pieces``."""
    pieces, numbers = _piece_words(words)
    sums = np.zeros((len(weights), numbers.max(initial=-1) + 1))
    np.add.at(sums.T, numbers, (weights[:, pieces] / np.bincount(pieces)[pieces]).T)
    return sums


def _mean_by_word(weights: np.ndarray, words: Sequence[int]) -> np.ndarray:
    """Return the means (J, N) of weights (T, N) over the pieces of each word."""
    pieces, numbers = _piece_words(words)
    sums = np.zeros((numbers.max(initial=-1) + 1, weights.shape[1]))
    np.add.at(sums, numbers, weights[pieces])
    means: np.ndarray = sums / np.maximum(np.bincount(numbers, minlength=len(sums)), 1)[:, None]
    return means


def linked_pieces(linked: np.ndarray, source_words: Sequence[int], target_words: Sequence[int]) -> np.ndarray:
    """Return which pieces (T, S) have linked words; ``linked`` (J, I) is 1 for linked words and 0 for others."""
    columns, column_words = _piece_words(source_words)
    rows, row_words = _piece_words(target_words)
    pieces = np.zeros((len(target_words), len(source_words)))
    np.maximum.at(pieces, np.ix_(rows, columns), linked[np.ix_(row_words, column_words)])
    return pieces


def _piece_words(words: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return piece and word of each (piece, word), sorted by piece; a piece of n words has n of them."""
    first = np.asarray(words, dtype=np.int64)
    last = np.asarray(last_words(words), dtype=np.int64)
    counts = np.where(first < 0, 0, last - first + 1)
    pieces = np.repeat(np.arange(len(first)), counts)
    return pieces, np.arange(len(pieces)) - np.repeat(np.cumsum(counts) - counts, counts) + first[pieces]


def _raw_weights(translation: AlignedTranslation) -> np.ndarray:
    assert translation.alignment is not None, "no alignment: translate with alignments=True"
    return translation.alignment


def argmax_links(weights: np.ndarray) -> frozenset[Link]:
    """Return, for each target word of ``weights`` (J, I), a link to the source word with the largest weight.

    A target word whose weights are all 0 gets no link.
    """
    if not weights.size:
        return frozenset()
    return frozenset((int(row.argmax()), j) for j, row in enumerate(weights) if row.max() > 0)


def split_unspaced(
    words: Sequence[str], pieces: Sequence[str], word_of_piece: Sequence[int]
) -> tuple[list[str], PieceWords]:
    """Return labels, one per word or per piece of an unspaced word, and the label index of each piece of a word.

    ``word_of_piece`` may be shorter than ``pieces``, which may end in ``</s>``. A word that shares a piece with another
    word is not split.
    """
    spans = word_spans(word_of_piece)
    shared = {word for start, stop in spans if stop > start for word in range(start, stop + 1)}
    pieces_of: dict[int, list[str]] = {}
    for piece, (start, _) in zip(pieces, spans, strict=False):
        pieces_of.setdefault(start, []).append(piece)
    labels: list[str] = []
    label_of: dict[int, Iterator[int]] = {-1: repeat(-1)}  # for each word, the labels of its pieces
    for number, word in enumerate(words):
        if number in shared or number not in pieces_of or not UNSPACED.search(word):
            label_of[number] = repeat(len(labels))
            labels.append(word)
        else:
            texts, counts = zip(*_characters(pieces_of[number]), strict=True)
            label_of[number] = iter((len(labels) + np.repeat(np.arange(len(counts)), counts)).tolist())
            labels += texts
    of_pieces = list[tuple[int, int]]()
    for start, stop in spans:
        label = next(label_of[start])
        of_pieces.append((label, label if stop == start else next(label_of[stop])))
    return labels, PieceWords.of(of_pieces)


def piece_labels(pieces: Sequence[str]) -> list[str]:
    """Return the label of each piece. A byte is followed by its character: ``<0xE6> 日 1/3``, ``<0x97> 日 2/3``, …

    The byte shows that the tokenizer does not know the character.
    """
    labels: list[str] = []
    for text, count in _decoded(pieces):
        if BYTE.fullmatch(pieces[len(labels)]) and text.isprintable() and "\ufffd" not in text:
            parts = [f"{text} {number}/{count}" if count > 1 else text for number in range(1, count + 1)]
            labels += [f"{pieces[len(labels) + number]} {part}" for number, part in enumerate(parts)]
        else:
            labels += pieces[len(labels) : len(labels) + count]
    return labels


def _characters(pieces: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the text of each piece, and the number of pieces that it takes.

    A space sign joins the next piece. Pieces that spell one character in UTF-8 bytes count as one. A piece that begins
    with a mark, such as a Thai vowel above its consonant, joins the piece before it.
    """
    text, count = "", 0
    for part, size in _decoded(pieces):
        if text and part and not unicodedata.category(part[0]).startswith("M"):
            yield text, count
            text, count = "", 0
        text, count = text + part, count + size
    if count:
        yield text, count


def _decoded(pieces: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the text of each piece without spaces; the bytes of one character are one text, of several pieces."""
    pending, count = b"", 0
    for piece in pieces:
        match = BYTE.fullmatch(piece)
        part = bytes([int(match[1], 16)]) if match else b""
        if pending and not (part and 0x80 <= part[0] < 0xC0):  # not a further byte of the same character
            yield pending.decode(errors="replace"), count
            pending, count = b"", 0
        if part:
            pending, count = pending + part, count + 1
        else:
            yield piece.replace(SPACE, ""), 1
    if pending:
        yield pending.decode(errors="replace"), count
