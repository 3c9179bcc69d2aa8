"""A run does not train on text that changed since it was prepared."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import TINY, on_prepared, refuse, stop_at

from nmt.commands.train import train


def change_a_word(file: Path) -> None:
    content = file.read_bytes()
    assert b"Ban" in content or b"ban" in content
    file.write_bytes(content.replace(b"Ban", b"Man", 1).replace(b"ban", b"man", 1))


@pytest.mark.thorough
@pytest.mark.parametrize("prepared", [False, True])
def test_resumed_run_refuses_damaged_text(run: Path, prepared: bool) -> None:
    words = on_prepared("mine") if prepared else TINY
    stop_at(1, [*words])
    file = Path("mine/train.arrow") if prepared else run / "data" / "train.arrow"
    content = file.read_bytes()
    change_a_word(file)
    refuse(["resume=true"], r"train\.arrow: cannot be read as a corpus \(wrong checksum\); prepare")
    file.write_bytes(content)
    train(["resume=true"])
    assert (run / "summary.json").is_file()
