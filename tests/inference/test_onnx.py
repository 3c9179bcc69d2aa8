"""The engine without torch says what torch says: same pieces, same scores, same alignments."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import random_model

from nmt.config import config_dir, train_config
from nmt.errors import UserError
from nmt.inference.model_folder import TrainedModel, save_folder
from nmt.inference.onnx import graphs
from nmt.inference.onnx.export import export
from nmt.inference.onnx.folder import open_onnx, there
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.specials import BOS, EOS
from nmt.text.tokenizer import Tokenizer

LINES = ["a dog", "two cats sleep here today", "houses", "a small dog sees red houses today", "a"]
TOKENIZER = Tokenizer.train(["a small dog sees red houses", "two cats sleep here today"], vocab_size=290)
NAMES = [path.stem for path in sorted((config_dir() / "attention").glob("*.yaml"))]


def exported(
    folder: Path, *words: str, lists: tuple[np.ndarray, np.ndarray] | None = None
) -> tuple[Translator, Translator]:
    """A model of random weights, run by torch and by onnxruntime."""
    sizes = ["encoder.hidden_size=16", "decoder.hidden_size=16", "embeddings.size=8"]
    config = train_config([*sizes, *words])
    config["data"]["lowercase"] = False
    trained = TrainedModel(random_model(config, scale=2, eos_bias=3), TOKENIZER, TOKENIZER, config, 40)
    save_folder(folder, trained)
    export(trained, folder, lists)
    return Translator(trained), Translator(open_onnx(folder, "onnx", threads=1))


def agree(torch_one: Translator, onnx_one: Translator, options: SearchOptions) -> None:
    for lines in (LINES, LINES[:1], LINES[1:3]):
        expected = torch_one.translate(lines, options)
        for left, right in zip(expected, onnx_one.translate(lines, options), strict=True):
            assert [one.tokens for one in left.n_best] == [one.tokens for one in right.n_best]
            np.testing.assert_allclose(
                [one.log_prob for one in left.n_best], [one.log_prob for one in right.n_best], atol=1e-4
            )
            for one, other in zip(left.n_best, right.n_best, strict=True):
                np.testing.assert_allclose(one.alignment, other.alignment, atol=1e-4)


@pytest.mark.parametrize("words", [*([name] for name in NAMES), ["luong", "decoder.input_feeding=true"]], ids=",".join)
def test_engines_agree(words: list[str], tmp_path: Path) -> None:
    pair = exported(tmp_path, f"attention={words[0]}", *words[1:], "decoder.layers=2")
    agree(*pair, SearchOptions(beam_size=4, n_best=4, max_length=9))
    agree(*pair, SearchOptions(beam_size=1, max_length=9))
    agree(*pair, SearchOptions(temperature=1.2, n_best=2, max_length=9))
    if words[0] != "none":
        agree(*pair, SearchOptions(beam_size=3, coverage_penalty=0.3, max_length=9))


@pytest.mark.parametrize("output_layer", ["attentional", "direct"])
def test_engines_agree_with_either_output_layer(output_layer: str, tmp_path: Path) -> None:
    words = [f"decoder.output_layer={output_layer}", "decoder.input_feeding=true", "encoder=lstm", "encoder.layers=2"]
    agree(*exported(tmp_path, "attention=memory", *words), SearchOptions(beam_size=4, n_best=4, max_length=9))


def test_engines_agree_where_the_vocabulary_is_too_large_for_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "TABLE", 0)
    pair = exported(tmp_path, "attention=memory", "decoder.input_feeding=true", "decoder.layers=2")
    agree(*pair, SearchOptions(beam_size=4, n_best=4, max_length=9))


def lists(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each source piece: so many pieces of the target, from the last ones down."""
    best = np.broadcast_to(290 - 1 - np.arange(size), (290, size)).astype(np.int32)
    return best, np.arange(4, 8, dtype=np.int32)


@pytest.fixture(scope="module")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("short")
    exported(folder, "attention=memory", lists=lists(20))
    return folder


def test_threads_are_counted_where_the_system_tells_no_affinity(
    short_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # as on macOS
    assert len(Translator(open_onnx(short_run, "onnx")).texts(LINES)) == len(LINES)


class TestShortlist:
    @pytest.mark.parametrize("words", [["luong", "decoder.input_feeding=true"], ["memory"]], ids=",".join)
    def test_the_whole_vocabulary_changes_nothing(self, words: list[str], tmp_path: Path) -> None:
        best = np.broadcast_to(np.arange(290), (290, 290)).astype(np.int32)
        pair = exported(tmp_path, f"attention={words[0]}", *words[1:], lists=(best, np.arange(4, dtype=np.int32)))
        short = Translator(open_onnx(tmp_path, "onnx", threads=1, shortlist=True))
        for options in (SearchOptions(beam_size=4, n_best=4, max_length=9), SearchOptions(beam_size=1, max_length=9)):
            agree(pair[0], short, options)
        roughly = Translator(open_onnx(tmp_path, "onnx-int8", threads=1, shortlist=True))
        assert len(roughly.translate(LINES)) == len(LINES)

    def test_nothing_else_is_ever_said(self, short_run: Path) -> None:
        exact, short = (Translator(open_onnx(short_run, "onnx", threads=1, shortlist=each)) for each in (False, True))
        allowed = {*TOKENIZER.pieces([*range(4, 8), *range(270, 290)]), "</s>"}
        options = SearchOptions(beam_size=30, n_best=5, max_length=9)
        found = {piece for one in short.translate(LINES, options) for each in one.n_best for piece in each.tokens}
        assert found <= allowed and len(found) > 5
        others = {piece for one in exact.translate(LINES, options) for each in one.n_best for piece in each.tokens}
        assert not others <= allowed  # it did make a difference

    def test_what_is_missing_or_damaged_is_named(self, short_run: Path, tmp_path: Path) -> None:
        run = shutil.copytree(short_run, tmp_path / "copy")
        file = run / "onnx" / "shortlist.npz"
        whole = file.read_bytes()
        best, frequent = lists(20)
        for damage in (whole[:2000], b"", b"nonsense"):
            file.write_bytes(damage)
            with pytest.raises(UserError, match="shortlist.npz: cannot be read"):
                Translator(open_onnx(run, "onnx", shortlist=True)).texts(LINES)
        np.savez(file, best=best + 1, frequent=frequent, weight=np.zeros((290, 16)), bias=np.zeros(290))
        with pytest.raises(UserError, match="shortlist.npz: not what nmt-export writes"):
            Translator(open_onnx(run, "onnx", shortlist=True)).texts(LINES)
        file.unlink()
        with pytest.raises(UserError, match="shortlist=true: none is in .*; write one with nmt-export .* shortlist=50"):
            open_onnx(run, "onnx", shortlist=True)
        with pytest.raises(UserError, match="shortlist=true: torch has none; use engine=onnx"):
            Translator.load(run, shortlist=True)


@pytest.mark.parametrize("words", [["delta"], ["general_covariance", "attention.recall=true"]], ids=",".join)
def test_what_must_loop_is_encoded_by_torch(words: list[str], tmp_path: Path) -> None:
    pair = exported(tmp_path, f"attention={words[0]}", *words[1:])
    assert sorted(file.stem for file in (tmp_path / "onnx").glob("*.onnx")) == ["align", "step", "step.int8"]
    agree(*pair, SearchOptions(beam_size=3, n_best=3, max_length=9))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    exported(folder, "attention=memory")
    return folder


@pytest.mark.parametrize("k", [1, 2, 7])
@pytest.mark.parametrize("shortlist", [False, True])
def test_banned_pieces_take_no_other_s_place(shortlist: bool, k: int, short_run: Path) -> None:
    """Where the likeliest pieces are banned, the next ones come, as likely as they were."""
    engine = open_onnx(short_run, "onnx", threads=1, shortlist=shortlist).engine(trace=False)
    live = engine.init(engine.encode([[5, 9, 7, EOS], [6, EOS]]))
    tokens, parents = np.full((2, 1), BOS), np.zeros((2, 1), dtype=np.int64)
    _, every_log_prob, every_id, _ = engine.step(live, tokens, parents, 290)
    banned = {*every_id[0, 0, :2].tolist(), *every_id[1, 0, [0, 2]].tolist()}
    _, log_probs, ids, _ = engine.step(live, tokens, parents, k, sorted(banned))
    for row in range(2):
        allowed = [at for at, piece in enumerate(every_id[row, 0].tolist()) if piece not in banned][:k]
        assert ids[row, 0].tolist() == every_id[row, 0, allowed].tolist()
        np.testing.assert_allclose(log_probs[row, 0], every_log_prob[row, 0, allowed], rtol=1e-5)
        assert np.isfinite(log_probs[row]).all()


class TestFolder:
    def test_integers_stand_for_every_product_with_weights(self, run: Path) -> None:
        def kinds(file: str) -> Counter[str]:
            return Counter(node.op_type for node in onnx.load(run / "onnx" / file).graph.node)

        for graph, mixing in (("encode", 1), ("step", 1)):  # values into slots, slots into contexts: no weights there
            exact, rough = kinds(f"{graph}.onnx"), kinds(f"{graph}.int8.onnx")
            assert rough["MatMulInteger"] == exact["MatMul"] + exact["Gemm"] - mixing >= 2
            assert (rough["MatMul"], rough["Gemm"]) == (mixing, 0)
            assert rough["DynamicQuantizeLSTM"] == exact["LSTM"] == (graph == "encode")
        exactly, roughly = (Translator(open_onnx(run, one)).translate(LINES) for one in ("onnx", "onnx-int8"))
        for left, right in zip(exactly, roughly, strict=True):
            assert right.log_prob == pytest.approx(left.log_prob, rel=0.3)

    @pytest.mark.parametrize("graph", ["encode", "step"])
    def test_no_pair_of_products_leaves_16_bits(self, graph: str, run: Path) -> None:
        weights = [
            onnx.numpy_helper.to_array(one) for one in onnx.load(run / f"onnx/{graph}.int8.onnx").graph.initializer
        ]
        integers = [weight for weight in weights if weight.dtype == np.int8 and weight.ndim > 1]
        assert len(integers) >= 2
        assert 2 * 255 * max(int(np.abs(weight.astype(int)).max()) for weight in integers) <= np.iinfo(np.int16).max

    def test_graphs_of_another_model_are_refused(self, run: Path, tmp_path: Path) -> None:
        assert there(run) == ["onnx-int8", "onnx"]
        other = shutil.copytree(run, tmp_path / "copy")
        assert there(other) == ["onnx-int8", "onnx"]  # a copy is the same model
        content = bytearray((other / "model.pt").read_bytes())
        content[-100] ^= 1
        (other / "model.pt").write_bytes(content)
        assert there(other) == []
        with pytest.raises(UserError, match="engine=onnx: graphs of another model.* nmt-export model="):
            open_onnx(other, "onnx")

    def test_a_damaged_graph_is_named(self, run: Path, tmp_path: Path) -> None:
        other = shutil.copytree(run, tmp_path / "copy")
        graph = other / "onnx" / "step.onnx"
        graph.write_bytes(graph.read_bytes()[:1000])
        with pytest.raises(UserError, match="step.onnx: cannot be read as a graph"):
            Translator(open_onnx(other, "onnx")).texts(LINES)

    @pytest.mark.parametrize("change", [{"attention": {"kind": 3}}, {"attention": None}, {"lowercase": ...}])
    def test_facts_that_make_no_sense_are_refused(self, run: Path, tmp_path: Path, change: dict[str, object]) -> None:
        other = shutil.copytree(run, tmp_path / "copy")
        file = other / "onnx" / "about.json"
        about = {**json.loads(file.read_text()), **change}
        file.write_text(json.dumps({name: value for name, value in about.items() if value is not ...}))
        with pytest.raises(UserError, match="about.json: not what nmt-export writes; write it again"):
            open_onnx(other, "onnx")
        file.write_text("[]")
        assert there(other) == []
        (other / "model.pt").unlink()
        assert there(other) == []

    def test_without_graphs_the_remedy_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="no graphs are in .*; write them with nmt-export model="):
            open_onnx(tmp_path, "onnx")
        with pytest.raises(UserError, match="no such folder"):
            open_onnx(tmp_path / "nowhere", "onnx")
