"""A model.pt from a stranger calls only allowed classes, allocates nothing too large, and is refused in one line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import LUONG, random_trained, refusal, save_random, tiny_config

from nmt.attention.multi_head import MultiHeadAttention
from nmt.errors import UserError
from nmt.files.checkpoint import write_checkpoint
from nmt.inference.model_folder import load_folder, non_finite, pack
from nmt.inference.translator import Translator
from nmt.model.build import SkipInitialisation, build_model
from nmt.model.decoder import LSTMDecoder
from nmt.model.encoder import LSTMEncoder
from nmt.settings.build import ModelSettings
from nmt.text.tokenizer import Tokenizer

pytestmark = pytest.mark.attack("forged model.pt")
LOW_RANK = {"_target_": "nmt.attention.LowRankAttention", "slots": 5, "key_size": 4}
MULTI_HEAD = {"_target_": "nmt.attention.MultiHeadAttention", "inner": LUONG, "heads": 2}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["a small dog sees red houses"], vocab_size=275)


@pytest.fixture
def stored(tokenizer: Tokenizer) -> dict[str, Any]:
    """The contents of a model.pt whose attention has another one inside."""
    return contents(MULTI_HEAD, tokenizer)


def contents(attention: dict[str, Any], tokenizer: Tokenizer) -> dict[str, Any]:
    config = deepcopy(tiny_config(attention))
    config["tokenizer"] = {"kind": "bpe"}
    return pack(random_trained(config, tokenizer, longest_source=12))


def problem(folder: Path, stored: dict[str, Any]) -> str:
    """Return the message with which ``load_folder`` refuses the contents; it has to come within a second."""
    write_checkpoint(folder / "model.pt", stored)
    started = time.process_time()
    message = refusal(load_folder, folder)
    assert time.process_time() - started < 1
    assert message.startswith(f"{folder}/model.pt: ") and len(message) < 500
    return message


def put(stored: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    *path, last = key.split(".")
    for name in path:
        stored = stored[name]
    stored[last] = value
    return stored


# Classes.


@pytest.mark.parametrize("place", ["encoder", "attention", "attention.inner", "decoder"])
@pytest.mark.parametrize(
    "target",
    [
        *("nmt.inference.onnx.shortlist.ZipFile", "zipfile.ZipFile", "nmt.model.encoder.pack_padded_sequence"),
        *(
            "nmt.attention.base.NamedTuple",
            "nmt.files.atomic.write_lines",
            "nmt.training.optimizers.SGD",
            "",
            ".",
            "nmt",
        ),
    ],
)
def test_no_constructor_runs_before_every_class_is_accepted(
    tmp_path: Path, stored: dict[str, Any], place: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for part in (LSTMEncoder, MultiHeadAttention, LSTMDecoder):
        monkeypatch.setattr(part, "__init__", lambda self, **settings: calls.append(type(self).__name__))
    (tmp_path / "victim").write_text("text")
    victim = {"_target_": target, "file": str(tmp_path / "victim"), "mode": "w", "path": str(tmp_path / "victim")}
    put(stored["config"], place, {**victim, "lines": []})
    assert f"_target_={target}: " in problem(tmp_path, stored)
    assert calls == []
    assert (tmp_path / "victim").read_text() == "text"


# Sizes.


HEADS = "config.attention.heads"
SIZES = [
    *("config.encoder.layers", "config.encoder.hidden_size", "config.decoder.layers", "config.decoder.hidden_size"),
    *("config.embeddings.size", "config.attention.slots", "config.attention.key_size", "longest_source"),
]


@pytest.mark.parametrize("size", [0, 3, 9, 10**4, 10**7, 10**12, 10**18, 2**63, -1])
@pytest.mark.parametrize(
    ("attention", "key"), [*((LOW_RANK, key) for key in SIZES), (MULTI_HEAD, "config.attention.heads")]
)
def test_declared_sizes_are_compared_before_anything_is_allocated(
    tmp_path: Path, tokenizer: Tokenizer, attention: dict[str, Any], key: str, size: int
) -> None:
    stored = contents(attention, tokenizer)
    put(stored, key, size)
    problem(tmp_path, stored)


@pytest.mark.parametrize(("kind", "key"), [("Sparse", "keep")])
def test_sizes_that_no_weight_shows_are_bounded(tmp_path: Path, tokenizer: Tokenizer, kind: str, key: str) -> None:
    """A window of 10⁹ positions would exhaust the memory with the first line."""
    stored = contents({"_target_": f"nmt.attention.{kind}Attention", key: 2}, tokenizer)
    put(stored, f"config.attention.{key}", 10**9)
    assert f"{kind}Attention: {key}=1000000000: must be at most 65536" in problem(tmp_path, stored)


def test_a_view_of_one_number_does_not_count_as_a_weight(tmp_path: Path, stored: dict[str, Any]) -> None:
    stored["weights"]["embedding.weight"] = torch.zeros(1).expand(10**6, 10**6)
    assert "embedding.weight: not a tensor with a number for each element" in problem(tmp_path, stored)


def test_a_missing_surplus_or_wrong_weight_is_named(tmp_path: Path, stored: dict[str, Any]) -> None:
    weights = stored["weights"]
    for name, weight in list(weights.items()):
        stored["weights"] = {key: value for key, value in weights.items() if key != name}
        assert f"{name}: stored with shape None, but declared with shape {tuple(weight.shape)}" in problem(
            tmp_path, stored
        )
        stored["weights"] = {**weights, name: weight[:-1].clone()}
        assert f"{name}: stored with shape" in problem(tmp_path, stored)
        stored["weights"] = {**weights, f"{name}.x": weight}
        assert f"{name}.x: stored with shape {tuple(weight.shape)}, but declared with shape None" in problem(
            tmp_path, stored
        )


def test_skipped_initialisation_changes_nothing_else(tokenizer: Tokenizer) -> None:
    sizes = {"source_vocabulary": 9, "target_vocabulary": 9, "longest_source": 5}
    with SkipInitialisation():
        skipped = build_model(ModelSettings.of(tiny_config(MULTI_HEAD)), **sizes)  # type: ignore[arg-type]
    built = build_model(ModelSettings.of(tiny_config(MULTI_HEAD)), **sizes)  # type: ignore[arg-type]
    assert [(name, weight.shape) for name, weight in skipped.named_parameters()] == [
        (name, weight.shape) for name, weight in built.named_parameters()
    ]
    tensor = torch.zeros(3)
    with SkipInitialisation():
        assert torch.nn.init.constant_(tensor, 2.0).tolist() == [2.0] * 3  # not a parameter


# Weights.


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, stored: dict[str, Any], value: float) -> None:
    weights = stored["weights"]
    for weight in list(weights.values()):
        damaged = weight.clone()
        damaged.view(-1)[-1] = value
        same = [other for other in weights if weights[other].data_ptr() == weight.data_ptr()]  # a shared table
        stored["weights"] = {**weights, **dict.fromkeys(same, damaged)}
        assert f"{same[0]}: contains infinite values or NaN" in problem(tmp_path, stored)


def test_large_weights_are_finite() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        largest = torch.full((9,), torch.finfo(dtype).max, dtype=dtype)
        assert non_finite({"a": largest, "b": -largest, "ids": torch.arange(3)}) is None
        assert non_finite({"a": largest, "b": largest * 2}) == "b"
    assert non_finite({"a": torch.tensor([float("inf"), float("-inf")])}) == "a"


# Contents.


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside ``value``."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            yield from places(item, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return ``value`` with ``new`` at ``path``; nothing else is copied."""
    return {**value, path[0]: replaced(value[path[0]], path[1:], new)} if path else new


@pytest.mark.thorough
def test_every_replaced_value_is_refused_or_harmless(tmp_path: Path, stored: dict[str, Any]) -> None:
    substitutes: list[Callable[[], Any]] = [
        *(lambda: None, lambda: "abc", lambda: -1, lambda: 1.5, lambda: [], lambda: {}, lambda: True),
        *(lambda: {"_target_": "os.system"}, lambda: torch.zeros(2), lambda: float("nan")),
    ]
    refused = 0
    for path in places(stored):
        for new in substitutes:
            write_checkpoint(tmp_path / "model.pt", replaced(stored, path, new()))
            try:
                Translator(load_folder(tmp_path)).texts(["a dog"])
            except UserError as error:
                refused += 1
                assert "\n" not in str(error)
    assert refused > 100


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("longest_source", "abc", "longest_source='abc': must be a positive number"),
        ("longest_source", True, "longest_source=True: must be a positive number"),
        ("config.encoder", None, "encoder: not a group of settings"),
        ("config.tokenizer", None, "tokenizer: not a group of settings"),
        ("config", [], "not match"),
        ("config.data", {}, "weights, configuration and tokenizers do not match"),
        ("config.attention.heads", 0, "MultiHeadAttention: heads=0: must be at least 1"),
        ("config.encoder.hidden_size", "8", "LSTMEncoder: hidden_size='8': must be a whole"),
        ("config.attention.inner", "nested", "levels"),
    ],
)
def test_wrong_types_are_named(tmp_path: Path, stored: dict[str, Any], key: str, value: Any, message: str) -> None:
    if value == "nested":
        value = LUONG
        for _ in range(40):
            value = {**MULTI_HEAD, "inner": value}
    put(stored, key, value)
    assert message in problem(tmp_path, stored)


def test_removed_keys_may_have_the_value_that_is_left(tmp_path: Path, tokenizer: Tokenizer) -> None:
    stored = contents({"_target_": "nmt.attention.DeltaAttention", "key_size": 4}, tokenizer)
    put(stored, "config.attention.directions", "forward")
    write_checkpoint(tmp_path / "model.pt", stored)
    load_folder(tmp_path)
    put(stored, "config.attention.key_size", None)
    assert "key_size=None" in problem(tmp_path, stored)
    put(stored, "config.attention.directions", "both")
    assert "unexpected keyword argument 'directions'" in problem(tmp_path, stored)


def test_loading_gives_back_what_was_saved(tmp_path: Path, tokenizer: Tokenizer) -> None:
    for attention in (MULTI_HEAD, LOW_RANK):
        model = save_random(tmp_path, tiny_config(attention), tokenizer, longest_source=12).model
        assert [file.name for file in tmp_path.iterdir()] == ["model.pt"]
        assert (trained := load_folder(tmp_path)).target is trained.source and trained.longest_source == 12
        loaded = trained.model.state_dict()
        assert loaded.keys() == model.state_dict().keys()
        assert all(torch.equal(loaded[name], weight) for name, weight in model.state_dict().items())
