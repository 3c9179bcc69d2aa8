"""Every ONNX engine gives the pieces, scores and alignments of torch; exports of strangers are refused in one line."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from builders import LUONG, MEMORY, expect_error, forced_log_prob, random_trained, refusal, save_random, tiny_config
from inference.conftest import MODELS
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator
from small_text import SETTINGS
from torch import Tensor, nn

from nmt.attention.base import Memory
from nmt.commands.export import export as export_by_command
from nmt.commands.export import likely_pieces
from nmt.data.filters import Filters
from nmt.data.links import Pair
from nmt.data.sources import PREPARED
from nmt.files.checksum import checksum
from nmt.inference.engines import SPARE, LoadSettings, OnnxEngineName
from nmt.inference.forced_decoding import force_decode, forced_links
from nmt.inference.model_folder import save_folder
from nmt.inference.onnx.engine import Graph, OnnxEngine, open_session
from nmt.inference.onnx.export import ENGINES, LEAST_SHARED, export
from nmt.inference.onnx.model import OnnxModel, exported_engines, open_onnx
from nmt.inference.onnx.rewrites import bounded_outputs, quantise
from nmt.inference.onnx.search_graph import KINDS, search_graph
from nmt.inference.onnx.shortlist import Shortlist, to_integers
from nmt.inference.translator import Translator
from nmt.model.decoder import LSTMDecoder, RecurrentDecoder, State
from nmt.model.encoder import Final, LSTMEncoder
from nmt.model.units import Unit
from nmt.search.engine import BANNED
from nmt.search.options import SearchOptions
from nmt.search.search import search
from nmt.text.prepare import prepare
from nmt.text.specials import EOS
from nmt.text.tokenizer import Tokenizer

LINES = ["a dog", "two cats sleep here today", "houses", "a small dog sees red houses today", "a"]
SHORT = SearchOptions(beam_size=3, max_length=9)
SEARCHES = [
    SearchOptions(beam_size=4, n_best=4, max_length=9),
    SearchOptions(beam_size=1, max_length=9),
    SearchOptions(temperature=1.2, n_best=2, max_length=9),
    SearchOptions(beam_size=3, coverage_penalty=0.3, max_length=9),
]
ONE_CALL = [
    *(SearchOptions(beam_size=size, max_length=9) for size in (1, 2, 5)),
    SearchOptions(beam_size=4, max_length=9, min_length=5, length_penalty=0.2, replace_unknown=True),
    SearchOptions(beam_size=3, max_length=1),
]
SLOW = ("bahdanau", "covariance", "gru", "mingru")
ALL_MODELS = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in MODELS]
)


def by_onnx(folder: Path, engine: OnnxEngineName = "onnx", **settings: Any) -> Translator:
    return Translator(open_onnx(folder, LoadSettings(engine=engine, threads=1, **settings)))


def assert_equal_translations(expected: Translator, actual: Translator, options: SearchOptions) -> None:
    for lines in (LINES, LINES[:1]):
        for left, right in zip(expected.translate(lines, options), actual.translate(lines, options), strict=True):
            assert [best.tokens for best in left.n_best] == [best.tokens for best in right.n_best]
            for first, second in zip(left.n_best, right.n_best, strict=True):
                np.testing.assert_allclose(second.log_prob, first.log_prob, rtol=1e-4, atol=1e-3)
                np.testing.assert_allclose(second.alignment, first.alignment, atol=1e-3)


def equals_single_steps(engine: Any, ids: list[int], options: SearchOptions) -> bool:
    """Check that a search gives what the search in NumPy gives, bit for bit. Return whether it was a single call."""
    steps: Any = SimpleNamespace(**{name: getattr(engine, name) for name in ("encode", "init", "step", "drop")})
    assert search(engine, [ids], options) == search(steps, [ids], options), options
    limit = int(options.limits(np.array([len(ids)]))[0])
    return engine.search_one(engine.encode([ids]), limit, options) is not None


def assert_one_call_equals_single_steps(translator: Translator) -> None:
    engine = translator.loaded_model.engine(trace=False)
    lines = [translator.encode(line) for line in LINES]
    assert all(equals_single_steps(engine, ids, options) for ids in lines for options in ONE_CALL)


@pytest.mark.thorough
@ALL_MODELS
def test_engines_agree(name: str, exported_model: Callable[[str], Path]) -> None:
    folder = exported_model(name)
    by_torch = Translator.load(folder, engine="torch", device="cpu")
    exact = by_onnx(folder)
    for options in SEARCHES:
        assert_equal_translations(by_torch, exact, options)
        steps, one_call = (exact.translate(LINES[:1], options, alignments=kept)[0].n_best for kept in (True, False))
        assert [best.score for best in one_call] == pytest.approx([best.score for best in steps], rel=1e-6)
    for engine in ENGINES:
        assert_one_call_equals_single_steps(by_onnx(folder, engine))
    rounded = by_onnx(folder, "onnx-int8")
    for line in LINES:  # rounding may change the text, but hardly the score of a text
        best = rounded.translate([line], SearchOptions(max_length=9))[0]
        assert best.log_prob == pytest.approx(forced_log_prob(by_torch, line, best.tokens), rel=0.1, abs=0.5)


@pytest.fixture
def memory(exported_model: Callable[[str], Path]) -> Path:
    """Folder of a model with memory attention. Only for reading."""
    return exported_model("memory")


@pytest.fixture
def copy(memory: Path, tmp_path: Path) -> Path:
    return shutil.copytree(memory, tmp_path / "copy")


@pytest.mark.thorough
def test_a_copy_translates_as_the_original(memory: Path) -> None:
    translator = Translator.load(memory, engine="onnx", threads=1)
    expected = translator.texts(LINES)
    other = pickle.loads(pickle.dumps(translator))
    assert other.loaded_model.engine_name == "onnx" and other.loaded_model.workers == 1
    assert other.texts(LINES) == expected


@pytest.mark.thorough
def test_scores_and_links_are_those_of_forced_decoding(memory: Path) -> None:
    sides = [["a dog", "houses"], ["two cats", "a small dog"]]
    reference = Translator.load(memory, engine="torch")
    scores = [best.log_prob for best in force_decode(reference, *sides)]
    for engine in ("auto", "torch", "onnx"):
        translator = Translator.load(memory, engine=engine)
        pairs = [*zip(*sides, strict=True)]
        assert [score.log_prob for score in translator.score(pairs)] == scores
        assert translator.align(iter(pairs)) == forced_links(reference, *sides)
    lazy = Translator.load(memory, engine="onnx")
    lazy.texts(["a cat"])
    assert "trained" not in vars(lazy)  # it needs torch


# Graphs.


@pytest.mark.thorough
def test_products_and_tables_are_integers(memory: Path) -> None:
    for name in ("encode", "step"):
        exact, rounded = (onnx.load(memory / f"onnx/{name}{suffix}.onnx").graph for suffix in ("", ".int8"))
        kinds = [[node.op_type for node in graph.node] for graph in (exact, rounded)]
        # One product has no weights: of values into slots, or of slots into contexts.
        assert kinds[1].count("MatMulIntegerToFloat") == kinds[0].count("MatMul") + kinds[0].count("Gemm") - 1 >= 2
        assert kinds[1].count("MatMul") + kinds[1].count("Gemm") == 1
        assert kinds[1].count("DynamicQuantizeLSTM") == kinds[0].count("LSTM") == (name == "encode")
        tables = [weight for weight in rounded.initializer if len(weight.dims) == 2 and 300 in weight.dims]
        assert tables and all(weight.data_type == TensorProto.INT8 for weight in tables)
        for weight in rounded.initializer:  # pairs of products fit into 16 bits; rows of tables are not multiplied
            if weight.data_type == TensorProto.INT8 and len(weight.dims) > 1 and not weight.name.endswith(".table"):
                assert 2 * 255 * np.abs(numpy_helper.to_array(weight).astype(int)).max() <= np.iinfo(np.int16).max
        assert not any(b'.py", line' in file.read_bytes() for file in (memory / "onnx").glob("*.onnx"))


@pytest.mark.thorough
def test_weights_lie_beside_the_graphs(memory: Path) -> None:
    """onnxruntime would read those in a graph twice, and copy them."""
    for file in (memory / "onnx").glob("*.onnx"):
        graph = onnx.load(file, load_external_data=False).graph
        assert all(len(weight.raw_data) < LEAST_SHARED for weight in graph.initializer)


@pytest.mark.parametrize("axis", [0, 1])
def test_integers_times_scales_are_the_weight_up_to_half_a_step(axis: int) -> None:
    weight = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    weight[2], weight[:, 3] = 0, 0
    integers, scales = to_integers(weight, axis=axis, steps=64)
    assert integers.dtype == np.int8 and scales.dtype == np.float32 and np.abs(integers).max() == 64
    scales = np.expand_dims(scales, axis)
    assert (np.abs(integers * scales - weight) <= scales * 0.5001).all()
    weight[1, 2] = np.nan
    assert np.isfinite(to_integers(weight, axis=1)[1]).tolist() == [row != 1 for row in range(7)]


@pytest.mark.parametrize(
    ("nodes", "bounded"),
    [
        ("w = Softmax (scores) v = Tanh (values) y = MatMul (w, v)", True),
        ("w = Softmax <axis = 2> (scores) v = Tanh (values) p = Pad (w, pads) y = MatMul (p, v)", True),
        ("w = Sigmoid (scores) v = Tanh (values) y = MatMul (w, v)", False),
        ("w = Softmax (scores) y = MatMul (w, values)", False),
        ("w = Softmax (scores) v = Tanh (values) y = MatMul (v, w)", False),
        *(
            (f"v = Tanh (values) w = Softmax <axis = {axis}> (scores) {nodes} y = MatMul (t, v)", bounded)
            for axis, nodes, bounded in (
                (1, "r = Where (mask, w, zero) t = Transpose <perm = [0, 2, 1]> (r)", True),
                (2, "r = Where (mask, w, zero) t = Transpose <perm = [0, 2, 1]> (r)", False),
                (2, "t = Where (mask, w, one)", False),
            )
        ),
    ],
)
def test_bounded_numbers(nodes: str, bounded: bool) -> None:
    signature = "(float[2,4,4] scores, float[2,4,4] values) => (float[n,a,b] y)"
    constants = "<float zero = {0}, float one = {1}>"
    before = "pads = Constant <value_ints = [0, 0, 0, 0, 1, 0]> () mask = Less (scores, values)"
    model = model_of(f"g {signature} {constants} {{{before} {nodes}}}")
    assert bounded_outputs(model) == ({"y"} if bounded else set())
    rng = np.random.default_rng(0)
    inputs = {name: 9 * rng.standard_normal((2, 4, 4)).astype(np.float32) for name in ("scores", "values")}
    [result] = ReferenceEvaluator(model).run(None, inputs)
    assert (np.abs(result).max() <= 1.000001) == bounded


def model_of(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    graph = parser.parse_graph(text)
    graph.initializer.extend(numpy_helper.from_array(weight, name) for name, weight in weights.items())
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def test_integers_of_rows_of_zeros_and_of_tiny_numbers() -> None:
    rng = np.random.default_rng(1)
    weight = rng.normal(size=(32, 9)).astype(np.float32)
    x = rng.normal(size=(4, 32)).astype(np.float32)
    x[1] = 0
    x[2] *= 1e-42
    model = model_of("g (float[n,32] x) => (float[n,9] y) {y = MatMul (x, A)}", A=weight)
    [result] = opened(quantise(model, ())).run(None, {"x": x})
    assert not result[1].any()
    np.testing.assert_allclose(result, x @ weight, atol=0.2)
    assert np.abs(result[2]).max() < 1e-40


def test_a_refused_graph_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """onnxruntime would print to stdout, among the translations, that it tries again."""
    content = model_of("g (float[1] x) => (float[1] y) {y = Unknown (x)}").SerializeToString()
    (tmp_path / "x.onnx").write_bytes(content.replace(b"Unknown", b"Unknow\xff"))
    assert refusal(open_session, tmp_path / "x.onnx", 1).startswith(f"{tmp_path}/x.onnx: ")
    assert capfd.readouterr() == ("", "")


# The search graph, on toy models with ties and many ends.

VOCABULARY = 12
# The log-probabilities of a piece depend on the two pieces before it: ``table`` has a row for each pair of them.
STEP = """
step (int64[b,n] tokens, int64[b,n] parents, int64[b,m] previous, int64[1] k)
    => (float[b,n,c] log_probs, int64[b,n,c] candidates, float[b,n] weights, int64[b,n] previous_after) {
    axis = Constant <value_ints = [-1]> ()
    last = Unsqueeze (parents, axis)
    second = GatherND <batch_dims = 1> (previous, last)
    rows = Mul (second, size)
    row = Add (rows, tokens)
    scores = Gather (table, row)
    flat_shape = Constant <value_ints = [-1, %d]> ()
    flat_scores = Reshape (scores, flat_shape)
    shape = Shape (scores)
    all_scores = Reshape (flat_scores, shape)
    log_probs, candidates = TopK (all_scores, k)
    weights = Cast <to = 1> (row)
    previous_after = Identity (tokens)
}"""


@pytest.mark.parametrize("seed", range(8))
def test_one_graph_equals_single_steps(seed: int) -> None:
    assert len({*BANNED, EOS}) + 1 == SPARE
    rng = np.random.default_rng(seed)
    table = rng.integers(-6, 0, (VOCABULARY**2, VOCABULARY)).astype(np.float32) / 4  # few values, so that many tie
    if seed % 4 == 0:
        table[rng.random(table.shape) < 0.3] = -np.inf
    if seed % 4 == 1:
        table[:, EOS] += rng.integers(-4, 2)
    if seed % 4 == 2:
        table[rng.random(len(table)) < 0.05] = np.nan  # a softmax makes all numbers of a row NaN
    if seed % 8 == 3:
        table[rng.random(table.shape) < 0.01] = np.inf
    engine = toy_engine(table)
    for beam_size in (1, 2, 3, 5, VOCABULARY // 2):
        options = SearchOptions(
            beam_size=beam_size,
            length_penalty=float(rng.choice([0.0, 0.4, 1.0, 2.5])),
            min_length=int(rng.integers(0, 4)),
            max_length=int(rng.integers(4, 12)),
            replace_unknown=bool(rng.integers(2)),
        )
        assert equals_single_steps(engine, [5, 6, EOS], options) or not table.max() < np.inf


def toy_engine(table: np.ndarray) -> OnnxEngine:
    """Return the engine of a model whose log-probabilities stand in a table."""
    step = model_of(STEP % VOCABULARY, size=np.array(VOCABULARY), table=table)
    step.graph.node[-1].output[0] = step.graph.output[-1].name = "previous.after"
    return OnnxEngine(
        lambda ids: {"previous": np.zeros((len(ids), 1), dtype=np.int64)},
        lambda kind: opened(step if kind == "step" else search_graph(step, KINDS[kind])),
        vocabulary=VOCABULARY,
        shortlist=None,
        folder=Path("toy"),
    )


def opened(model: onnx.ModelProto) -> Any:
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    return Graph(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])


# Shortlists.


def record_checksum(file: Path) -> None:
    """Record the checksum of a changed file in ``about.json`` beside it, as in a forged folder."""
    about = json.loads((file.parent / "about.json").read_text())
    about["checksums"][file.name] = checksum(file)
    (file.parent / "about.json").write_text(json.dumps(about))


SIZE = 290
BEST = np.broadcast_to(SIZE - 1 - np.arange(20), (SIZE, 20)).astype(np.int32)  # the last pieces, for every source piece
FREQUENT = np.arange(4, 8, dtype=np.int32)


@pytest.mark.thorough
def test_a_shortlist_is_learned_and_restricts_pieces_and_one_of_all_pieces_changes_nothing(tmp_path: Path) -> None:
    tokenizer, other = (Tokenizer.train([text], vocab_size=SIZE) for text in (" ".join(LINES), "quite another text"))
    trained = save_random(tmp_path, tiny_config(LUONG, size=16), tokenizer, scale=2, eos_bias=3)
    pairs = [Pair("a small dog sees", "red cats sleep"), Pair("two houses", "here today")]
    words = [f"model={tmp_path}", "shortlist=5"]
    for known in (other, tokenizer):
        shutil.rmtree(tmp_path / "data", ignore_errors=True)
        prepare({"train": pairs}, Filters(), SETTINGS, tmp_path / "data", tokenizers=(known, known))
        if known is other:
            expect_error("shortlist", export_by_command, words)
    export_by_command(words)

    def used(*, shortlist: bool) -> set[str]:
        options = SearchOptions(beam_size=20, n_best=5, max_length=9)
        lines = by_onnx(tmp_path, shortlist=shortlist).translate(LINES, options)
        return {piece for line in lines for best in line.n_best for piece in best.tokens} - {"</s>"}

    listed = {piece for pair in pairs for piece in tokenizer.pieces(tokenizer.encode(pair.target))}
    assert used(shortlist=True) <= listed
    parameters = [parameter.detach().numpy() for parameter in trained.model.decoder.output.parameters()]
    file = tmp_path / "onnx" / "shortlist.npz"
    Shortlist(np.broadcast_to(np.arange(SIZE), (SIZE, SIZE)).astype(np.int32), FREQUENT, *parameters).save(file)
    assert file.name in refusal(by_onnx(tmp_path, shortlist=True).texts, LINES)
    record_checksum(file)
    for engine in ENGINES:
        pair = [by_onnx(tmp_path, engine, shortlist=restricted) for restricted in (False, True)]
        for options in SEARCHES[:2]:
            assert_equal_translations(pair[0], pair[1], options)
        assert_one_call_equals_single_steps(pair[1])
    Shortlist(BEST, FREQUENT, *parameters).save(file)
    record_checksum(file)
    allowed = {*tokenizer.pieces([*FREQUENT, *BEST[0]])}
    assert len(used(shortlist=True)) > 5 and used(shortlist=True) <= allowed
    assert not used(shortlist=False) <= allowed


def test_shortlist_of_an_adapter_is_learned_from_the_text_of_the_adapter(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train([" ".join(LINES)], vocab_size=SIZE)
    pairs = {"train": [Pair("two houses", "here today")]}
    prepare(pairs, Filters(), SETTINGS, tmp_path / "own", tokenizers=(tokenizer, tokenizer))
    data = {"_target_": PREPARED, "folder": str(tmp_path / "own")}
    (tmp_path / "config.yaml").write_text(json.dumps({"data": data}))
    (tmp_path / "adapter.safetensors").touch()
    trained = Mock(source=tokenizer, target=tokenizer, config={"data": {"_target_": PREPARED}})  # of the base
    found = likely_pieces(trained, Mock(model=str(tmp_path), shortlist=9))
    assert {*found.frequent} == {*tokenizer.encode("here today")}


@pytest.mark.parametrize(
    "change",
    [
        {"best": BEST + 1},  # ids above the vocabulary
        {"best": BEST[:-1]},  # too few source pieces
        {"frequent": np.array([-1], dtype=np.int32)},
        {"weight": np.zeros((SIZE - 1, 16), "f")},
        {"weight": np.zeros((SIZE, 16), "b")},
        {"weight": np.zeros((SIZE, 16), "b"), "scale": np.zeros(SIZE - 1, "f")},
    ],
)
def test_forged_shortlist_is_refused(tmp_path: Path, change: dict[str, np.ndarray]) -> None:
    arrays = {"best": BEST, "frequent": FREQUENT, "weight": np.zeros((SIZE, 16), "f"), "bias": np.zeros(SIZE, "f")}
    load = partial(Shortlist.load, tmp_path / "a.npz", source_vocabulary=SIZE, target_vocabulary=SIZE)
    np.savez(tmp_path / "a.npz", **arrays)
    load()
    np.savez(tmp_path / "a.npz", **{**arrays, **change})
    assert refusal(load).startswith(f"{tmp_path}/a.npz: ")
    np.savez_compressed(tmp_path / "a.npz", **arrays)  # a few bytes could become gigabytes
    assert refusal(load).startswith(f"{tmp_path}/a.npz: ")


# What is exported.


class MyEncoder(LSTMEncoder):
    """An encoder that doubles the states."""

    def forward(self, embedded: Tensor, mask: Tensor, state: Final | None = None) -> tuple[Tensor, Final]:
        states, final = super().forward(embedded, mask, state)
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


def own_part(folder: Path, vocabulary: Tokenizer, part: type, attention: dict[str, Any] = MEMORY) -> Any:
    """Save a random model with this encoder or decoder."""
    kind = {"_target_": f"{__name__}.{part.__name__}"}
    config = tiny_config(attention, **({"encoder": kind} if part is MyEncoder else {"decoder": kind}))
    return save_random(folder, {**config, "trust": [__name__]}, vocabulary, scale=2, eos_bias=3)


@pytest.mark.slow  # exports take ten seconds
@pytest.mark.parametrize("part", [MyEncoder, GrowingDecoder])  # the second has a state that is rounded by its size
def test_own_parts_are_exported(part: type, tmp_path: Path, vocabulary: Tokenizer) -> None:
    trained = own_part(tmp_path, vocabulary, part, LUONG)
    export(trained, tmp_path)
    rounded = by_onnx(tmp_path, "onnx-int8")
    for line in LINES:
        best = rounded.translate([line], SearchOptions(min_length=6, max_length=6))[0]
        assert best.log_prob == pytest.approx(forced_log_prob(Translator(trained), line, best.tokens), rel=0.01)


@pytest.mark.thorough
def test_a_decoder_that_is_traced_wrongly_is_refused(tmp_path: Path, vocabulary: Tokenizer) -> None:
    trained = own_part(tmp_path, vocabulary, MyDecoder)
    assert f"{__name__}.MyDecoder" in refusal(export, trained, tmp_path, engines=["onnx"])
    assert not (tmp_path / "onnx").exists()


# Damaged and forged exports.


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def without_output(file: Path) -> None:
    model = onnx.load(file, load_external_data=False)
    del model.graph.output[0]
    onnx.save(model, file)
    record_checksum(file)


def other_input(file: Path) -> None:
    model = onnx.load(file, load_external_data=False)
    (field,) = [value for value in model.graph.input if value.name == "length"]
    field.name = "other"
    for node in model.graph.node:
        node.input[:] = ["other" if value == "length" else value for value in node.input]
    onnx.save(model, file)
    record_checksum(file)


def name_not_utf8(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"log_probs", b"log_prob\xff"))
    record_checksum(file)


def about(**changes: object) -> Callable[[Path], object]:
    return lambda file: file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


DAMAGE: list[tuple[str, Callable[[Path], object]]] = [
    *((name, flip) for name in ("weights.bin", "source.model")),
    ("align.onnx", Path.unlink),
    ("about.json", pipe),
    ("search.onnx", without_output),
    *(("step.onnx", change) for change in (other_input, name_not_utf8)),
    *(("about.json", lambda file, text=text: file.write_text(text)) for text in ("[" * 100_000, "null")),
    *(("about.json", about(**change)) for change in ({"attention": None}, {"format": 1})),
]


def use(run: Path) -> None:
    """Translate with all graphs of an export."""
    translator = by_onnx(run)
    translator.translate(LINES, SHORT)
    translator.texts(LINES[:1], SHORT)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "change"), DAMAGE)
def test_damaged_or_forged_export_is_refused(name: str, change: Callable[[Path], object], copy: Path) -> None:
    translator = by_onnx(copy)
    change(copy / "onnx" / name)
    message = refusal(use, copy)
    assert str(copy / "onnx") in message and "nmt-export" in message
    if change is flip and name != "source.model":  # not opened before all files are verified
        assert str(copy / "onnx" / name) in refusal(translator.texts, LINES)
    if change not in (without_output, other_input, name_not_utf8):
        with pytest.warns(UserWarning, match="; engine=auto uses torch$"):
            assert not isinstance(Translator.load(copy).loaded_model, OnnxModel)


@pytest.mark.thorough
def test_graphs_of_another_model_are_not_used(copy: Path, vocabulary: Tokenizer) -> None:
    assert exported_engines(copy) == [*ENGINES]  # a copy of a model counts as the same model
    save_folder(copy, random_trained(tiny_config(MEMORY), vocabulary))
    assert exported_engines(copy) == [] and str(copy / "onnx") in refusal(use, copy)


@pytest.mark.thorough
@pytest.mark.parametrize(("used", "files", "lines"), [(4, "*", 1), (1, "*", 4), (1, "weights.bin", 4)])
def test_graphs_are_not_mixed_with_those_of_a_later_export(
    copy: Path, exported_model: Callable[[str], Path], used: int, files: str, lines: int
) -> None:
    """A graph is loaded when it is first needed: one for single lines, another one for batches."""
    translator = by_onnx(copy)
    translator.texts(LINES[:used], SHORT)
    for file in (exported_model("feeding") / "onnx").glob(files):
        shutil.copy(file, copy / "onnx")
    assert str(copy / "onnx") in refusal(translator.texts, LINES[:lines], SHORT)
