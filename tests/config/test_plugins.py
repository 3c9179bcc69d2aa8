"""Plug-ins by ``_target_``: wrong targets and settings are rejected before anything is constructed."""

from __future__ import annotations

import functools
import inspect
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from builders import refusal

from nmt.config.compose import train_config
from nmt.data.sources import DataSettings, load_pairs
from nmt.model.build import ENCODER
from nmt.settings.build import build

GROUPS = ("data", "encoder", "attention", "optimizer", "schedule")


def record_calls(monkeypatch: pytest.MonkeyPatch, target: str) -> list[str]:
    """Replace the class or function at the dotted name ``target`` by one that records its calls in the result."""
    calls: list[str] = []
    module, _, name = target.rpartition(".")
    original: Any = getattr(import_module(module), name)

    @functools.wraps(original.__init__ if isinstance(original, type) else original)
    def record(*arguments: Any, **settings: Any) -> Any:
        calls.append(target)
        return (original.__init__ if isinstance(original, type) else original)(*arguments, **settings)

    replacement: Any = record
    if isinstance(original, type):
        body = {"__module__": original.__module__, "__init__": record, "__signature__": inspect.signature(original)}
        replacement = type(name, (original,), body)
    monkeypatch.setattr(f"{module}.{name}", replacement)
    return calls


@pytest.mark.parametrize("target", ["nmt.attention.NoAttention", "nmt.data.copy.generate"])
def test_calls_are_recorded(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests of refused targets would prove nothing."""
    calls = record_calls(monkeypatch, target)
    if target.endswith("generate"):
        load_pairs(train_config(["data=copy", "data.train_pairs=9"]).data)
    else:
        train_config(["attention=none"])
    assert calls == [target]


OF_ATTENTION = "not allowed here; name something of nmt.attention"
OF_DATA = "not allowed here; name something of nmt.data.generated or nmt.data.copy or nmt.data.parallel"
OF_MODEL = "not allowed here; name something of nmt.model"
NO_SCHEDULE = "must be a subclass of torch.optim.lr_scheduler.LRScheduler"
NO_ATTENTION = "must be a subclass of nmt.attention.base.Attention"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("group", "choice", "target", "problem"),
    [
        # Classes that a module of nmt only imports.
        ("attention", "none", "nmt.files.checkpoint.ZipFile", OF_ATTENTION),
        ("attention", "none", "nmt.attention.base.check_arguments", "defined in nmt.settings.arguments; name it there"),
        ("data", "copy", "nmt.inference.model_folder.Path", OF_DATA),
        ("data", "copy", "nmt.data.parallel.Path", f"defined in {Path.__module__}; name it there, and trust that"),
        ("encoder", "lstm", "nmt.model.encoder.Dropout", "defined in nmt.kernels.dropout; name it there, and trust"),
        ("optimizer", "adam", "torch.optim.sgd.Tensor", "defined in torch; name it there, and trust that package"),
        # Functions of nmt that are not allowed at this place.
        ("data", "copy", "nmt.data.parallel.read_pairs", "defined in nmt.data.text_files; name it there, and trust"),
        ("attention", "none", "nmt.attention.base.clear_padding", NO_ATTENTION),
        ("schedule", "constant", "nmt.training.schedules.warm_up", NO_SCHEDULE),
        # Classes that do not inherit from the base class of the place.
        ("attention", "none", "nmt.attention.base.Memory", NO_ATTENTION),
        ("encoder", "lstm", "nmt.attention.NoAttention", OF_MODEL),
        ("encoder", "lstm", "nmt.model.State", f"must be a subclass of {ENCODER.base.__module__}."),
        ("optimizer", "adam", "torch.optim.lr_scheduler.ConstantLR", "must be a subclass of torch.optim.optimizer.Opt"),
        ("schedule", "constant", "torch.optim.SGD", "not allowed here; name something of torch.optim.lr_sch"),
    ],
    ids=lambda value: value if "." in value and " " not in value else "",
)
def test_wrong_target_is_refused_without_calling_it(
    monkeypatch: pytest.MonkeyPatch, group: str, choice: str, target: str, problem: str
) -> None:
    recordable = target.rpartition(".")[2] not in ("Path", "Tensor", "product")  # their work is not in __init__
    calls = record_calls(monkeypatch, target) if recordable else []
    text = refusal(train_config, [f"{group}={choice}", f"{group}._target_={target}"])
    if group == "attention":
        nested = refusal(train_config, ["attention=multi_head", f"attention.inner._target_={target}"])
        assert nested.replace(".inner._target_", "._target_").replace("multi_head.yaml", "none.yaml") == text
    assert text.startswith(f"{group}._target_={target}: {problem}")
    assert text.endswith(f" (conf/{group}/{choice}.yaml)")
    assert calls == []


@pytest.mark.parametrize("target", [".x", "x", "mine.", "."])
def test_incomplete_name_is_refused(target: str) -> None:
    text = refusal(train_config, ["attention=none", f"attention._target_={target}"])
    assert text == f"attention._target_={target}: not a name; write package.module.Name (conf/attention/none.yaml)"


@pytest.mark.parametrize("group", [*GROUPS, "decoder", "attention.inner"])
def test_untrusted_package_is_not_even_imported(package: str, group: str) -> None:
    place, choice = group.partition(".")[0], {"attention.inner": "multi_head", "data": "copy"}.get(group)
    choices = [f"{place}={choice}"] if choice else []
    for trust in ([], ["trust=[other]"], ["trust=[min]"], ["trust=[mine.other]"]):
        text = refusal(train_config, [*choices, f"{group}._target_=mine.Unrelated", *trust])
        expected = f"{group}._target_=mine.Unrelated: package 'mine' is not trusted; if you trust it, add trust=[mine] "
        assert text.startswith(f"{expected}(conf/{place}/")
    assert package not in sys.modules


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("mine.SGD", "defined in torch.optim.sgd; name it there, and trust that package"),
        ("mine.calls", "not a class or function; name one"),
        ("mine.Nothing", "not found (module 'mine' has no attribute 'Nothing')"),
        ("mine.nothing.Nothing", "not found (No module named 'mine.nothing'"),
    ],
)
def test_wrong_name_in_a_trusted_package_is_refused(package: str, target: str, problem: str) -> None:
    text = refusal(train_config, ["data=copy", f"data._target_={target}", f"trust=[{package}]"])
    assert text.startswith(f"data._target_={target}: {problem}")
    assert sys.modules[package].calls == []


def test_class_without_a_signature_is_refused() -> None:
    text = refusal(train_config, ["data=copy", "data._target_=nmt.data.parallel.Files"])  # a TypedDict
    assert text.startswith("data._target_=nmt.data.parallel.Files: its arguments are unknown")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (["optimizer=sgd", "+optimizer.momentun=1"], "optimizer.momentun=1: no such key; did you mean momentum?"),
        (["optimizer=sgd", "+optimizer.params=[1]"], "optimizer.params=[1]: no such key"),
        (["optimizer=sgd", "optimizer.lr=fast"], "optimizer.lr=fast: must be a number"),
        (["optimizer=sign", "+optimizer.decay=low"], "optimizer.decay=low: must be a number"),
        (["optimizer=sign", "+optimizer.decay=-1"], "optimizer: mine.SignDescent refuses its settings: decay=-1 is"),
        (["schedule=halving", "+schedule.evry=2"], "schedule.evry=2: no such key; did you mean every?"),
        (["schedule=halving", "+schedule.interval=week"], "schedule.interval=week: must be update | epoch"),
        (["schedule=linear", "+schedule.interval=epoch"], "schedule.interval=epoch: nmt.training.schedules.Linear"),
        (["schedule=cosine", "+schedule.T_mx=2"], "schedule.T_mx=2: no such key; did you mean T_max?"),
        (["attention=scaled", "attention.scale=big"], "attention.scale=big: must be a number"),
        (["attention=scaled", "+attention.state_size=1"], "attention.state_size=1: no such key"),
        (["data=letters", "+data.revers=true"], "data.revers=true: no such key; did you mean reverse?"),
        (["data=letters", "data.pairs=0"], "data.pairs=0: must be at least 1"),
        (["data=letters_class", "+data.pair=0"], "data.pair=0: no such key; did you mean pairs?"),
        (["data=letters_class", "data.pairs=0"], "data.pairs=0: must be at least 1, or there is nothing to learn"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_wrong_setting_of_a_plugin_is_named(words: list[str], settings: list[str], problem: str) -> None:
    text = refusal(train_config, [*words, *settings])
    group, _, choice = settings[0].partition("=")
    folder = "my_conf" if Path("my_conf", group, f"{choice}.yaml").is_file() else "conf"
    assert text.startswith(problem) and text.endswith(f" ({folder}/{group}/{choice}.yaml)")


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        ("numbers", "data._target_=mine.numbers: must return sentence pairs by part (train, valid, test)"),
        ("five_values", "data: pair 1 of part train is ('a b', 'a b', (), (), 'fifth'); must be (source, target)"),
    ],
)
def test_wrong_result_of_a_data_source_is_reported(package: str, function: str, problem: str) -> None:
    data = {"_target_": f"{package}.{function}", "lowercase": False}
    assert refusal(load_pairs, build(DataSettings, data), trust=[package]).startswith(problem)
