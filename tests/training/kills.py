"""Kill a training run, as ``kill -9`` would, at a chosen change of its folder."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from saved_time import SERVER, save_time

from nmt.commands.train import train
from nmt.training.task import TranslationTask

KILLED = 9


def train_in_child(words: list[str], kill_at: str | int | None = None) -> tuple[int, list[str]]:
    """Run nmt-train in another process. Return its exit code, and what it did up to then.

    Events are ``before`` and ``after`` each rename and deletion of a file, and each update. ``kill_at`` is the number
    of the event at which the process dies at once, or a pattern that the list of events then matches.
    """
    log = Path("events.log").absolute()
    log.write_text("")
    child = SERVER.Process(target=_train, args=(Path.cwd(), words, kill_at, log))
    child.start()
    child.join()
    assert child.exitcode is not None
    return child.exitcode, log.read_text().splitlines()


def _train(folder: Path, words: list[str], kill_at: str | int | None, log: Path) -> None:
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
    os.chdir(folder)
    count = 0

    def happens(event: str) -> None:
        nonlocal count
        with log.open("a") as stream:
            stream.write(f"{event}\n")
        if count == kill_at or (isinstance(kill_at, str) and re.search(kill_at, log.read_text(), re.DOTALL)):
            os._exit(KILLED)
        count += 1

    def watched(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*paths: Any, **options: Any) -> Any:
            event = f"{name} {Path(os.fsdecode(paths[-1])).name}"
            happens(f"before {event}")
            result = original(*paths, **options)
            happens(f"after {event}")
            return result

        return call

    step = TranslationTask.training_step

    def training_step(self: TranslationTask, batch: Any, index: int) -> Any:
        happens(f"update {self.global_step}")
        return step(self, batch, index)

    TranslationTask.training_step = training_step  # type: ignore[method-assign]
    os.replace, os.unlink = watched("rename", os.replace), watched("delete", os.unlink)
    os.remove = watched("delete", os.remove)
    save_time()
    train(words)
