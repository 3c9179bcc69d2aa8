"""Plug-ins by ``_target_``: wrong targets and settings are rejected before anything is constructed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from builders import expect_error, refusal

from nmt.config.compose import train_config
from nmt.errors import UserError

GROUPS = ("data", "encoder", "attention", "optimizer", "schedule")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("choice", "target"),
    [
        # Classes that a module of nmt only imports.
        ("attention=none", "nmt.files.checkpoint.ZipFile"),
        ("attention=none", "nmt.attention.base.CheckedArguments"),
        ("data=copy", "nmt.inference.model_folder.Path"),
        ("data=copy", "nmt.data.parallel.Path"),
        ("encoder=lstm", "nmt.model.encoder.Dropout"),
        ("optimizer=adam", "torch.optim.sgd.Tensor"),
        # Functions of nmt that are not allowed at this place.
        ("data=copy", "nmt.data.parallel.read_pairs"),
        ("attention=none", "nmt.attention.base.clear_padding"),
        ("schedule=constant", "nmt.training.schedules.build_schedule"),
        # Classes that do not inherit from the base class of the place, or have no signature.
        ("attention=none", "nmt.attention.base.Memory"),
        ("encoder=lstm", "nmt.attention.NoAttention"),
        ("encoder=lstm", "nmt.model.State"),
        ("optimizer=adam", "torch.optim.lr_scheduler.ConstantLR"),
        ("schedule=constant", "torch.optim.SGD"),
        ("data=copy", "nmt.data.parallel.Files"),
        # Incomplete names.
        *(("attention=none", target) for target in (".x", "x", "mine.", ".")),
    ],
)
def test_wrong_target_is_refused(choice: str, target: str) -> None:
    key = f"{choice.partition('=')[0]}._target_"
    text = refusal(train_config, [choice, f"{key}={target}"])
    assert text.startswith(f"{key}={target}: ")
    if "." in target.strip(".") and choice.startswith("attention"):
        nested = refusal(train_config, ["attention=multi_head", f"attention.inner._target_={target}"])
        assert nested.startswith(f"attention.inner._target_={target}: ")


@pytest.mark.parametrize("group", [*GROUPS, "decoder", "attention.inner"])
def test_untrusted_package_is_not_even_imported(package: str, group: str) -> None:
    place, choice = group.partition(".")[0], {"attention.inner": "multi_head", "data": "copy"}.get(group)
    choices = [f"{place}={choice}"] if choice else []
    others = ["trust=[other]"], ["trust=[min]"], ["trust=[mine.other]"]
    for trust in [[], *(others if group == "data" else ())]:
        text = refusal(train_config, [*choices, f"{group}._target_=mine.Unrelated", *trust])
        assert text.startswith(f"{group}._target_=mine.Unrelated: ")
    assert package not in sys.modules


@pytest.mark.parametrize("target", ["mine.SGD", "mine.calls", "mine.Nothing", "mine.nothing.Nothing"])
def test_wrong_name_in_a_trusted_package_is_refused(package: str, target: str) -> None:
    words = ["data=copy", f"data._target_={target}", f"trust=[{package}]"]
    expect_error("data._target_", train_config, words)
    assert sys.modules[package].calls == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ("optimizer=sgd +optimizer.momentun=1", "optimizer.momentun"),
        ("optimizer=sgd +optimizer.params=[1]", "optimizer.params"),
        ("optimizer=sign +optimizer.decay=low", "optimizer.decay"),
        ("optimizer=sign +optimizer.decay=-1", "optimizer"),
        ("schedule=cosine +schedule.T_mx=2", "schedule.T_mx"),
        ("attention=scaled attention.scale=big", "attention.scale"),
        ("attention=scaled +attention.state_size=1", "attention.state_size"),
        ("data=letters data.pairs=0", "data.pairs"),
        ("data=letters_class +data.pair=0", "data.pair"),
        ("data=letters_class data.pairs=0", "data.pairs"),
    ],
)
def test_wrong_setting_of_a_plugin_is_named(words: list[str], settings: str, key: str) -> None:
    text = refusal(train_config, [*words, *settings.split()])
    group, choice = settings.split()[0].split("=")
    folder = "my_conf" if Path("my_conf", group, f"{choice}.yaml").is_file() else "conf"
    assert UserError(text).key == key and text.endswith(f" ({folder}/{group}/{choice}.yaml)")


def test_a_class_passes_the_settings_of_its_base_class_on() -> None:
    words = ["attention=none", "attention._target_=attention.test_own_attentions.Rest", "trust=[attention]"]
    config = train_config([*words, "attention.temperature=2.0", "attention.write_score=sigmoid"])
    assert config.attention["write_score"] == "sigmoid"
    for wrong in "attention.write_scores=sigmoid", "attention.write_score=tanh":
        assert refusal(train_config, [*words, wrong]).startswith(f"{wrong}: ")
