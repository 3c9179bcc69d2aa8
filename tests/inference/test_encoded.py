"""A line's memory, kept on disk and read without its text, says what the line says."""

from __future__ import annotations

import shutil
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
from builders import random_model
from safetensors.torch import load_file, save_file
from torch import Tensor

from nmt.config import config_dir, train_config
from nmt.errors import UserError
from nmt.inference import encoded
from nmt.inference.encoded import EncodedLine, encode_line, refuse_parts, translate_encoded
from nmt.inference.memory_file import fingerprint, load_memory, memory_files, save_memory
from nmt.inference.model_folder import TrainedModel
from nmt.inference.torch_engine import Source
from nmt.inference.translator import SourceTooLong, Translator
from nmt.model.seq2seq import Seq2Seq
from nmt.search.options import SearchOptions
from nmt.search.search import search_encoded
from nmt.text.tokenizer import Tokenizer

LINES = ["a dog", "", "two cats sleep here today", "houses", "a small dog sees red houses today " * 9]
TOKENIZER = Tokenizer.train(["a small dog sees red houses", "two cats sleep here today"], vocab_size=290)
OTHER_TOKENIZER = Tokenizer.train(["two cats sleep here today"], vocab_size=280)
NAMES = [path.stem for path in sorted((config_dir() / "attention").glob("*.yaml"))]
OPTIONS = {
    "beam": SearchOptions(max_length=9, beam_size=3, n_best=3),
    "greedy": SearchOptions(max_length=9, beam_size=1),
    "samples": SearchOptions(max_length=9, temperature=1.5, n_best=3),
}


def translator(*words: str, encoder: str = "lstm", seed: int = 11) -> Translator:
    sizes = ["encoder.hidden_size=8", "decoder.hidden_size=8", "embeddings.size=8"]
    config = train_config([f"encoder={encoder}", *sizes, *words])
    model = random_model(config, longest_source=300, seed=seed, scale=2)
    config["data"]["lowercase"] = False
    return Translator(TrainedModel(model.double(), TOKENIZER, TOKENIZER, config, 300))


def kept(path: Path, one: Translator, line: str, **how: Any) -> EncodedLine:
    """The line, written to disk and read again."""
    model = fingerprint(one.trained)
    save_memory(path, encode_line(one, line, **how), kind=type(one.trained.model.attention).__name__, model=model)
    return load_memory(path, one.trained, model=model)


@pytest.mark.parametrize("search", OPTIONS)
@pytest.mark.parametrize("name", NAMES)
def test_a_stored_memory_gives_the_same_translation(name: str, search: str, tmp_path: Path) -> None:
    one = translator(f"attention={name}", encoder="bilstm")
    stored = [kept(tmp_path / str(row), one, line) for row, line in enumerate(LINES)]
    direct = one.translate(LINES, OPTIONS[search], alignments=False)
    for here, there in zip(translate_encoded(one, stored, OPTIONS[search]), direct, strict=True):
        assert [each.tokens for each in here.n_best] == [each.tokens for each in there.n_best]
        np.testing.assert_allclose(
            [each.score for each in here.n_best], [each.score for each in there.n_best], rtol=1e-9
        )


@pytest.mark.parametrize("name", NAMES)
def test_a_trace_keeps_the_alignments(name: str, tmp_path: Path) -> None:
    one = translator(f"attention={name}", encoder="bilstm")
    stored = [kept(tmp_path / str(row), one, line, trace=True) for row, line in enumerate(LINES)]
    found = translate_encoded(one, stored, OPTIONS["beam"], alignments=True)
    for here, there in zip(found, one.translate(LINES, OPTIONS["beam"]), strict=True):
        assert here.source_tokens == there.source_tokens and here.source_words == there.source_words
        if there.alignment is not None:
            np.testing.assert_allclose(here.alignment, there.alignment, atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_coverage_is_that_of_the_text(name: str, tmp_path: Path) -> None:
    if name == "none":
        return
    one = translator(f"attention={name}", encoder="bilstm")
    stored = [kept(tmp_path / str(row), one, line, trace=True) for row, line in enumerate(LINES)]
    options = SearchOptions(max_length=9, beam_size=3, coverage_penalty=0.4)
    direct = one.translate(LINES, options, alignments=False)
    for here, there in zip(translate_encoded(one, stored, options), direct, strict=True):
        assert here.tokens == there.tokens and here.score == pytest.approx(there.score, rel=1e-6)


def test_without_a_trace_alignments_and_coverage_are_refused(tmp_path: Path) -> None:
    one = translator()
    line = kept(tmp_path / "memory", one, "a dog")
    with pytest.raises(UserError, match="alignments: .* keep no trace of their source; encode with trace=true"):
        translate_encoded(one, [line], alignments=True)
    with pytest.raises(UserError, match="search.coverage_penalty=0.1: .* keep no trace"):
        translate_encoded(one, [line], SearchOptions(coverage_penalty=0.1))


@pytest.mark.parametrize("most", [1, 12, 20, 4096])
@pytest.mark.parametrize("name", ["bahdanau", "memory"])  # slots that grow with the line, and a fixed number
def test_a_batch_of_memories_holds_no_more_slots_than_it_may(
    name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = translator(f"attention={name}", *(["attention.slots=4"] if name == "memory" else []))
    stored = [encode_line(one, line) for line in LINES[:3] * 5]
    met: list[tuple[int, int]] = []

    def searched(engine: Any, source: Source, *rest: Any) -> Any:
        met.append((source.memory.slots.shape[0], source.memory.slots.shape[1]))
        return search_encoded(engine, source, *rest)

    monkeypatch.setattr(encoded, "search_encoded", searched)
    one.max_tokens = most
    together = translate_encoded(one, stored, OPTIONS["beam"])
    slots = Counter(line.source.memory.slots.shape[1] for line in stored if line.source is not None)
    for size, lines in slots.items():
        batches = [rows for rows, each in met if each == size]
        assert sum(batches) == lines and len(batches) == ceil(lines / max(1, most // size))
        assert max(batches) == 1 or max(batches) * size <= most
    assert [each.text for each in together] == [
        translate_encoded(one, [each], OPTIONS["beam"])[0].text for each in stored
    ]


def other_bias(model: Seq2Seq) -> Seq2Seq:
    """The model with one number of it changed by little."""
    other = deepcopy(model)
    with torch.no_grad():
        other.decoder.output.bias[-1] += 1e-9
    return other


@pytest.mark.parametrize(
    "change",
    [
        lambda one: replace(one, config={**one.config, "data": {**one.config["data"], "lowercase": True}}),
        lambda one: replace(one, longest_source=301),
        lambda one: replace(one, source=OTHER_TOKENIZER),
        lambda one: replace(one, target=OTHER_TOKENIZER),
        *(
            lambda one, name=name: replace(one, config={**one.config, name: {**one.config[name], "another": 1}})
            for name in ("embeddings", "encoder", "attention", "decoder")
        ),
        lambda one: replace(one, model=other_bias(one.model)),
    ],
    ids=["lowercase", "longest_source", "source", "target", "embeddings", "encoder", "attention", "decoder", "weights"],
)
def test_each_change_of_a_model_changes_its_fingerprint(change: Callable[[TrainedModel], TrainedModel]) -> None:
    one = translator().trained
    assert fingerprint(one) == fingerprint(translator().trained)
    assert fingerprint(change(one)) != fingerprint(one)


STREAMING = [
    ["attention=memory", "attention.renormalise=null"],
    *([f"attention={name}"] for name in ("covariance", "gated_covariance", "delta", "low_rank", "none")),
    *(["attention=general_covariance", f"attention.recall={recall}"] for recall in ("true", "false")),
    *(["attention=kernel", f"attention.feature_map={name}"] for name in ("elu", "taylor", "softmax", "scaling")),
    ["attention=multi_head", "attention@attention.inner=kernel", "attention.inner.feature_map=softmax"],
]


@pytest.mark.parametrize("piece_length", [1, 7, 1000])
@pytest.mark.parametrize("words", STREAMING, ids=",".join)
def test_a_line_in_parts_is_remembered_as_one(words: list[str], piece_length: int) -> None:
    one = translator(*words)
    refuse_parts(one)
    for line in LINES[-2:]:
        whole, parts = (encode_line(one, line, piece_length=size, trace=True) for size in (None, piece_length))
        assert whole.ids == parts.ids and whole.seed == parts.seed
        assert whole.source is not None and parts.source is not None
        for left, right in zip(
            [*whole.source.memory, *whole.source.final], [*parts.source.memory, *parts.source.final], strict=True
        ):
            torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("encoder", "attention", "message"),
    [
        ("bilstm", "covariance", "encoder reads in both directions.*train with encoder=lstm"),
        ("lstm", "bahdanau", "Bahdanau attention .* must see a line as a whole"),
        ("lstm", "memory", "must see a line as a whole.*attention.renormalise=null"),
    ],
)
def test_what_cannot_stream_is_refused(encoder: str, attention: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        refuse_parts(translator(f"attention={attention}", encoder=encoder))


def test_a_line_too_long_is_refused_in_parts_as_well() -> None:
    one = translator("attention=low_rank")
    for size in (None, 64):
        with pytest.raises(SourceTooLong, match="reads at most 300"):
            encode_line(one, "dog " * 400, piece_length=size)


class TestFiles:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "00000001.safetensors"

    @pytest.fixture
    def one(self) -> Translator:
        return translator("attention=covariance")

    def refused(self, path: Path, one: Translator, message: str) -> None:
        with pytest.raises(UserError, match=message) as caught:
            load_memory(path, one.trained, model=fingerprint(one.trained))
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)

    def test_another_model_is_refused(self, path: Path, one: Translator) -> None:
        kept(path, translator("attention=covariance", seed=12), "a dog")
        self.refused(path, one, "of another model")

    def test_another_kind_is_refused(self, path: Path, one: Translator) -> None:
        kept(path, translator("attention=delta"), "a dog")
        self.refused(path, one, "a memory of DeltaAttention, but the model has CovarianceAttention")

    @pytest.mark.parametrize("cut", [0, 5, 100, -1])
    def test_truncated_files_are_refused(self, path: Path, one: Translator, cut: int) -> None:
        kept(path, one, "a dog")
        path.write_bytes(path.read_bytes()[:cut])
        self.refused(path, one, "cannot be read as a memory .*truncated")

    def test_every_changed_byte_is_noticed(self, path: Path, one: Translator) -> None:
        kept(path, one, "a dog")
        whole = path.read_bytes()
        for at in range(8, len(whole), len(whole) // 40):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            with pytest.raises(UserError, match=str(path)):
                load_memory(path, one.trained, model=fingerprint(one.trained))

    def rewrite(self, path: Path, one: Translator, about: dict[str, str], **tensors: Tensor | None) -> None:
        """The stored line with other numbers, signed as if they were its own."""
        line = kept(path, one, "a dog", trace=True)
        assert line.source is not None
        memory = line.source.memory._replace(**tensors)
        model = fingerprint(one.trained)
        save_memory(
            path, line._replace(source=line.source._replace(memory=memory)), kind="CovarianceAttention", model=model
        )
        if about:
            from safetensors import safe_open

            with safe_open(path, "pt") as file:
                metadata = {**file.metadata(), **about}
            save_file(load_file(path), path, metadata)

    @pytest.mark.parametrize(
        ("about", "tensors", "message"),
        [
            ({"format": "2"}, {}, "memory format 2, this version reads 1"),
            ({"seed": "7"}, {}, "damaged"),
            ({}, {"slots": torch.zeros(1, 8, 9, dtype=torch.float64)}, "not of the sizes"),
            ({}, {"slots": torch.zeros(1, 8, 8)}, "not of the sizes"),
            ({}, {"mass": torch.zeros(2, 8, dtype=torch.float64)}, "not of the sizes"),
            ({}, {"length": torch.tensor([0])}, "not of the sizes"),
            ({}, {"length": torch.tensor([99])}, "not of the sizes"),
            ({}, {"keys": torch.zeros(1, 8, 8)}, "not of the sizes"),
        ],
    )
    def test_what_the_model_does_not_write_is_refused(
        self, path: Path, one: Translator, about: dict[str, str], tensors: dict[str, Tensor], message: str
    ) -> None:
        self.rewrite(path, one, about, **tensors)
        self.refused(path, one, message)

    def test_a_gap_in_a_folder_is_named(self, tmp_path: Path, path: Path, one: Translator) -> None:
        kept(path, one, "a dog")
        with pytest.raises(UserError, match="no count.txt there"):
            memory_files(tmp_path)
        (tmp_path / "count.txt").write_text("3\n")
        shutil.copy(path, tmp_path / "00000003.safetensors")
        with pytest.raises(UserError, match="1 of 3 are lost, the first is 00000002.safetensors"):
            memory_files(tmp_path)
        shutil.copy(path, tmp_path / "00000002.safetensors")
        assert [file.stem for file in memory_files(tmp_path)] == ["00000001", "00000002", "00000003"]

    @pytest.mark.parametrize(
        ("count", "message"),
        [
            ("-1", "its count.txt does not say how many there are; encode again"),
            ("two", "its count.txt does not say how many there are"),
            ("0", "00000001.safetensors is one more than the 0 of count.txt; encode again"),
            ("1", "00000002.safetensors is one more than the 1 of count.txt"),
            ("3", "1 of 3 are lost, the first is 00000003.safetensors"),
            (str(10**15), "999,999,999,999,998 of 1,000,000,000,000,000 are lost, the first is 00000003.safetensors"),
        ],
    )
    def test_a_wrong_count_is_named(self, tmp_path: Path, count: str, message: str) -> None:
        for number in (1, 2):
            (tmp_path / f"{number:08d}.safetensors").touch()
        (tmp_path / "count.txt").write_text(count)
        with pytest.raises(UserError, match=message):
            memory_files(tmp_path)

    def test_a_memory_that_cannot_be_written_is_one_line(self, one: Translator, tmp_path: Path) -> None:
        place = tmp_path / "absent" / "memory"  # safetensors raises its own error for it, as for a full disk
        with pytest.raises(UserError, match=rf"^{place}: cannot be written \(.*\); free some space or .*$"):
            save_memory(place, encode_line(one, "a dog"), kind="CovarianceAttention", model="")

    def test_weights_of_another_precision_write_other_memories(self, path: Path, one: Translator) -> None:
        for precise in (True, False, True):
            one.trained.model.double() if precise else one.trained.model.float()
            line = kept(path, one, "a dog")
            assert line.source is not None
            assert line.source.memory.slots.dtype == (torch.float64 if precise else torch.float32)
