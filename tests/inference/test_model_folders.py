"""Models of strangers: a damaged or forged model or adapter is refused in one line, before it runs or allocates."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import LUONG, MEMORY, random_trained, refusal, save_random, tiny_config
from safetensors.torch import save_file

from nmt.attention.multi_head import MultiHeadAttention
from nmt.errors import UserError
from nmt.files.checkpoint import read_tensors, write_checkpoint
from nmt.files.checksum import fingerprint
from nmt.inference.engines import EngineName
from nmt.inference.model_folder import Base, load_folder, model_fingerprint, non_finite, pack, save_adapter, save_folder
from nmt.inference.translator import Translator
from nmt.model import Seq2Seq
from nmt.model.adapter import adapt, merge
from nmt.model.decoder import LSTMDecoder
from nmt.model.encoder import LSTMEncoder
from nmt.search.options import SearchOptions
from nmt.text.tokenizer import Tokenizer

LOW_RANK = {"_target_": "nmt.attention.LowRankAttention", "slots": 5, "key_size": 4}
MULTI_HEAD = {"_target_": "nmt.attention.MultiHeadAttention", "inner": LUONG, "heads": 2}
TOKENIZER = Tokenizer.train(["the small dog sees a red house", "der kleine Hund sieht ein rotes Haus"], vocab_size=280)


def contents(attention: dict[str, Any] = MULTI_HEAD) -> dict[str, Any]:
    """Return the contents of a model.pt; by default, its attention has another one inside."""
    config = deepcopy(tiny_config(attention))
    config["tokenizer"] = {"kind": "bpe"}
    return pack(random_trained(config, TOKENIZER, longest_source=12))


def problem(folder: Path, stored: dict[str, Any]) -> str:
    """Return the message with which ``load_folder`` refuses the contents."""
    write_checkpoint(folder / "model.pt", stored)
    message = refusal(load_folder, folder)
    assert message.startswith(f"{folder}/model.pt: ") and len(message) < 500
    return message


def put(stored: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    *path, last = key.split(".")
    inner = stored
    for name in path:
        inner = inner[name]
    inner[last] = value
    return stored


@pytest.mark.parametrize("target", ["zipfile.ZipFile", "nmt.files.atomic.write_lines", ""])
def test_no_constructor_runs_before_every_class_is_accepted(
    tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, calls = contents(), list[str]()
    for part in (LSTMEncoder, MultiHeadAttention, LSTMDecoder):
        monkeypatch.setattr(part, "__init__", lambda self, **settings: calls.append(type(self).__name__))
    (tmp_path / "victim").write_text("text")
    names = {"file": str(tmp_path / "victim"), "path": str(tmp_path / "victim")}
    block = {"_target_": target, "mode": "w", "lines": [], **names}
    for place in ("encoder", "attention.inner", "decoder"):
        assert f"_target_={target}: " in problem(tmp_path, put(deepcopy(stored), f"config.{place}", block))
    assert calls == [] and (tmp_path / "victim").read_text() == "text"


SIZES = ["encoder.layers", "encoder.hidden_size", "decoder.layers", "embeddings.size", "attention.slots"]


@pytest.mark.parametrize("size", [0, 3, 10**7, 2**63, -1])
def test_declared_sizes_are_compared_before_anything_is_allocated(tmp_path: Path, size: int) -> None:
    for key in SIZES:
        problem(tmp_path, put(contents(LOW_RANK), f"config.{key}", size))
    problem(tmp_path, put(contents(), "config.attention.heads", size))
    problem(tmp_path, put(contents(LOW_RANK), "longest_source", size))


def test_every_weight_must_have_its_shape_and_finite_numbers(tmp_path: Path) -> None:
    stored = contents()
    weights = stored["weights"]
    for name, weight in list(weights.items())[::3]:
        infinite = weight.clone()
        infinite.view(-1)[-1] = float("inf")
        same = [other for other in weights if weights[other].data_ptr() == weight.data_ptr()]  # a shared table
        for changed, key in (
            ({other: weights[other] for other in weights if other != name}, name),
            ({**weights, name: weight[:-1].clone()}, name),
            ({**weights, f"{name}.x": weight}, f"{name}.x"),
            ({**weights, **dict.fromkeys(same, infinite)}, same[0]),
        ):
            assert f": {key}: " in problem(tmp_path, {**stored, "weights": changed})


def test_large_weights_are_finite() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        largest = torch.full((9,), torch.finfo(dtype).max, dtype=dtype)
        assert non_finite({"a": largest, "b": -largest, "ids": torch.arange(3)}) is None
        assert non_finite({"a": largest, "b": largest * 2}) == "b"


def nested(levels: int) -> dict[str, Any]:
    return LUONG if levels == 0 else {**MULTI_HEAD, "inner": nested(levels - 1)}


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("format", 2, "format"),
        ("longest_source", "abc", ""),
        ("config", [], ""),
        ("config.data", {}, ""),
        ("config.attention.heads", 0, "heads=0"),
        ("config.attention.inner", nested(40), ""),
        ("weights", {"embedding.weight": torch.zeros(1).expand(10**6, 10**6)}, "embedding.weight"),
    ],
)
def test_wrong_contents_are_refused(tmp_path: Path, key: str, value: Any, named: str) -> None:
    assert named in problem(tmp_path, put(contents(), key, value))


def test_loading_gives_back_what_was_saved(tmp_path: Path) -> None:
    for attention in (MULTI_HEAD, LOW_RANK):
        model = save_random(tmp_path, tiny_config(attention), TOKENIZER, longest_source=12).model
        assert [file.name for file in tmp_path.iterdir()] == ["model.pt"]
        assert (trained := load_folder(tmp_path)).target is trained.source and trained.longest_source == 12
        assert equal(trained.model, model)


def equal(left: Seq2Seq, right: Seq2Seq) -> bool:
    return all(torch.equal(weight, right.state_dict()[name]) for name, weight in left.state_dict().items())


def make_adapter(folder: Path, base: Path, *, seed: int = 1) -> Seq2Seq:
    """Write an adapter with random numbers for the model in ``base``, and return the merged model."""
    folder.mkdir(parents=True)
    trained = load_folder(base)
    config = {**trained.config, "evaluation": {"tokenizer": base.name}}
    own = Base(base, model_fingerprint(base))
    text = {"single_sentences": base.name == "a", "length_model": (1.5, 0.25) if base.name == "a" else None}
    trained = replace(trained, base=own, config=config, **text)
    model = trained.model
    torch.manual_seed(seed)
    adapt(model, rank=2, alpha=3.0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.requires_grad:
                weight.normal_()
    save_adapter(folder, trained, rank=2, alpha=3.0)
    merge(model)
    return model


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with the runs ``a``, a model, ``b``, its adapter, and ``c``, an adapter of that."""
    save_random(tmp_path / "runs" / "a", tiny_config(MEMORY, decoder={"tied": True}), TOKENIZER, scale=2)
    make_adapter(tmp_path / "runs" / "b", tmp_path / "runs" / "a")
    make_adapter(tmp_path / "runs" / "c", tmp_path / "runs" / "b")
    return tmp_path / "runs"


def test_folder_of_an_adapter_is_the_merged_model(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (runs / "a" / "model.pt").read_bytes()
    expected = [make_adapter(runs / name, runs / base) for name, base in (("b2", "a"), ("c2", "b"))]
    assert [file.name for file in (runs / "b").iterdir()] == ["adapter.safetensors"]
    assert (runs / "b2" / "adapter.safetensors").read_bytes() == (runs / "b" / "adapter.safetensors").read_bytes()
    assert (runs / "a" / "model.pt").read_bytes() == before
    properties = [load_folder(runs / name).properties for name in "abc"]  # not those of the base
    assert [(it.single_sentences, it.length_model, it.score_tokenizer) for it in properties] == [
        (False, None, None),
        (True, [1.5, 0.25], "a"),
        (False, None, "b"),
    ]
    runs = runs.rename(runs.parent / "moved")
    assert equal(load_folder(runs / "b").model, expected[0]) and equal(load_folder(runs / "c").model, expected[1])
    monkeypatch.chdir(runs / "b")
    assert equal(load_folder(Path()).model, expected[0])
    with pytest.raises(UserError, match="^engine=onnx: "):
        Translator.load(runs / "b", engine="onnx")


@pytest.mark.parametrize("engine", ["torch", "onnx"])
def test_translations_end_at_the_limit_of_the_training_text(engine: EngineName, tmp_path: Path) -> None:
    text = {"length_model": (0.5, 0.09), "eos_bias": -1e4, "single_sentences": True}
    save_random(tmp_path, tiny_config(MEMORY), TOKENIZER, engines=["onnx"], **text)
    translator = Translator.load(tmp_path, engine=engine)
    for line in ("the dog", "the small dog", "the small dog sees a red house"):
        length = len(translator.encode(line))
        expected = math.ceil(0.5 * length + 4 * math.sqrt(0.09 * length) + 10)
        for options in (None, SearchOptions(beam_size=1), SearchOptions(temperature=1)):
            [translation] = translator.translate([line], options)
            assert len(translation.tokens) == expected and translation.is_cut, (line, options)
        for limited in (SearchOptions(max_length=3), SearchOptions(max_length_ratio=0.1, min_length=3)):
            [translation] = translator.translate([line], limited)
            assert len(translation.tokens) == 3 and not translation.is_cut, limited
    assert translator.translate(["the dog"], SearchOptions(max_length=1000, beam_size=1))[0].is_cut
    ended = Translator(random_trained(tiny_config(MEMORY), TOKENIZER, eos_bias=1e4))
    assert not ended.translate(["the dog"])[0].is_cut


@pytest.mark.parametrize("wrong", [(math.nan, 1.0), (1.0, -1.0), (math.inf, 1.0), (1.0,), "ab", 1.0])
def test_impossible_length_model_is_refused(wrong: Any, tmp_path: Path) -> None:
    save_folder(tmp_path, random_trained(tiny_config(MEMORY), TOKENIZER, length_model=wrong))
    with pytest.raises(UserError, match="length_model"):
        load_folder(tmp_path)


def test_torch_uses_the_given_threads(runs: Path) -> None:
    before = torch.get_num_threads()
    try:
        for threads, expected in ((3, 3), (None, 3), (1, 1)):  # None: torch's own setting holds
            Translator.load(runs / "a", threads=threads).texts(["a dog"])
            assert torch.get_num_threads() == expected
    finally:
        torch.set_num_threads(before)
    for wrong in (0, "2", 1.5):
        assert refusal(Translator.load, runs / "a", threads=wrong).startswith(f"threads={wrong!r}: ")


def test_another_base_is_refused(runs: Path) -> None:
    for change in (
        lambda: save_random(runs / "a", tiny_config(MEMORY, decoder={"tied": True}), TOKENIZER, seed=2),
        lambda: shutil.rmtree(runs / "a"),
    ):
        change()
        for name in "bc":
            assert refusal(load_folder, runs / name, key="init_from").startswith(f"init_from={runs / 'b'}: ")


def forge(folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> None:
    """Change metadata and tensors of an adapter, and write it with the right digest."""
    stored, tensors = read_tensors(folder / "adapter.safetensors")
    about = json.loads(stored["adapter"])
    del about["digest"]
    change(about, tensors)
    about.setdefault("digest", fingerprint(about, tensors))
    save_file(tensors, folder / "adapter.safetensors", {"adapter": json.dumps(about)})


NAME = "encoder.forwards.0.weight_hh_l0"
CHANGES: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "newer format": lambda about, _: about.update(format=99),
    "not a number": lambda about, _: about.update(scale="x"),
    "digest": lambda about, _: about.update(digest="0"),
    "one half": lambda _, t: t.pop(f"{NAME}.A"),
    "shape": lambda _, t: t.update({f"{NAME}.A": torch.ones(2, 5)}),
    "NaN": lambda _, t: t[f"{NAME}.B"].fill_(float("nan")),
    **{
        f"base in {place[:20]!r}": lambda about, _, place=place: about.update(base_folder=place, base="0" * 64)
        for place in ("../b", "\0", "/dev/zero")
    },
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_forged_adapter_is_refused(runs: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> None:
    forge(runs / "b", change)
    assert str(runs / "b") in refusal(load_folder, runs / "b")
