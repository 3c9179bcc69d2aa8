"""``nmt.train`` is the command nmt-train, from a program and from a thread."""

from __future__ import annotations

import asyncio
import io
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import ONE_EPOCH, summary

import nmt
import nmt.api
import nmt.training.run
from nmt.commands.train import train


def test_only_training_flushes_denormal_numbers(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.set_flush_denormal(False):
        pytest.skip("this CPU cannot flush denormal numbers")
    products = []

    def fit(*_: Any, **__: Any) -> None:
        products.append(float(torch.tensor(1e-30) * 1e-10))
        raise KeyError

    monkeypatch.setattr(nmt.training.run, "fit", fit)
    with pytest.raises(KeyError):
        nmt.train(*ONE_EPOCH, "name=program")
    assert products == [0] and torch.tensor(1e-30) * 1e-10 > 0


class NotebookStream(io.TextIOBase):
    """A stream as ipykernel's: not a terminal, and without a file descriptor."""

    encoding = "UTF-8"

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)


@pytest.mark.thorough
def test_train_works_in_a_notebook(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is that of the command: in a running event loop, in its thread and another, with a notebook's streams."""
    train([*ONE_EPOCH, "name=command"])
    expected = nmt.api.Run(run.parent / "command", summary(run.parent / "command"))
    outer = signal.getsignal(signal.SIGINT)

    async def cell() -> list[nmt.api.Run]:
        here = nmt.train(*ONE_EPOCH, "name=cell")
        return [here, await asyncio.to_thread(nmt.train, *ONE_EPOCH, "name=thread")]

    stderr = NotebookStream()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stderr)
        patch.setattr(sys, "stdout", NotebookStream())
        patch.setattr("rich.console._is_jupyter", lambda: True)
        runs = asyncio.run(cell())
    for result in runs:
        assert result.scores == expected.scores
        assert result.history["valid_loss"] == expected.history["valid_loss"] != []
        assert nmt.Translator.load(result.folder).texts(["ban"])
    lines = stderr.text.splitlines()
    assert lines[0] == "run: runs/cell" and sum(line.startswith("epoch 1  valid_loss") for line in lines) == 2
    assert signal.getsignal(signal.SIGINT) == outer
