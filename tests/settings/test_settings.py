"""Settings become dataclasses and come back unchanged."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from nmt.config.compose import compose_config, train_config
from nmt.config.overrides import config_dir
from nmt.data.sources import DataSettings
from nmt.settings.build import build, plain
from nmt.training.settings import PreparedTrain, Train

GROUPS = sorted(
    {path.name for path in config_dir().iterdir() if path.is_dir()} - {"experiment", "filters", "self_attention"}
)
CHOICES = [(group, path.stem) for group in GROUPS for path in sorted((config_dir() / group).glob("*.yaml"))]


def contains(larger: Any, smaller: Any) -> bool:
    """Return whether ``larger`` has all keys of ``smaller`` with their values; other keys may be defaults."""
    if isinstance(smaller, dict):
        return all(key in larger and contains(larger[key], item) for key, item in smaller.items())
    return bool(larger == smaller)


@pytest.mark.parametrize(("group", "choice"), CHOICES, ids="=".join)
def test_every_yaml_comes_back(group: str, choice: str) -> None:
    folder = ["data.folder=text"] if choice == "prepared" else []
    composed = compose_config("train", [f"{group}={choice}", *folder], lambda config: ())
    schema = PreparedTrain if choice == "prepared" else Train
    settings = build(schema, composed)
    assert contains(plain(settings), composed)
    assert build(schema, plain(settings)) == settings


def test_every_group_is_a_dataclass_or_a_block() -> None:
    settings = train_config([])
    groups = {name: value for name, value in plain(settings).items() if isinstance(value, dict)}
    blocks = {name for name in groups if not is_dataclass(getattr(settings, name))}
    assert blocks == {"encoder", "attention", "decoder", "optimizer", "schedule"}
    assert all("_target_" in groups[name] for name in blocks)


VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
TREES = st.recursive(VALUES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
BLOCKS = st.dictionaries(st.just("block") | st.text(min_size=1), TREES)


@limits(max_examples=30)
@given(BLOCKS, st.booleans(), st.none() | st.integers(1))
def test_blocks_of_any_content_come_back(block: dict[str, Any], lowercase: bool, longest: int | None) -> None:
    block = {key: value for key, value in block.items() if key not in DataSettings.shared_keys()}
    shared = {"lowercase": lowercase, "max_length": longest}
    settings = build(DataSettings, {"_target_": "a.B", **block, **shared})
    assert settings.block == {"_target_": "a.B", **block}
    assert (settings.lowercase, settings.max_length) == (lowercase, longest)
    assert contains(plain(settings), {"_target_": "a.B", **block, **shared})
