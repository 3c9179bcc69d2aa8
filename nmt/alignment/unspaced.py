"""Weights between words for display, where words of scripts without spaces are split into their pieces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from nmt.alignment.word_weights import (
    AlignedTranslation,
    fit_word_weights,
    inner_weights,
    merge_pieces,
    require_words,
)
from nmt.data.words import PieceWords, last_words, split_words
from nmt.text.writing import UNSPACED

SPACE = "▁"  # how SentencePiece writes a space
BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class TranslationWithTokens(AlignedTranslation, Protocol):
    """An aligned translation that also gives its tokens."""

    @property
    def source_tokens(self) -> list[str]: ...

    @property
    def tokens(self) -> list[str]: ...


class Display(NamedTuple):
    """Weights (T, S), with the labels of its columns (source) and rows (target)."""

    weights: np.ndarray
    source: list[str]
    target: list[str]


def display_weights(translation: TranslationWithTokens, source: str, target: str, *, split: bool = True) -> Display:
    """Return the weights between the words of ``source`` and ``target``.

    A word of a script without spaces, such as a Chinese sentence, is split into its pieces. Without ``split``, it is
    not: gold links count words. As in ``fit_word_weights``, words that the tokenizer removes have weight 0, and the
    words of another text raise ValueError.
    """
    words = split_words(source), split_words(target)
    if not split:
        return Display(fit_word_weights(translation, *words), *words)
    require_words(translation, *words)
    columns, column_of = split_unspaced(words[0], translation.source_tokens, translation.source_words)
    rows, row_of = split_unspaced(words[1], translation.tokens, translation.target_words)
    weights = merge_pieces(inner_weights(translation), column_of, row_of)
    missing = [(0, len(rows) - weights.shape[0]), (0, len(columns) - weights.shape[1])]
    return Display(np.pad(weights, missing), columns, rows)


def split_unspaced(
    words: Sequence[str], pieces: Sequence[str], word_of_piece: Sequence[int]
) -> tuple[list[str], PieceWords]:
    """Return labels, one per word or per piece of an unspaced word, and the label index of each piece of a word.

    ``word_of_piece`` may be shorter than ``pieces``, which may end in ``</s>``. A word that shares a piece with another
    word is not split.
    """
    spans = [*zip(word_of_piece, last_words(word_of_piece), strict=True)]
    shared = {word for start, stop in spans if stop > start for word in range(start, stop + 1)}
    pieces_of: dict[int, list[str]] = {}
    for piece, (start, _) in zip(pieces, spans, strict=False):
        pieces_of.setdefault(start, []).append(piece)
    labels: list[str] = []
    label_of_word: dict[int, int] = {-1: -1}  # the label of each word that is not split
    split: dict[int, Iterator[int]] = {}  # the label of each piece of the others
    for number, word in enumerate(words):
        if number in shared or number not in pieces_of or not UNSPACED.search(word):
            label_of_word[number] = len(labels)
            labels.append(word)
            continue
        label_of_piece: list[int] = []
        for label, count in _characters(pieces_of[number]):
            label_of_piece += [len(labels)] * count
            labels.append(label)
        split[number] = iter(label_of_piece)
    indices = [
        (label_of_word[first], label_of_word[last]) if first in label_of_word else (next(split[first]),) * 2
        for first, last in spans
    ]
    return labels, PieceWords([first for first, _ in indices], [last for _, last in indices])


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
