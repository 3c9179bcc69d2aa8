"""Each YAML of conf/self_attention builds, and its settings are checked."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import yaml
from builders import refusal

from nmt import self_attention
from nmt.commands.sweep import read_sweep
from nmt.config.compose import compose_train, train_config
from nmt.config.overrides import config_dir
from nmt.errors import UserError
from nmt.model import Seq2Seq
from nmt.model.build import build_model

STEMS = sorted(path.stem for path in (config_dir() / "self_attention").glob("*.yaml"))
TRANSFORMER = ["encoder=transformer", "decoder=transformer"]
SIZES = [f"{part}.{key}" for part in ("encoder", "decoder") for key in ("hidden_size=8", "layers=1", "heads=2")]


def build(*words: str) -> Seq2Seq:
    config = train_config([*TRANSFORMER, *SIZES, *words])
    return build_model(config, source_vocabulary=20, target_vocabulary=20, longest_source=9)


@pytest.mark.parametrize("stem", STEMS)
def test_every_yaml_builds_and_has_the_defaults_of_its_class(stem: str) -> None:
    block = yaml.safe_load((config_dir() / "self_attention" / f"{stem}.yaml").read_text("utf-8"))
    kind = getattr(self_attention, block.pop("_target_").removeprefix("nmt.self_attention."))
    defaults = {name: item.default for name, item in inspect.signature(kind).parameters.items()}
    assert block == {name: value for name, value in defaults.items() if name not in ("size", "heads", "max_length")}
    causal = kind is not self_attention.LowRankSelfAttention
    if not causal:
        message = refusal(compose_train, [*TRANSFORMER, f"decoder.self_attention={stem}"])
        assert f"decoder.self_attention={kind.__name__}: cannot hide later positions" in message
    parts = ["encoder", "decoder"] if causal else ["encoder"]
    model = build(*(f"{part}.self_attention={stem}" for part in parts))
    for part in parts:
        assert type(getattr(model, part).blocks[0].self_attention) is kind


def test_a_word_chooses_the_kind_and_its_keys_lie_beneath() -> None:
    config = compose_train([*TRANSFORMER, "encoder.self_attention.window=3", "encoder.self_attention=window"])
    assert config["encoder"]["self_attention"]["window"] == 3
    assert config["decoder"]["self_attention"] == {"_target_": "nmt.self_attention.SoftmaxSelfAttention"}


def test_a_sweep_over_kinds_names_its_jobs_as_the_command_does() -> None:
    jobs = read_sweep([*TRANSFORMER, "decoder.self_attention=linear,window", "decoder.self_attention.window=2"])
    assert [job.folder.name for job in jobs] == [
        "decoder.self_attention=linear",
        "decoder.self_attention=window",
    ]


OWN = """
from nmt.self_attention import SelfAttention

class Itself(SelfAttention):
    def __init__(self, *, size: int, heads: int, factor: float = 1.0) -> None:
        super().__init__(size=size, heads=heads)
        self.factor = factor

    def both_sides(self, projected, mask):
        return self.factor * projected.values
"""


def test_a_kind_of_another_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_self_attention.py").write_text(OWN)
    (tmp_path / "self_attention").mkdir()
    (tmp_path / "self_attention" / "itself.yaml").write_text("_target_: own_self_attention.Itself\nfactor: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    words = ["--config-dir", str(tmp_path), *TRANSFORMER, *SIZES, "encoder.self_attention=itself"]
    with pytest.raises(UserError, match=r"package 'own_self_attention' is not trusted; if you trust it, add trust="):
        compose_train(words)
    words.append("trust=[own_self_attention]")
    config = train_config([*words, "encoder.self_attention.factor=2"])
    sizes = {"source_vocabulary": 20, "target_vocabulary": 20, "longest_source": 9}
    model = build_model(config, **sizes, trust=["own_self_attention"])
    assert model.encoder.blocks[0].self_attention.factor == 2  # type: ignore[union-attr]
    with pytest.raises(UserError, match=r"encoder\.self_attention\.factor=x: must be a number"):
        compose_train([*words, "encoder.self_attention.factor=x"])


@pytest.mark.parametrize(
    "words",
    [
        ["encoder.self_attention=linaer"],
        ["encoder=bilstm", "encoder.self_attention=linear"],
        ["encoder.self_attention.window=3"],
        ["encoder.self_attention.feature_map=elu"],
        ["self_attention=linear"],
        ["encoder.self_attention=null"],
        ["decoder.self_attention=window", "decoder.self_attention.window=0"],
        ["decoder.self_attention=linear", "decoder.self_attention.feature_map=elo"],
        ["encoder.self_attention=linear", "encoder.self_attention.key_feature_map=taylor"],
        ["encoder.self_attention._target_=nmt.model.TransformerEncoder"],
    ],
    ids=str,
)
def test_wrong_settings_are_named(words: list[str]) -> None:
    assert words[-1].partition("=")[0] in refusal(compose_train, [*TRANSFORMER, *words])
