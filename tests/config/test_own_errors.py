"""Errors in the code of a trusted package name its file and line, and are not called defects of the toolkit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from training.tiny import WITHOUT_ATTENTION

from nmt.commands.shell import INTERNAL_ERROR, USER_ERROR, describe_error
from nmt.commands.train import train
from nmt.settings import plugins

pytestmark = pytest.mark.thorough

CODE = """
import torch
from nmt.attention import LuongAttention

class Mine(LuongAttention):
    def __init__(self, *, state_size: int, query_size: int):
        super().__init__(state_size=state_size, query_size=query_size)
        {constructor}

    def scores(self, query, memory):
        {scores}
        return super().scores(query, memory)

def pairs():
    {pairs}
    return {{part: [("a b", "c d")] * 60 for part in ("train", "valid")}}
"""


@pytest.fixture(autouse=True)
def _packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = set(plugins.trusted_packages)
    yield
    plugins.trusted_packages.clear()
    plugins.trusted_packages.update(before)


def run(
    tmp_path: Path, name: str, choice: list[str], words: Sequence[str] = WITHOUT_ATTENTION, **lines: str
) -> tuple[int, str]:
    """Train with a package ``name`` whose functions contain these ``lines``; return the exit code and the message."""
    code = CODE.format(**{"constructor": "pass", "scores": "pass", "pairs": "pass"} | lines)
    (tmp_path / f"{name}.py").write_text(code)
    with pytest.raises(Exception) as caught:
        train([*words, *choice, f"trust=[{name}]"])
    exit_code, [message, *_] = describe_error(caught.value)
    return exit_code, message


@pytest.mark.parametrize(
    ("part", "line", "number", "message"),
    [
        ("scores", "torch.ones(2, 3) @ torch.ones(2, 3)", 11, "RuntimeError: mat1 and mat2 shapes cannot be"),
        ("scores", "{}['slots']", 11, "KeyError: 'slots'"),
        ("constructor", "1 / 0", 8, "ZeroDivisionError: division by zero"),
        ("constructor", "pass )", 8, "SyntaxError: unmatched ')'"),
        ("pairs", "[][0]", 15, "IndexError: list index out of range"),
    ],
)
def test_error_in_a_trusted_package_names_its_line(
    tmp_path: Path, part: str, line: str, number: int, message: str
) -> None:
    name = f"own_{abs(hash((part, line)))}"
    choice, words = [f"attention._target_={name}.Mine"], WITHOUT_ATTENTION
    if part == "pairs":
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "own.yaml").write_text(f"_target_: {name}.pairs")
        choice, words = (
            ["--config-dir", ".", "data=own"],
            [word for word in WITHOUT_ATTENTION if not word.startswith("data")],
        )
    code, text = run(tmp_path, name, choice, words, **{part: line})
    assert code == USER_ERROR
    assert text.startswith(f"error: {tmp_path / name}.py:{number}: {message}")
    assert text.endswith("correct this line (NMT_TRACEBACK=1 shows the traceback)")


def test_value_error_of_a_constructor_names_the_class(tmp_path: Path) -> None:
    choice = ["attention._target_=own_value.Mine"]
    code, text = run(tmp_path, "own_value", choice, constructor="raise ValueError('rate=0: must be above 0')")
    problem = "attention._target_=own_value.Mine: rate=0: must be above 0 (conf/attention/none.yaml)"
    assert (code, text) == (USER_ERROR, f"error: {problem}")


def test_errors_of_the_toolkit_are_still_its_own() -> None:
    code, [message] = describe_error(LookupError("no such row"))
    assert code == INTERNAL_ERROR and "please report it" in message
