"""Encoded lines give the same translations as their text, also after they were stored on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from inference.random_translators import random_translator, tiny_translator
from safetensors.torch import load_file, save_file
from tokenizer_kinds import train_sentencepiece
from torch import Tensor

from nmt.config.overrides import config_dir
from nmt.errors import UserError
from nmt.files.checksum import fingerprint
from nmt.inference import memories
from nmt.inference.memories import (
    EncodedLine,
    encode_line,
    load_memory,
    memory_files,
    require_streaming,
    save_memory,
    translate_encoded,
    weights_fingerprint,
)
from nmt.inference.model_folder import TrainedModel
from nmt.inference.torch_engine import Source
from nmt.inference.translator import Translator
from nmt.model.seq2seq import Seq2Seq
from nmt.search.options import SearchOptions
from nmt.search.search import search_encoded
from nmt.text.tokenizer import Tokenizer

LINES = ["a dog", "", "two cats sleep here today", "houses", "a small dog sees red houses today " * 9]
OTHER_TOKENIZER = Tokenizer.train(["two cats sleep here today"], vocab_size=280)
NAMES = [path.stem for path in sorted((config_dir() / "attention").glob("*.yaml"))]
OPTIONS = {
    "beam": SearchOptions(max_length=9, beam_size=3, n_best=3),
    "greedy": SearchOptions(max_length=9, beam_size=1),
    "samples": SearchOptions(max_length=9, temperature=1.5, n_best=3),
}


def make_translator(*words: str, encoder: str = "lstm", seed: int = 11) -> Translator:
    translator = tiny_translator(f"encoder={encoder}", *words, longest_source=300, seed=seed, scale=2)
    translator.trained.model.double()
    return translator


def store(path: Path, translator: Translator, line: str, **options: Any) -> EncodedLine:
    """Encode the line, write it to disk and load it."""
    model = weights_fingerprint(translator.trained)
    save_memory(path, encode_line(translator, line, **options), attention=translator.attention.class_name, model=model)
    return load_memory(path, translator.trained, model=model)


@pytest.mark.thorough
@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_stored_memory_has_the_same_translations_and_with_a_trace_the_same_alignments(
    name: str, trace: bool, tmp_path: Path
) -> None:
    translator = make_translator(f"attention={name}", encoder="bilstm")
    stored = [store(tmp_path / str(row), translator, line, trace=trace) for row, line in enumerate(LINES)]
    coverage = SearchOptions(max_length=9, beam_size=3, coverage_penalty=0.4)
    for options in [*OPTIONS.values(), *([coverage] if trace and name != "none" else [])]:
        translations = translate_encoded(translator, stored, options, alignments=trace)
        for from_memory, from_text in zip(translations, translator.translate(LINES, options), strict=True):
            for best, expected in zip(from_memory.n_best, from_text.n_best, strict=True):
                assert best.tokens == expected.tokens
                assert best.score == pytest.approx(expected.score, rel=1e-6 if options is coverage else 1e-9)
            if trace:
                assert from_memory.source_tokens == from_text.source_tokens
                assert from_memory.source_words == from_text.source_words
            if trace and from_text.alignment is not None:
                np.testing.assert_allclose(from_memory.alignment, from_text.alignment, atol=1e-7)


def test_alignments_and_coverage_need_a_trace(tmp_path: Path) -> None:
    translator = make_translator()
    line = store(tmp_path / "memory", translator, "a dog")
    with pytest.raises(UserError, match="alignments: .* keep no trace of their source; encode with trace=true"):
        translate_encoded(translator, [line], alignments=True)
    with pytest.raises(UserError, match="search.coverage_penalty=0.1: .* keep no trace"):
        translate_encoded(translator, [line], SearchOptions(coverage_penalty=0.1))


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"glossary": "a"}, "search.glossary=a"),
        ({"keep_placeholders": True}, "search.keep_placeholders=true"),
        ({"replace_unknown": True}, "search.replace_unknown=true"),
        ({"sentences": "en"}, "search.sentences=en"),
    ],
)
def test_options_that_change_the_text_need_an_attention_and_words(options: dict[str, Any], shown: str) -> None:
    if "sentences" not in options:
        with pytest.raises(UserError, match=f"^{shown}: needs alignments, but this model has no attention; "):
            random_translator("none").texts(["two"], SearchOptions(**options))
    translator = random_translator(kind="spm-default")
    encoded = encode_line(translator, "two", trace=True)
    with pytest.raises(UserError, match=f"^{shown}: stored memories keep no words; remove search"):
        translate_encoded(translator, [encoded], SearchOptions(**options))


@pytest.mark.thorough
@pytest.mark.parametrize("max_tokens", [1, 12, 20, 4096])
@pytest.mark.parametrize("name", ["bahdanau", "memory"])  # slots that grow with the line, and a fixed number
def test_a_batch_of_memories_has_at_most_max_tokens_slots(
    name: str, max_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = make_translator(f"attention={name}", *(["attention.slots=4"] if name == "memory" else []))
    stored = [encode_line(translator, line) for line in LINES[:3] * 5]
    batch_shapes: list[tuple[int, int]] = []

    def recording_search(engine: Any, source: Source, *rest: Any) -> Any:
        batch_shapes.append((source.memory.slots.shape[0], source.memory.slots.shape[1]))
        return search_encoded(engine, source, *rest)

    monkeypatch.setattr(memories, "search_encoded", recording_search)
    translator.max_tokens = max_tokens
    together = translate_encoded(translator, stored, OPTIONS["beam"])
    slots = Counter(line.source.memory.slots.shape[1] for line in stored if line.source is not None)
    for size, lines in slots.items():
        batches = [rows for rows, slots_of_batch in batch_shapes if slots_of_batch == size]
        assert sum(batches) == lines and len(batches) == ceil(lines / max(1, max_tokens // size))
        assert max(batches) == 1 or max(batches) * size <= max_tokens
    assert [translation.text for translation in together] == [
        translate_encoded(translator, [line], OPTIONS["beam"])[0].text for line in stored
    ]


def test_memories_that_do_not_fit_into_ram_do_not_affect_others(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = make_translator("attention=bahdanau")
    lines = ["a dog", "two cats", LINES[4], "houses", ""]
    stored = [encode_line(translator, line) for line in lines]
    expected = [best.text for best in translate_encoded(translator, stored, OPTIONS["beam"])]

    def small_machine(engine: Any, source: Source, *rest: Any) -> Any:
        if len(source.memory.slots) > 1 or source.memory.slots.shape[1] > 50:
            raise MemoryError
        return search_encoded(engine, source, *rest)

    monkeypatch.setattr(memories, "search_encoded", small_machine)
    failed: list[tuple[int, str]] = []
    translations = translate_encoded(
        translator, stored, OPTIONS["beam"], on_failure=lambda *failure: failed.append(failure)
    )
    reason = "not enough RAM to translate this memory"
    assert failed == [(2, reason)]
    assert [best.text for best in translations] == [*expected[:2], "", *expected[3:]]
    with pytest.raises(UserError, match=rf"^lines\[2\]: {reason}"):
        translate_encoded(translator, stored, OPTIONS["beam"])


def other_bias(model: Seq2Seq) -> Seq2Seq:
    """Return a copy of the model with a small change of one bias."""
    other = deepcopy(model)
    with torch.no_grad():
        other.decoder.output.bias[-1] += 1e-9
    return other


def with_setting(trained: TrainedModel, block: str, key: str, value: object) -> TrainedModel:
    """Return a copy of the model with one changed setting."""
    return replace(trained, config={**trained.config, block: {**trained.config[block], key: value}})


@pytest.mark.thorough
@pytest.mark.parametrize(
    "change",
    [
        lambda trained: with_setting(trained, "data", "lowercase", True),
        lambda trained: replace(trained, longest_source=301),
        lambda trained: replace(trained, source=OTHER_TOKENIZER),
        lambda trained: replace(trained, target=OTHER_TOKENIZER),
        *(
            lambda trained, block=block: with_setting(trained, block, "another", 1)
            for block in ("embeddings", "encoder", "attention", "decoder")
        ),
        lambda trained: replace(trained, model=other_bias(trained.model)),
    ],
    ids=["lowercase", "longest_source", "source", "target", "embeddings", "encoder", "attention", "decoder", "weights"],
)
def test_every_change_of_a_model_changes_its_fingerprint(change: Callable[[TrainedModel], TrainedModel]) -> None:
    trained = make_translator().trained
    assert weights_fingerprint(trained) == weights_fingerprint(make_translator().trained)
    assert weights_fingerprint(change(trained)) != weights_fingerprint(trained)


STREAMING = [
    ["attention=memory", "attention.position_encoding=false"],
    ["attention=memory", "attention.renormalise=null"],
    *([f"attention={name}"] for name in ("covariance", "gated_covariance", "delta", "abc", "mesa", "low_rank", "none")),
    *(["attention=general_covariance", f"attention.recall={recall}"] for recall in ("true", "false")),
    *(["attention=kernel", f"attention.feature_map={name}"] for name in ("elu", "taylor", "softmax", "scaling")),
    ["attention=multi_head", "attention@attention.inner=kernel", "attention.inner.feature_map=softmax"],
    ["attention=covariance", "encoder=gru", "encoder.layers=2", "decoder=gru"],
]


@pytest.mark.thorough
@pytest.mark.parametrize("piece_length", [1, 7, 1000])
@pytest.mark.parametrize("words", STREAMING, ids=",".join)
def test_encoding_in_parts_equals_encoding_at_once(words: list[str], piece_length: int) -> None:
    translator = make_translator(*words)
    require_streaming(translator)
    for line in LINES[-2:]:
        at_once, in_parts = (
            encode_line(translator, line, piece_length=size, trace=True) for size in (None, piece_length)
        )
        assert at_once.ids == in_parts.ids and at_once.seed == in_parts.seed
        assert at_once.source is not None and in_parts.source is not None
        expected = [*at_once.source.memory, *at_once.source.final]
        for actual, reference in zip([*in_parts.source.memory, *in_parts.source.final], expected, strict=True):
            torch.testing.assert_close(actual, reference, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("encoder", "attention", "message"),
    [
        ("bilstm", "covariance", "encoder, .*, needs the whole line; .*one direction: encoder=lstm"),
        ("lstm", "bahdanau", "Bahdanau attention .* needs the whole line"),
        ("lstm", "memory", "needs the whole line.*attention.position_encoding=false"),
    ],
)
def test_models_that_cannot_stream_are_refused(encoder: str, attention: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        require_streaming(make_translator(f"attention={attention}", encoder=encoder))


@pytest.mark.parametrize("piece_length", [None, 1, 7])
def test_a_line_without_pieces_has_an_empty_translation(piece_length: int | None) -> None:
    trained = make_translator("attention=covariance").trained
    tokenizer = train_sentencepiece(["a small dog", "two cats"], vocab_size=290, byte_fallback=True)
    translator = Translator(replace(trained, source=tokenizer, target=tokenizer))
    for line in ("\u200b", "\u200b \ufeff", " \t"):
        assert tokenizer.encode(line) == []
        encoded = encode_line(translator, line, piece_length=piece_length)
        assert translate_encoded(translator, [encoded]) == translator.translate([line], alignments=False)


def test_parts_need_a_tokenizer_that_splits_every_word_alike() -> None:
    lines = ["a small dog sees red houses", "two cats sleep here today"]
    options = {"vocab_size": 290, "byte_fallback": True, "pad_id": 3, "add_dummy_prefix": False}
    trained = make_translator("attention=covariance").trained
    translator = Translator(replace(trained, source=train_sentencepiece(lines, **options)))
    with pytest.raises(UserError, match=r"piece_length: .* the first word of a line.* add_dummy_prefix=false; remove"):
        require_streaming(translator)


OTHER_TENSORS = "its tensors or its seed are not what this model writes"


class TestFiles:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "00000001.safetensors"

    @pytest.fixture
    def translator(self) -> Translator:
        return make_translator("attention=covariance")

    def assert_refused(self, path: Path, translator: Translator, message: str) -> None:
        with pytest.raises(UserError, match=message) as caught:
            load_memory(path, translator.trained, model=weights_fingerprint(translator.trained))
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("words", "seed", "message"),
        [
            ("attention=covariance", 12, "of another model"),
            ("attention=delta", 11, "a memory of DeltaAttention, but the model has CovarianceAttention"),
        ],
    )
    def test_memory_of_another_model_is_refused(
        self, path: Path, translator: Translator, words: str, seed: int, message: str
    ) -> None:
        store(path, make_translator(words, seed=seed), "a dog")
        self.assert_refused(path, translator, message)

    def test_changed_and_missing_bytes_are_noticed(self, path: Path, translator: Translator) -> None:
        store(path, translator, "a dog")
        content = path.read_bytes()
        for end in (0, 5, 100, -1):
            path.write_bytes(content[:end])
            self.assert_refused(path, translator, "cannot be read as a memory .*truncated")
        for index in range(8, len(content), len(content) // 40):
            path.write_bytes(content[:index] + bytes([content[index] ^ 1]) + content[index + 1 :])
            self.assert_refused(path, translator, str(path))

    def rewrite(self, path: Path, translator: Translator, changes: dict[str, str], **tensors: Tensor | None) -> None:
        """Store the line with other tensors and a valid digest, or with other metadata and a wrong digest."""
        line = store(path, translator, "a dog", trace=True)
        assert line.source is not None
        memory = line.source.memory._replace(**tensors)
        model = weights_fingerprint(translator.trained)
        save_memory(
            path,
            line._replace(source=line.source._replace(memory=memory)),
            attention="CovarianceAttention",
            model=model,
        )
        if changes:
            from safetensors import safe_open

            with safe_open(path, "pt") as file:
                metadata = {**file.metadata(), **changes}
            if metadata["digest"] == "":  # forged: with the right digest
                del metadata["digest"]
                metadata["digest"] = fingerprint(metadata, load_file(path))
            save_file(load_file(path), path, metadata)

    @pytest.mark.parametrize(
        ("changes", "tensors", "message"),
        [
            ({"format": "2"}, {}, "format 2, but this version reads format 1"),
            ({"seed": "7"}, {}, "damaged"),
            *(({"seed": seed, "digest": ""}, {}, OTHER_TENSORS) for seed in ("-1", str(2**32), "x")),
            ({}, {"slots": torch.zeros(1, 8, 9, dtype=torch.float64)}, OTHER_TENSORS),
            ({}, {"slots": torch.zeros(1, 8, 8)}, OTHER_TENSORS),
            ({}, {"mass": torch.zeros(2, 8, dtype=torch.float64)}, OTHER_TENSORS),
            *(({}, {"length": torch.tensor([length])}, OTHER_TENSORS) for length in (0, 99)),
            ({}, {"keys": torch.zeros(1, 8, 8)}, OTHER_TENSORS),
        ],
    )
    def test_invalid_contents_are_refused(
        self, path: Path, translator: Translator, changes: dict[str, str], tensors: dict[str, Tensor], message: str
    ) -> None:
        self.rewrite(path, translator, changes, **tensors)
        self.assert_refused(path, translator, message)

    @pytest.mark.parametrize(
        ("count", "message"),
        [
            (None, "has no count.txt"),
            ("-1", "its count.txt holds no number of files; encode again"),
            ("two", "its count.txt holds no number of files"),
            ("0", "00000001.safetensors exceeds the number of files in count.txt, 0; encode again"),
            ("1", "00000003.safetensors exceeds the number of files in count.txt, 1"),
            ("3", "1 of 3 files missing, the first is 00000002.safetensors"),
            (str(10**15), "999,999,999,999,998 of 1,000,000,000,000,000 files missing"),
        ],
    )
    def test_missing_files_are_counted(self, tmp_path: Path, count: str | None, message: str) -> None:
        for number in (1, 3):
            (tmp_path / f"{number:08d}.safetensors").touch()
        if count is not None:
            (tmp_path / "count.txt").write_text(count)
        with pytest.raises(UserError, match=message):
            memory_files(tmp_path)
        (tmp_path / "count.txt").write_text("3\n")
        (tmp_path / "00000002.safetensors").touch()
        assert [file.stem for file in memory_files(tmp_path)] == ["00000001", "00000002", "00000003"]

    def test_an_unwritable_path_is_reported_in_one_line(self, translator: Translator, tmp_path: Path) -> None:
        place = tmp_path / "absent" / "memory"  # safetensors raises its own error, as for a full disk
        with pytest.raises(UserError, match=rf"^{place}: cannot be written \(.*\); free some space or .*$"):
            save_memory(place, encode_line(translator, "a dog"), attention="CovarianceAttention", model="")

    def test_memories_have_the_precision_of_the_weights(self, path: Path, translator: Translator) -> None:
        for dtype in (torch.float64, torch.float32, torch.float64):
            translator.trained.model.to(dtype)
            line = store(path, translator, "a dog")
            assert line.source is not None
            assert line.source.memory.slots.dtype == dtype
