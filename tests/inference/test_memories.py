"""Encoded lines give the same translations as their text, also after they were stored on disk."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import refusal
from inference.random_translators import random_translator, tiny_translator
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from nmt.config.overrides import config_dir
from nmt.files.checksum import fingerprint
from nmt.inference.memories import encode_line, load_memories, save_memories, translate_encoded
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions

LINES = ["a dog", "", "two cats sleep here today", "\u200b", "houses", "a small dog sees red houses today " * 9]
NAMES = [path.stem for path in sorted((config_dir() / "attention").glob("*.yaml"))]
NAMES += [f"{name} decoder=transformer" for name in ("multi_head", "nested_memory")]
OPTIONS = [
    SearchOptions(max_length=9, keep_placeholders=False, beam_size=3, n_best=3),
    SearchOptions(max_length=9, keep_placeholders=False, beam_size=1),
    SearchOptions(max_length=9, keep_placeholders=False, temperature=1.5, n_best=3),
]
COVERAGE = SearchOptions(max_length=9, keep_placeholders=False, beam_size=3, coverage_penalty=0.4)


def make_translator(*words: str, encoder: str = "lstm", seed: int = 11) -> Translator:
    translator = tiny_translator(f"encoder={encoder}", *words, longest_source=300, seed=seed, scale=2)
    translator.trained.model.double()
    return translator


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_stored_lines_have_the_same_translations_and_with_a_trace_the_same_alignments(
    name: str, tmp_path: Path
) -> None:
    translator = make_translator(*f"attention={name}".split(), encoder="bilstm")
    lines = [*LINES, *LINES[:2]]
    traced = [*OPTIONS, *([COVERAGE] if name != "none" else [])]
    for trace in (False, True):
        encoded = [encode_line(translator, line, trace=trace) for line in lines]
        save_memories(tmp_path / str(trace), encoded, translator)
    for trace, options in [(False, OPTIONS[0]), *((True, options) for options in traced)]:
        stored = load_memories(tmp_path / str(trace), translator)
        translations = translate_encoded(translator, stored, options, alignments=trace)
        for from_memory, from_text in zip(translations, translator.translate(lines, options), strict=True):
            for best, expected in zip(from_memory.n_best, from_text.n_best, strict=True):
                assert best.tokens == expected.tokens
                assert best.score == pytest.approx(expected.score, rel=1e-6 if options is COVERAGE else 1e-9)
            if trace and from_text.alignment is not None:
                assert from_memory.source_tokens == from_text.source_tokens
                assert from_memory.source_words == from_text.source_words
                np.testing.assert_allclose(from_memory.alignment, from_text.alignment, atol=1e-7)


STREAMING: list[Any] = [
    ["attention=memory", "attention.position_encoding=false"],
    *([f"attention={name}"] for name in ("gated_covariance", "delta", "abc", "mesa", "low_rank", "none")),
    ["attention=general_covariance", "attention.recall=state"],
    *(["attention=kernel", f"attention.feature_map={name}"] for name in ("elu", "softmax")),
    ["attention=multi_head", "attention@attention.inner=kernel", "attention.inner.feature_map=softmax"],
    ["attention=covariance", "encoder=gru", "encoder.layers=2", "decoder=gru"],
    ["attention=gated_delta", "decoder=transformer"],
    ["attention=stretch_memory", "attention.slots=3"],
]
STREAMING[1:] = [pytest.param(words, marks=pytest.mark.thorough) for words in STREAMING[1:]]


@pytest.mark.parametrize("words", STREAMING, ids=",".join)
def test_encoding_in_parts_equals_encoding_at_once(words: list[str]) -> None:
    translator = make_translator(*words)
    for line, size in product(LINES[-2:], (1, 7, 1000)):
        at_once, in_parts = (encode_line(translator, line, piece_length=length, trace=True) for length in (None, size))
        assert at_once.line == in_parts.line and at_once.seed == in_parts.seed
        assert at_once.source is not None and in_parts.source is not None
        expected = [*at_once.source.memory, *at_once.source.final]
        for actual, reference in zip([*in_parts.source.memory, *in_parts.source.final], expected, strict=True):
            torch.testing.assert_close(actual, reference, rtol=1e-9, atol=1e-9)


def encode_parts(*words: str, encoder: str = "lstm") -> Callable[[Path], object]:
    return lambda _: encode_line(make_translator(*words, encoder=encoder), "a dog", piece_length=2)


def translate_with(*, trace: bool = True, alignments: bool = False, **options: Any) -> Callable[[Path], object]:
    translator = random_translator(kind="spm-default")
    lines = [encode_line(translator, "two", trace=trace)]
    return lambda _: translate_encoded(translator, lines, SearchOptions(**options), alignments=alignments)


def load_changed(change: Callable[[Path], object], *words: str, seed: int = 11) -> Callable[[Path], object]:
    """Return a function that stores a line, changes its file, and loads it with a model of these settings."""

    def load(path: Path) -> object:
        writer = make_translator("attention=covariance")
        save_memories(path, [encode_line(writer, "a dog")], writer)
        change(path)
        return load_memories(path, make_translator(*(words or ("attention=covariance",)), seed=seed))

    return load


def rewrite(path: Path, *, forged: bool = False) -> None:
    """Change a number, or with a right digest the fields of a line."""
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    tensors = {name: tensor + 1 for name, tensor in load_file(path).items()}
    if forged:
        tensors = {"0.memory.slots": torch.zeros(1, 2, 3)}
        metadata["digest"] = fingerprint(b"", tensors)
    save_file(tensors, path, metadata)


@pytest.mark.parametrize(
    ("call", "start"),
    [
        (encode_parts("attention=covariance", encoder="bilstm"), "piece_length"),
        (encode_parts("attention=bahdanau"), "piece_length"),
        (translate_with(trace=False, alignments=True), "alignments"),
        (translate_with(trace=False, coverage_penalty=0.1), "search.coverage_penalty=0.1"),
        (translate_with(replace_unknown=True), "search.replace_unknown=true"),
        (translate_with(sentences="en"), "search.sentences=en"),
        (load_changed(lambda path: path.write_bytes(path.read_bytes()[:-1])), "PATH: "),
        (load_changed(lambda path: path.write_bytes(b"text")), "PATH: "),
        (load_changed(lambda path: save_file({}, path, {"format": "1"})), "PATH: format 1"),
        (load_changed(rewrite), "PATH: damaged"),
        (load_changed(lambda path: rewrite(path, forged=True)), "PATH: "),
        (load_changed(Path.exists, seed=12), "PATH: of another model"),
    ],
)
def test_what_is_refused(call: Callable[[Path], object], start: str, tmp_path: Path) -> None:
    message = refusal(call, tmp_path / "lines")
    assert message.startswith(start.replace("PATH", str(tmp_path / "lines"))) and "\n" not in message
