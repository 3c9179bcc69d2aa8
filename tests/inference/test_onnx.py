"""The ONNX engine gives the same pieces, scores and alignments as torch; damaged exports are refused."""

from __future__ import annotations

import json
import logging
import os
import pickle
import shutil
from collections import Counter
from collections.abc import Callable, Collection
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from builders import forced_log_prob, random_trained
from onnx import TensorProto
from torch import Tensor, nn

from nmt.attention.base import Memory
from nmt.commands.serve import load_quietly
from nmt.config.compose import compose_train
from nmt.config.overrides import config_dir
from nmt.errors import SourceTooLong, UserError
from nmt.files.checksum import checksum
from nmt.inference import bulk
from nmt.inference.engines import LoadSettings, OnnxEngineName
from nmt.inference.model_folder import load_folder, save_folder
from nmt.inference.onnx import engine as engine_module
from nmt.inference.onnx import graphs, rewrites
from nmt.inference.onnx.engine import MAX_STEPS, open_session
from nmt.inference.onnx.export import ENGINES, _open_k, export
from nmt.inference.onnx.model import OnnxModel, exported_engines, open_onnx
from nmt.inference.onnx.shortlist import Shortlist
from nmt.inference.translator import Translator
from nmt.model.decoder import LSTMDecoder, RecurrentDecoder, State
from nmt.model.encoder import Final, LSTMEncoder
from nmt.model.units import Unit
from nmt.search.options import SearchOptions
from nmt.search.search import search
from nmt.text.specials import BOS, EOS, PAD, UNK
from nmt.text.tokenizer import Tokenizer

pytestmark = pytest.mark.thorough

LINES = ["a dog", "two cats sleep here today", "houses", "a small dog sees red houses today", "a"]
SHORT = SearchOptions(beam_size=3, max_length=9)
BEAM = SearchOptions(beam_size=4, n_best=4, max_length=9)
GREEDY = SearchOptions(beam_size=1, max_length=9)
TOKENIZER = Tokenizer.train(["a small dog sees red houses", "two cats sleep here today"], vocab_size=290)
# The YAMLs of the papers have other settings of the same classes.
NAMES = [path.stem for path in sorted((config_dir() / "attention").glob("*.yaml")) if "_paper" not in path.stem]


def exported(
    folder: Path,
    *words: str,
    likely: tuple[np.ndarray, np.ndarray] | None = None,
    engines: Collection[OnnxEngineName] = ("onnx",),
    longest_source: int = 40,
) -> tuple[Translator, Translator]:
    """Export one random model for ``engines``. Return its translators by torch and by onnxruntime."""
    sizes = ["encoder.hidden_size=16", "decoder.hidden_size=16", "embeddings.size=8"]
    config = compose_train([*sizes, *words])
    config["data"]["lowercase"] = False
    trained = random_trained(config, TOKENIZER, longest_source=longest_source, scale=2, eos_bias=3)
    save_folder(folder, trained)
    export(trained, folder, likely, engines=engines)
    return Translator(trained), by_onnx(folder)


def by_onnx(folder: Path, engine: OnnxEngineName = "onnx", **settings: Any) -> Translator:
    return Translator(open_onnx(folder, LoadSettings(engine=engine, threads=1, **settings)))


def assert_equal_translations(expected: Translator, actual: Translator, options: SearchOptions) -> None:
    for lines in (LINES, LINES[:1], LINES[1:3]):
        for left, right in zip(expected.translate(lines, options), actual.translate(lines, options), strict=True):
            assert [translation.tokens for translation in left.n_best] == [
                translation.tokens for translation in right.n_best
            ]
            for first, second in zip(left.n_best, right.n_best, strict=True):
                np.testing.assert_allclose(second.log_prob, first.log_prob, atol=1e-4)
                np.testing.assert_allclose(second.alignment, first.alignment, atol=1e-4)


ONE_CALL = [
    *(SearchOptions(beam_size=size, max_length=9) for size in (1, 2, 5)),
    SearchOptions(beam_size=4, max_length=9, min_length=5, length_penalty=0.2, replace_unknown=True),
    SearchOptions(beam_size=3, max_length=1),
    SearchOptions(beam_size=1, min_length=0),
]


def assert_one_call_equals_single_steps(translator: Translator) -> None:
    """Assert that a search in one call gives what the search in NumPy gives, bit for bit."""
    engine = translator.loaded_model.engine(trace=False)
    steps: Any = SimpleNamespace(**{name: getattr(engine, name) for name in ("encode", "init", "step", "drop")})
    for ids in map(translator.encode, LINES):
        for options in ONE_CALL:
            limit = int(options.limits(np.array([len(ids)]))[0])
            assert engine.search_one(engine.encode([ids]), limit, options) is not None  # type: ignore[attr-defined]
            assert search(engine, [ids], options) == search(steps, [ids], options)


# Each takes 10 s; tests/attention exports every kind alone.
SLOW = {
    "abc",
    "covariance",
    "gated_covariance",
    "gated_delta",
    "general_covariance",
    "hashed",
    "low_rank",
    "luong",
    "nested_memory",
    "none",
    "sparse",
}
KINDS = [pytest.param([name, "decoder.layers=2"], marks=[pytest.mark.slow] if name in SLOW else []) for name in NAMES]


def transformer(part: str, self_attention: str) -> list[str]:
    """Return settings that make the encoder or decoder a Transformer."""
    sizes = [f"{part}.layers=1", f"{part}.feedforward_size=24"]
    return [f"{part}=transformer", *sizes, f"{part}.self_attention={self_attention}"]


def both(self_attention: str, *settings: str) -> list[str]:
    """Return settings that make both Transformers with this self-attention."""
    words = [word for part in PARTS for word in transformer(part, self_attention)]
    return [*words, *(f"{part}.self_attention.{setting}" for part in PARTS for setting in settings)]


PARTS = ("encoder", "decoder")
LINEAR = both("linear")
FEEDING = "decoder.input_feeding=true"
OTHERS = [
    ["luong", FEEDING, "decoder.layers=2"],
    *(
        ["memory", f"decoder.output_layer={layer}", FEEDING, "encoder=lstm", "encoder.layers=2"]
        for layer in ("attentional", "direct")
    ),
    ["memory", *transformer("encoder", "softmax"), *transformer("decoder", "linear")],
    ["memory", "encoder=lstm", *transformer("decoder", "softmax")],
    ["memory", *LINEAR, "encoder.self_attention.feature_map=hedgehog", "decoder.self_attention.feature_map=features"],
    ["memory", *both("window", "window=2")],
    ["multi_head", "attention.heads=2", "attention.separate_values=true", *both("softmax"), "decoder.layers=2"],
    ["memory", *both("strided", "stride=3")],
]
OTHERS_SLOW = [
    ["gated_delta", "decoder.layers=2"],
    ["memory", *transformer("encoder", "linear"), *transformer("decoder", "softmax")],
    ["memory", "encoder=bilstm", *transformer("decoder", "linear")],
    ["memory", *LINEAR, "encoder.self_attention.feature_map=features", "decoder.self_attention.feature_map=hedgehog"],
    ["memory", *both("hashed", "directions=1", "chunk=3")],
    ["memory", *transformer("encoder", "low_rank"), "encoder.self_attention.slots=4"],
    ["memory", *transformer("encoder", "pooled")],
]
UNITS = [  # also in 8-bit integers
    ["memory", "decoder=gru", "encoder=bigru", "encoder.layers=2"],
    ["memory", "decoder=gru", "encoder=gru", "decoder.layers=2", FEEDING, "decoder.output_layer=direct"],
    ["memory", "decoder=ssru"],
    ["memory", "decoder=ssru", "decoder.layers=2", FEEDING, "decoder.output_layer=direct"],
    ["memory", "decoder=mingru", "decoder.layers=2"],
    ["memory", "decoder=mingru", FEEDING],
    ["memory", *both("softmax"), "decoder.layers=2"],
]


@pytest.mark.parametrize(
    "words",
    [*KINDS, *OTHERS, *UNITS, *(pytest.param(words, marks=pytest.mark.slow) for words in OTHERS_SLOW)],
    ids=lambda words: ",".join(word for word in words if "layers" not in word and "size" not in word),
)
def test_engines_agree(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = ENGINES if words in UNITS else ENGINES[:1]
    words = [f"attention={words[0]}", *words[1:]]
    pair = exported(tmp_path, *words, engines=engines)
    for options in (BEAM, GREEDY, SearchOptions(temperature=1.2, n_best=2, max_length=9)):
        assert_equal_translations(*pair, options)
    if words[0] != "attention=none":
        assert_equal_translations(*pair, SearchOptions(beam_size=3, coverage_penalty=0.3, max_length=9))
    for engine in engines:
        assert_one_call_equals_single_steps(by_onnx(tmp_path, engine))
    if engines == ENGINES:
        assert_similar_scores(tmp_path)
    if FEEDING in words:  # without the embedding table
        monkeypatch.setattr(graphs, "MAX_TABLE", 0)
        assert_equal_translations(*exported(tmp_path, *words), BEAM)


def assert_similar_scores(folder: Path) -> None:
    """Assert that 8-bit integers change the scores little.

    Rounding can change which of the random texts the beam finds, unless they may be empty.
    """
    options = SearchOptions(min_length=0)
    results = (by_onnx(folder, engine).translate(LINES, options) for engine in ENGINES)
    for exact, rounded in zip(*results, strict=True):
        assert rounded.log_prob == pytest.approx(exact.log_prob, rel=0.3)


def test_fields_of_own_parts_may_be_called_size_and_zero(tmp_path: Path) -> None:
    """The nodes that every step graph gets for k have other names."""
    nodes = "zero = Identity (size)  log_probs, candidates = TopK (zero, is_negative)"
    inputs = "float[b,n,v] size, int64[1] is_negative"
    graph = f"step ({inputs}) => (float[b,n,c] log_probs, int64[b,n,c] candidates) {{ {nodes} }}"
    file = tmp_path / "step.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]> {graph}'), file)
    _open_k(file)
    scores = np.array([[[1.0, 3.0, 2.0]]], dtype=np.float32)
    given = {"size": scores, "is_negative": np.array([1])}
    session = open_session(file, threads=1)
    for k, best in ((2, [3.0, 2.0]), (-1, [3.0])):
        log_probs, _, all_log_probs = session.run(None, {**given, "k": np.array([k])})
        np.testing.assert_array_equal(log_probs, [[best]])
    np.testing.assert_array_equal(all_log_probs, scores)


def test_a_model_trained_on_short_sources_is_exported(tmp_path: Path) -> None:
    pair = exported(tmp_path, "attention=low_rank", longest_source=9)
    lines = ["a dog", "a", "a a dog"]
    assert max(len(pair[0].encode(line)) for line in lines) > 4  # longer than the example of the export
    assert pair[1].texts(lines, SHORT) == pair[0].texts(lines, SHORT)
    for translator in pair:
        with pytest.raises(SourceTooLong, match=r"^lines\[1\]: "):
            translator.texts([*lines[:1], "dog " * 20, *lines], SHORT)


def test_export_changes_neither_the_model_nor_the_logging_of_its_caller(tmp_path: Path) -> None:
    config = compose_train(["encoder.hidden_size=8", "decoder.hidden_size=8", "embeddings.size=8"])
    trained = random_trained(config, TOKENIZER)
    trained.model.double().train()
    save_folder(tmp_path, trained)
    logging.disable(logging.INFO)
    try:
        export(trained, tmp_path, engines=["onnx"])
        assert logging.root.manager.disable == logging.INFO
    finally:
        logging.disable(logging.NOTSET)
    assert {weight.dtype for weight in trained.model.parameters()} == {torch.float64} and trained.model.training


def test_tied_embeddings_are_integers(tmp_path: Path) -> None:
    words = [*both("softmax"), "decoder.tied=true", "embeddings.shared=true", "embeddings.size=16"]
    exported(tmp_path, "attention=memory", *words, engines=ENGINES)
    for graph in ("encode", "step"):
        weights = onnx.load(tmp_path / f"onnx/{graph}.int8.onnx").graph.initializer
        tables = [weight.name for weight in weights if len(weight.dims) == 2 and weight.data_type != TensorProto.INT8]
        assert not tables


def lists(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return lists with the last ``size`` target pieces as the translations of every source piece."""
    best = np.broadcast_to(290 - 1 - np.arange(size), (290, size)).astype(np.int32)
    return best, np.arange(4, 8, dtype=np.int32)


@pytest.fixture(scope="module")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("short")
    exported(folder, "attention=memory", likely=lists(20))
    return folder


def test_graphs_hold_no_paths_of_the_machine_that_wrote_them(short_run: Path) -> None:
    graphs = [file.read_bytes() for file in short_run.rglob("*.onnx")]
    assert graphs
    assert not any(b'.py", line' in graph for graph in graphs)


@pytest.mark.parametrize("copied", [deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_translates_as_the_original(short_run: Path, copied: Callable[[Translator], Translator]) -> None:
    translator = Translator.load(short_run, engine="onnx", threads=1)
    expected = translator.texts(LINES)
    other = copied(translator)
    assert other.loaded_model.engine_name == "onnx" and other.loaded_model.thread_count == 1
    assert other.texts(LINES) == expected


def test_graphs_and_their_torch_model_use_the_given_threads(short_run: Path) -> None:
    before = torch.get_num_threads()
    translator = Translator.load(short_run, engine="onnx", threads=3)
    engine = translator.loaded_model.engine(trace=False)
    for session in (engine._step, engine._align):  # type: ignore[attr-defined]
        assert session.get_session_options().intra_op_num_threads == 3
    assert translator.trained and torch.get_num_threads() == 3
    torch.set_num_threads(before)


def test_each_graph_is_loaded_once_for_one_kind_of_work(short_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[str, int]] = []

    def open_session(file: Path, threads: int) -> Any:
        opened.append((file.name, threads))
        return original(file, threads)

    original = engine_module.open_session
    monkeypatch.setattr(engine_module, "open_session", open_session)
    monkeypatch.setattr(bulk, "LEAST_TOKENS", 4)  # so that few lines are several batches at once
    graphs = ["align.onnx", "encode.onnx", "step.onnx"]
    translator = Translator.load(short_run, threads=2)
    assert translator.loaded_model.engine_name == "onnx" and opened == []  # type: ignore[attr-defined]
    translator.texts(LINES * 4)
    assert sorted(opened) == [(name, 1) for name in graphs]
    opened.clear()
    translator.texts(LINES[:1])
    assert sorted(opened) == [(name, 2) for name in sorted([*graphs, "search.onnx"])]


def test_one_line_is_translated_by_an_export_without_a_search_graph(short_run: Path, tmp_path: Path) -> None:
    expected = [Translator.load(short_run, engine="onnx").texts([line], SHORT) for line in LINES]
    run = shutil.copytree(short_run, tmp_path / "older")
    about = json.loads((run / "onnx" / "about.json").read_text())
    del about["checksums"]["search.onnx"]
    (run / "onnx" / "about.json").write_text(json.dumps(about))
    (run / "onnx" / "search.onnx").unlink()
    assert [Translator.load(run, engine="onnx").texts([line], SHORT) for line in LINES] == expected


def test_a_beam_that_is_too_large_for_one_call_takes_single_steps(short_run: Path) -> None:
    translator = Translator.load(short_run, engine="onnx", threads=1)
    engine = translator.loaded_model.engine(trace=False)
    source = engine.encode([translator.encode("a dog")])
    options = [SearchOptions(beam_size=size, max_length=3) for size in (len(TOKENIZER) // 2, len(TOKENIZER) // 2 + 1)]
    assert [engine.search_one(source, 3, option) is None for option in options] == [False, True]  # type: ignore[attr-defined]
    texts = [translator.texts(["a dog"], option) for option in options]
    assert texts[0] == texts[1]


def test_a_search_that_may_take_long_takes_single_steps_which_ctrl_c_can_end(short_run: Path) -> None:
    translator = Translator.load(short_run, engine="onnx", threads=1)
    engine = translator.loaded_model.engine(trace=False)
    source = engine.encode([translator.encode("a dog")])
    calls = [engine.search_one(source, limit, SHORT) for limit in (MAX_STEPS, MAX_STEPS + 1)]  # type: ignore[attr-defined]
    assert [call is None for call in calls] == [False, True]


def record_checksum(file: Path) -> None:
    """Record the checksum of a changed file in ``about.json`` beside it."""
    about = json.loads((file.parent / "about.json").read_text())
    about["checksums"][file.name] = checksum(file)
    (file.parent / "about.json").write_text(json.dumps(about))


class TestShortlist:
    @pytest.mark.parametrize(
        "words",
        [["luong", "decoder.input_feeding=true"], pytest.param(["memory"], marks=pytest.mark.slow)],
        ids=",".join,
    )
    def test_a_shortlist_of_the_whole_vocabulary_changes_nothing(self, words: list[str], tmp_path: Path) -> None:
        best = np.broadcast_to(np.arange(290), (290, 290)).astype(np.int32)
        pair = exported(
            tmp_path, f"attention={words[0]}", *words[1:], likely=(best, np.arange(4, dtype=np.int32)), engines=ENGINES
        )
        short = by_onnx(tmp_path, shortlist=True)
        for options in (BEAM, GREEDY):
            assert_equal_translations(pair[0], short, options)
            integers = [by_onnx(tmp_path, "onnx-int8", shortlist=restricted) for restricted in (False, True)]
            assert_equal_translations(*integers, options)
        for translator in (short, *integers):
            assert_one_call_equals_single_steps(translator)

    @pytest.mark.parametrize("damage", ["truncated", b"", b"nonsense", "other rows", "integers"])
    def test_damaged_or_missing_shortlist_is_reported(
        self, short_run: Path, tmp_path: Path, damage: bytes | str
    ) -> None:
        run = shutil.copytree(short_run, tmp_path / "copy")
        file = run / "onnx" / "shortlist.npz"
        forged = "shortlist.npz: cannot be read"
        if damage == "other rows":
            with np.load(file) as stored:
                arrays = {**stored, "weight": np.zeros((290, 5), np.float32)}
            np.savez(file, **arrays)
            forged = r"graphs that do not fit together \('output.weight'\); write them again"
        elif damage == "integers":  # for float32 graphs
            Shortlist.load(file, source_vocabulary=290, target_vocabulary=290).save(file, integers=True)
            forged = r"graphs that do not fit together \('output.weight'\)"
        else:
            file.write_bytes(file.read_bytes()[:2000] if isinstance(damage, str) else damage)
        with pytest.raises(UserError, match=r"shortlist.npz: cannot be read as a shortlist \(wrong checksum\)"):
            by_onnx(run, shortlist=True).texts(LINES)
        record_checksum(file)  # as in a forged folder
        with pytest.raises(UserError, match=forged):
            by_onnx(run, shortlist=True).texts(LINES)
        file.unlink()
        missing = "shortlist=true: .* has no shortlist; write one with nmt-export .* shortlist=20"
        with pytest.raises(UserError, match=missing):
            open_onnx(run, LoadSettings(engine="onnx", shortlist=True))
        with pytest.raises(UserError, match="shortlist=true: engine=torch has no shortlist; use engine=onnx"):
            Translator.load(run, engine="torch", shortlist=True)

    def test_integers_are_stored_as_they_are_used(self, tmp_path: Path) -> None:
        weight, bias = np.random.default_rng(1).standard_normal((2, 290, 16)).astype(np.float32)
        exact = Shortlist(*lists(20), weight, bias[:, 0])
        ids = exact.candidates([[5, 9, EOS]])
        sizes = []
        for integers in (False, True):
            file = tmp_path / f"{integers}.npz"
            exact.save(file, integers=integers)
            stored = Shortlist.load(file, source_vocabulary=290, target_vocabulary=290)
            for name, array in stored.output_layer(ids, integers=True).items():
                np.testing.assert_array_equal(array, exact.output_layer(ids, integers=True)[name])
            sizes.append(file.stat().st_size)
        assert sizes[0] - sizes[1] > 2 * weight.size

    def test_translations_use_the_shortlist_only(self, short_run: Path) -> None:
        unrestricted, restricted = (by_onnx(short_run, shortlist=shortlist) for shortlist in (False, True))
        allowed = {*TOKENIZER.pieces([*range(4, 8), *range(270, 290)]), "</s>"}
        options = SearchOptions(beam_size=30, n_best=5, max_length=9)

        def used_pieces(translator: Translator) -> set[str]:
            translations = [best for line in translator.translate(LINES, options) for best in line.n_best]
            return {piece for translation in translations for piece in translation.tokens}

        assert used_pieces(restricted) <= allowed and len(used_pieces(restricted)) > 5
        assert not used_pieces(unrestricted) <= allowed  # so the shortlist made a difference

    def test_only_banned_ids_of_the_shortlist_need_more_candidates(
        self, short_run: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine: Any = by_onnx(short_run, shortlist=True).loaded_model.engine(trace=False)
        counts = []
        run = engine._step.run

        def counted_run(names: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
            counts.append(int(inputs["k"][0]))
            outputs: list[np.ndarray] = run(names, inputs)
            return outputs

        monkeypatch.setattr(engine._step, "run", counted_run)
        source = engine.encode([[5, 9, EOS]])
        first = (engine.init(source), np.array([[BOS]]), np.array([[0]]))
        _, log_probs, ids, _ = engine.step(*first, len(source.ids))
        for banned in ([PAD, UNK, BOS], [PAD, UNK, BOS, EOS]):
            kept = ~np.isin(ids, banned)
            _, best, chosen, _ = engine.step(*first, 5, banned)
            np.testing.assert_array_equal(best[0, 0], log_probs[kept][:5])
            np.testing.assert_array_equal(chosen[0, 0], ids[kept][:5])
        assert counts == [len(source.ids), 5, 6]


BEST, FREQUENT = lists(20)


@pytest.mark.parametrize(
    "change",
    [
        {"best": BEST + 1},  # ids above the vocabulary
        {"best": BEST[:-1]},  # too few source pieces
        {"best": BEST[0]},
        {"best": BEST.astype("f")},
        {"frequent": np.array([-1], dtype=np.int32)},
        {"weight": np.zeros((289, 16), "f")},
        {"weight": np.zeros(290, "f")},
        {"weight": np.zeros((290, 16), "d")},
        {"weight": np.zeros((290, 16), "b")},
        {"scale": np.zeros(290, "f")},
        {"weight": np.zeros((290, 16), "b"), "scale": np.zeros(289, "f")},
        {"bias": np.zeros(289, "f")},
        {"weight": np.zeros((289, 16), "f"), "bias": np.zeros(289, "f")},
    ],
    ids=lambda change: ",".join(f"{name}{array.shape}" for name, array in change.items()),
)
def test_forged_shortlist_is_refused(tmp_path: Path, change: dict[str, np.ndarray]) -> None:
    arrays = {"best": BEST, "frequent": FREQUENT, "weight": np.zeros((290, 16), "f"), "bias": np.zeros(290, "f")}
    np.savez(tmp_path / "a.npz", **arrays)
    Shortlist.load(tmp_path / "a.npz", source_vocabulary=290, target_vocabulary=290)
    np.savez(tmp_path / "a.npz", **{**arrays, **change})
    with pytest.raises(UserError, match="a.npz: not a shortlist that nmt-export writes"):
        Shortlist.load(tmp_path / "a.npz", source_vocabulary=290, target_vocabulary=290)
    np.savez_compressed(tmp_path / "a.npz", **arrays)  # a few bytes could become gigabytes
    with pytest.raises(UserError, match=r"a.npz: cannot be read \(its members are compressed or overlap\)"):
        Shortlist.load(tmp_path / "a.npz", source_vocabulary=290, target_vocabulary=290)


def test_a_refused_graph_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """onnxruntime would print to stdout, among the translations, that it tries again."""
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Unknown", ["x"], ["y"])], "graph", [x], [y])
    opset = onnx.helper.make_opsetid("", 18)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9).SerializeToString()
    (tmp_path / "x.onnx").write_bytes(model.replace(b"Unknown", b"Unknow\xff"))
    with pytest.raises(UserError, match=r"x\.onnx: cannot be read as a graph"):
        open_session(tmp_path / "x.onnx", 1)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("words", [["delta"], ["general_covariance", "attention.recall=state"]], ids=",".join)
def test_sequential_attentions_are_encoded_by_torch(words: list[str], tmp_path: Path) -> None:
    pair = exported(tmp_path, f"attention={words[0]}", *words[1:], engines=ENGINES)
    names = ["align", "search", "search.int8", "step", "step.int8"]
    assert sorted(file.stem for file in (tmp_path / "onnx").glob("*.onnx")) == names
    assert_equal_translations(*pair, SearchOptions(beam_size=3, n_best=3, max_length=9))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    exported(folder, "attention=memory", engines=ENGINES)
    return folder


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(run, tmp_path / "copy")


def test_one_thread_translates_one_line_in_8_bit_integers(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = Translator.load(run, engine="onnx-int8", threads=2)
    translator.texts(LINES[:1], SearchOptions(beam_size=5))
    assert "_single_thread" in vars(translator.loaded_model) and "_all_threads" not in vars(translator.loaded_model)

    monkeypatch.setattr(OnnxModel, "_load", lambda self, threads: threads)
    model = open_onnx(run, LoadSettings(engine="onnx-int8", threads=2))
    assert [model.engine(trace=False, hypotheses=count) for count in (1, 10, 11, None)] == [1, 1, 2, 2]
    for others in ({"engine_name": "onnx"}, {"properties": replace(model.properties, encoder="torch")}):
        assert replace(model, **others).engine(trace=False, hypotheses=1) == 2  # type: ignore[comparison-overlap]
    alone = replace(model, settings=LoadSettings(threads=1))
    alone.engine(trace=False)
    assert "_all_threads" not in vars(alone)


class MyEncoder(LSTMEncoder):
    """An encoder that doubles the states, which the graph of its base class does not."""

    def forward(
        self, embedded: Tensor, mask: Tensor, state: Final | None = None, *, resumable: bool = False
    ) -> tuple[Tensor, Final]:
        states, final = super().forward(embedded, mask, state, resumable=resumable)
        return 2 * states, final


class MyDecoder(LSTMDecoder):
    """A decoder with another step, which the exported graph would ignore."""

    def step(self, ids: Tensor, state: State, memory: Memory) -> tuple[Tensor, State, Tensor]:
        logits, state, weights = super().step(ids, state, memory)
        return 2 * logits, state, weights


class GrowingDecoder(RecurrentDecoder):
    """A decoder whose state begins within [−1, 1] and does not stay there."""

    unit = Unit(
        "rnn",
        partial(nn.RNN, nonlinearity="relu"),  # type: ignore[arg-type]
        run=lambda inputs, state, weights: torch.rnn_relu(  # type: ignore[attr-defined]
            inputs, state[0][None], tuple(weights), True, 1, 0.0, False, False, True
        )[0],
        products=((0, 1),),
        cell=lambda scores, _: (scores.relu(),),
        bounded=(False,),
    )


def test_a_state_that_grows_is_rounded_by_its_size(tmp_path: Path) -> None:
    words = [f"decoder._target_={__name__}.GrowingDecoder", f"trust=[{__name__.partition('.')[0]}]"]
    exact, _ = exported(tmp_path, "attention=luong", *words, engines=ENGINES)
    rounded = by_onnx(tmp_path, "onnx-int8")
    steps = SearchOptions(min_length=6, max_length=6)
    for line in LINES:
        best = rounded.translate([line], steps)[0]
        expected = forced_log_prob(exact, line, best.tokens)
        assert best.log_prob == pytest.approx(expected, rel=0.003)


def test_a_subclass_of_an_encoder_has_graphs_of_its_own(tmp_path: Path) -> None:
    words = [f"encoder._target_={__name__}.MyEncoder", f"trust=[{__name__.partition('.')[0]}]"]
    pair = exported(tmp_path, "attention=memory", *words)
    assert pair[1].texts(LINES, SHORT) == pair[0].texts(LINES, SHORT)


def test_graphs_that_compute_something_else_are_refused(tmp_path: Path) -> None:
    words = [f"decoder._target_={__name__}.MyDecoder", f"trust=[{__name__.partition('.')[0]}]"]
    with pytest.raises(UserError, match=rf"{__name__}\.MyDecoder: the exported graphs compute something else"):
        exported(tmp_path, "attention=memory", *words)
    assert not (tmp_path / "onnx").exists()


@pytest.mark.thorough
def test_a_decoder_that_cannot_be_traced_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^nmt\.model\.transformer\.TransformerDecoder: nmt-export cannot export this"):
        exported(tmp_path, "attention=memory", *transformer("decoder", "pooled"))


class TestFolder:
    @pytest.mark.parametrize("graph", ["encode", "step"])
    def test_rows_of_tables_are_integers_within_half_a_step(self, graph: str, run: Path) -> None:
        def weights(file: str) -> dict[str, np.ndarray]:
            tensors = onnx.load(run / "onnx" / file).graph.initializer
            return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in tensors}

        rounded = weights(f"{graph}.int8.onnx")
        gathers = (node for node in onnx.load(run / f"onnx/{graph}.onnx").graph.node if node.op_type == "Gather")
        (table,) = (node.input[0] for node in gathers if node.input[0].endswith(rewrites.TABLES))
        exact = weights(f"{graph}.onnx")[table]
        assert not any(weight.dtype == np.float32 and weight.shape == exact.shape for weight in rounded.values())
        name = next(name for name in rounded if name.endswith(".table"))
        columns = slice(exact.shape[1])  # the encoder's table has two more
        integers, scales = rounded[name][:, columns].astype(np.float64), rounded[f"{name}.scale"][columns]
        assert rounded[name].dtype == np.int8
        assert (np.abs(integers * scales - exact) <= 0.501 * scales).all()

    def test_every_product_with_weights_is_quantised(self, run: Path) -> None:
        def node_types(file: str) -> Counter[str]:
            return Counter(node.op_type for node in onnx.load(run / "onnx" / file).graph.node)

        for graph in ("encode", "step"):
            exact, quantised = node_types(f"{graph}.onnx"), node_types(f"{graph}.int8.onnx")
            weightless = 1  # one product without weights: of values into slots, or of slots into contexts
            assert quantised["MatMulIntegerToFloat"] == exact["MatMul"] + exact["Gemm"] - weightless >= 2
            assert (quantised["MatMul"], quantised["Gemm"]) == (weightless, 0)
            assert quantised["DynamicQuantizeLSTM"] == exact["LSTM"] == (graph == "encode")
        assert_similar_scores(run)

    @pytest.mark.parametrize("graph", ["encode", "step"])
    def test_pairs_of_8_bit_products_fit_into_16_bits(self, graph: str, run: Path) -> None:
        weights = [
            onnx.numpy_helper.to_array(tensor)
            for tensor in onnx.load(run / f"onnx/{graph}.int8.onnx").graph.initializer
            if not tensor.name.endswith(".table")  # its rows are read, not multiplied
        ]
        integers = [weight for weight in weights if weight.dtype == np.int8 and weight.ndim > 1]
        assert len(integers) >= 2
        assert 2 * 255 * max(int(np.abs(weight.astype(int)).max()) for weight in integers) <= np.iinfo(np.int16).max

    @pytest.mark.parametrize("served", [False, True])
    def test_graphs_are_not_mixed_with_those_of_a_later_export(self, served: bool, copy: Path, tmp_path: Path) -> None:
        """The search graph is loaded when a line is first searched alone: nmt-serve loads it before."""
        translator = load_quietly(str(copy), LoadSettings(engine="onnx", threads=1)) if served else by_onnx(copy)
        in_steps = translator.translate(LINES[:1], SHORT)[0]  # with alignments
        other = random_trained(translator.trained.config, TOKENIZER, seed=12, scale=2, eos_bias=3)
        export(other, copy, engines=["onnx"])
        if served:
            assert translator.translate(LINES[:1], SHORT, alignments=False)[0].log_prob == in_steps.log_prob
            return
        with pytest.raises(UserError, match="copy: replaced or deleted since it was loaded; load it again"):
            translator.translate(LINES[:1], SHORT, alignments=False)

    def test_scores_and_states_are_not_those_of_a_model_that_was_trained_since(self, tmp_path: Path) -> None:
        """A resumed run writes model.pt minutes before its graphs. Torch encodes for delta, and scores for all."""
        for attention, use in (("memory", "score"), ("delta", "texts")):
            folder = tmp_path / attention
            folder.mkdir()
            _, translator = exported(folder, f"attention={attention}")
            save_folder(folder, random_trained(load_folder(folder).config, TOKENIZER, seed=12))
            with pytest.raises(UserError, match=f"/{attention}: replaced or deleted since it was loaded; load it"):
                getattr(translator, use)([("a", "a")] if use == "score" else ["a"])

    def test_graphs_of_another_model_are_refused(self, copy: Path) -> None:
        assert exported_engines(copy) == ["onnx", "onnx-int8"]  # a copy of a model counts as the same model
        content = bytearray((copy / "model.pt").read_bytes())
        content[-100] ^= 1
        (copy / "model.pt").write_bytes(content)
        assert exported_engines(copy) == []
        with pytest.raises(UserError, match="engine=onnx: .* has graphs of another model.* nmt-export model="):
            open_onnx(copy, LoadSettings(engine="onnx"))

    def test_graphs_in_a_folder_whose_name_is_not_utf8_are_read(self, run: Path, tmp_path: Path) -> None:
        strange = shutil.copytree(run, tmp_path / "b\udcff")
        for lines in (LINES, LINES[:1]):
            texts = [Translator.load(folder, engine="onnx").texts(lines, SHORT) for folder in (run, strange)]
            assert texts[0] == texts[1]

    def test_graphs_with_other_inputs_are_refused(self, copy: Path) -> None:
        for name in ("step.onnx", "align.onnx"):
            file = copy / "onnx" / name
            content = file.read_bytes()
            model = onnx.load(file, load_external_data=False)
            (field,) = [value for value in model.graph.input if value.name == "length"]
            field.name = "other"
            for node in model.graph.node:
                node.input[:] = ["other" if value == "length" else value for value in node.input]
            onnx.save(model, file)
            record_checksum(file)
            with pytest.raises(UserError, match=r"copy/onnx: graphs that do not fit together \(.*\); write them again"):
                by_onnx(copy).translate(LINES)
            file.write_bytes(content)
            record_checksum(file)

    @pytest.mark.parametrize("name", ["step", "search"])
    def test_a_forged_graph_that_cannot_be_run_is_named(self, name: str, copy: Path) -> None:
        file = copy / "onnx" / f"{name}.onnx"
        model = onnx.load(file, load_external_data=False)
        del model.graph.output[0]
        onnx.save(model, file)
        record_checksum(file)
        with pytest.raises(UserError, match=rf"/{name}\.onnx: cannot be run \(.*\); write it again with nmt-export"):
            by_onnx(copy).texts(LINES[:1] if name == "search" else LINES, SHORT)

    @pytest.mark.parametrize("name", ["encode.onnx", "step.onnx", "align.onnx", "source.model"])
    def test_no_graph_is_opened_before_all_files_are_verified(
        self, name: str, copy: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        content = bytearray((copy / "onnx" / name).read_bytes())
        content[len(content) // 2] ^= 1
        (copy / "onnx" / name).write_bytes(content)
        opened: list[str] = []
        for function in ("open_session", "graph_encoder"):
            monkeypatch.setattr(f"nmt.inference.onnx.engine.{function}", lambda *given: opened.append(given[0]))
        with pytest.raises(UserError, match=rf"{name}: cannot be read as a \w+ \(wrong checksum\); write it again"):
            by_onnx(copy).texts(LINES)
        assert opened == []
        (copy / "onnx" / name).unlink()
        os.mkfifo(copy / "onnx" / name)
        with pytest.raises(UserError, match=rf"{name}: cannot be read as a \w+ \(not a regular file\)|has graphs of"):
            by_onnx(copy).texts(LINES)

    @pytest.mark.parametrize("content", ["[" * 100_000, "[]", "null", '"x"', "{", None])
    def test_unreadable_about_json_counts_as_not_exported(self, copy: Path, content: str | None) -> None:
        about = copy / "onnx" / "about.json"
        about.unlink()
        if content is None:
            os.mkfifo(about)
        else:
            about.write_text(content)
        assert exported_engines(copy) == []
        with pytest.raises(UserError, match="has no graphs|has graphs of another model"):
            open_onnx(copy, LoadSettings(engine="onnx"))

    @pytest.mark.parametrize(
        "change",
        [
            {"attention": {"class_name": 3}},
            {"attention": None},
            {"checksums": 3},
            {"checksums": ...},
            {"lowercase": ...},
        ],
    )
    def test_invalid_about_json_is_refused(self, copy: Path, change: dict[str, object]) -> None:
        file = copy / "onnx" / "about.json"
        about = {**json.loads(file.read_text()), **change}
        file.write_text(json.dumps({name: value for name, value in about.items() if value is not ...}))
        with pytest.raises(UserError, match="about.json: not a file that nmt-export writes; write it again"):
            open_onnx(copy, LoadSettings(engine="onnx"))

    def test_missing_graphs_are_reported(self, tmp_path: Path) -> None:
        (tmp_path / "my run").mkdir()
        for folder, words in ((tmp_path, f"model={tmp_path}"), (tmp_path / "my run", f"'model={tmp_path}/my run'")):
            with pytest.raises(UserError, match=f"has no graphs; write them with nmt-export {words}"):
                open_onnx(folder, LoadSettings(engine="onnx"))
        with pytest.raises(UserError, match="no such folder"):
            open_onnx(tmp_path / "nowhere", LoadSettings(engine="onnx"))
