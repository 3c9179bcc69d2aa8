"""Errors in the code of a trusted package name its file and line, and are not called defects of the toolkit."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.commands.shell import INTERNAL_ERROR, USER_ERROR, describe_error
from nmt.config.compose import train_config
from nmt.data.sources import load_pairs
from nmt.settings import plugins

CODE = """
from nmt.attention import LuongAttention

class Mine(LuongAttention):
    def __init__(self, *, state_size: int, query_size: int):
        {constructor}
        super().__init__(state_size=state_size, query_size=query_size)

def pairs(**settings):
    {pairs}
"""


@pytest.mark.parametrize(
    ("settings", "line", "expected"),
    [
        ("attention=none attention._target_={}.Mine", {"constructor": "1 / 0"}, "{}.py:6: ZeroDivisionError"),
        ("attention=none attention._target_={}.Mine", {"constructor": "pass )"}, "{}.py:6: SyntaxError"),
        (
            "attention=none attention._target_={}.Mine",
            {"constructor": "raise ValueError('rate=0: too low')"},
            "attention._target_={}.Mine: rate=0: too low",
        ),
        ("data=copy data._target_={}.pairs", {"pairs": "return [][0]"}, "{}.py:10: IndexError"),
    ],
)
def test_error_in_a_trusted_package_names_its_line(
    settings: str, line: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"own_{abs(hash(expected))}"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "trusted_packages", set())
    monkeypatch.setattr("nmt.commands.shell.trusted_packages", plugins.trusted_packages)
    (tmp_path / f"{name}.py").write_text(CODE.format(**{"constructor": "pass", "pairs": "pass"} | line))
    with pytest.raises(Exception) as caught:
        config = train_config([*settings.format(name).split(), f"trust=[{name}]"])
        load_pairs(config.data, trust=[name])
    code, [message, *_] = describe_error(caught.value)
    assert code == USER_ERROR and expected.format(name) in message, message


def test_errors_of_the_toolkit_are_still_its_own() -> None:
    assert describe_error(LookupError("no such row"))[0] == INTERNAL_ERROR
