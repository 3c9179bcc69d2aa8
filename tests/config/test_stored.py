"""A config.yaml from a stranger's folder is read at once, as plain text, or refused in one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import expect_error

from nmt.config.compose import compose_train, inherit_settings, to_yaml, train_problems
from nmt.config.overrides import read_yaml
from nmt.errors import UserError

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_every_configuration_comes_back(tmp_path: Path) -> None:
    words = ["attention=multi_head", "name='1e-3'", "name='no'", "name='0o17'", "optimizer.lr=1e-9"]
    not_utf8 = {"data": {"train": {"src": "b\udcff.en"}}, "name": "r\udcff"}
    for config in [not_utf8, *(compose_train([word]) for word in words)]:
        (tmp_path / "config.yaml").write_text(to_yaml(config))
        assert read_yaml(tmp_path / "config.yaml") == config


@pytest.mark.parametrize(
    "text",
    [
        *(BOMB, "a: &a [*a]", "a: &a 1\nb: *a", "[" * 50_000, "{a: " * 20_000, "- " * 20_000, "a: [" * 20_000),
        *("a: ${oc.env:HOME}", "a: ${" * 40_000, "a: '${'", "a: " + "x" * 300_000),
        *("a: !!python/object/apply:os.system [true]", "a: !!set {b}", "3", "a: b: c", "\0"),
        *("a: !!binary eHh4", "? [1, 2]\n: 3"),
    ],
    ids=lambda text: text[:12],
)
def test_damaged_or_forged_yaml_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    expect_error(str(tmp_path), read_yaml, tmp_path / "config.yaml")


def places(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, item in value.items():
        yield (*path, key)
        if isinstance(item, dict):
            yield from places(item, (*path, key))


@pytest.mark.thorough
def test_every_replaced_setting_of_an_inherited_run_is_refused_or_valid(tmp_path: Path) -> None:
    config = compose_train(["attention=multi_head"])
    inherited = {key: config[key] for key in ("embeddings", "encoder", "attention", "decoder", "tokenizer", "data")}
    refused = 0
    for path in places(inherited):
        for value in (None, {"_target_": "os.system"}):
            changed = read_yaml_of(tmp_path, inherited)
            place = changed
            for name in path[:-1]:
                place = place[name]
            place[path[-1]] = value
            (tmp_path / "config.yaml").write_text(to_yaml(changed))
            overrides = ["encoder.layers=2", "attention.heads=4", "tokenizer.vocab_size=300"]
            for words, text in (([], True), (overrides, False)):
                start = {**config, "init_from": str(tmp_path)}
                try:
                    messages = train_problems(inherit_settings(start, words, None, text=text))
                except UserError as error:
                    messages = [str(error)]
                refused += bool(messages)
                assert not any("\n" in problem for problem in messages)
    assert refused > 50


def read_yaml_of(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """Return a deep copy of ``config``, by way of a file."""
    (folder / "config.yaml").write_text(to_yaml(config))
    return read_yaml(folder / "config.yaml")
