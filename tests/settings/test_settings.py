"""Settings become dataclasses and come back unchanged."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from nmt.config.compose import train_config
from nmt.data.sources import DataSettings
from nmt.settings.build import build, plain


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
    assert {"_target_": "a.B", **block, **shared}.items() <= plain(settings).items()
