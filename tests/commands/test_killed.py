"""Commands killed with SIGKILL at random moments: what existed still works, and the next call goes on and cleans up."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from builders import write_parts
from commands.processes import MAIN, finish, start
from commands.texts import TEXT

from nmt.commands.export import export
from nmt.inference.engines import EngineName
from nmt.inference.translator import Translator

pytestmark = pytest.mark.thorough


def run(command: str, *arguments: str) -> tuple[list[str], str]:
    """Return the lines of stdout, and stderr. The command must succeed."""
    code, out, error = finish(MAIN.format(command), arguments, text=TEXT)
    assert code == 0, error.decode()
    return out.decode().split("\n")[:-1], error.decode()


def text_files(folder: Path, lines: list[str]) -> list[str]:
    """Write the lines as both sides of the training text. Return the settings that name them, for a tiny vocabulary."""
    files = write_parts(folder, {"train": [(line, line) for line in lines]})
    return [*files, "tokenizer.vocab_size=290"]


def kill_at(process: subprocess.Popen[bytes], ready: Callable[[], bool]) -> bool:
    """Kill the process as soon as ``ready``, while it waits for more input; return False if it ended before."""
    assert process.stdin is not None
    process.stdin.write(TEXT * 5)
    process.stdin.flush()
    while process.poll() is None and not ready():
        time.sleep(0.001)
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


def random_moments(count: int, work: Path, pattern: str, *, files: int, delay_s: float) -> Iterator[Callable[[], bool]]:
    """Yield conditions that are true after up to ``files`` files in the temporary folder, and a random delay.

    A random time alone would mostly hit the seconds in which libraries are imported.
    """
    generator = random.Random(1)
    for number in range(count):
        wanted, delay = 7 * number % (files + 1), generator.uniform(0, delay_s)
        reached: list[float] = []

        def ready(wanted: int = wanted, delay: float = delay, reached: list[float] = reached) -> bool:
            with suppress(FileNotFoundError):  # renamed or deleted just now
                if not reached and any(len(list(folder.iterdir())) >= wanted for folder in work.glob(pattern)):
                    reached.append(time.perf_counter())
            return bool(reached) and time.perf_counter() - reached[0] >= delay

        yield ready


def translations(model: Path, engine: EngineName) -> list[str]:
    return Translator.load(model, engine=engine).texts(TEXT.decode().splitlines())


@pytest.mark.slow  # exports take seconds
def test_killed_export_leaves_a_model_that_translates(model: Path, tmp_path: Path) -> None:
    """Every second model has graphs already."""
    exported, copy = shutil.copytree(model, tmp_path / "exported"), tmp_path / "run"
    export([f"model={exported}"])
    by_torch, by_graphs = translations(model, "torch"), translations(exported, "onnx")
    killed = 0
    for number, ready in enumerate(random_moments(20, copy, ".nmt-*.partial/new", files=9, delay_s=0.3)):
        shutil.copytree(exported if number % 2 else model, copy)
        killed += kill_at(start(MAIN.format("export"), [f"model={copy}"]), ready)
        assert run("translate", f"model={copy}") in [(by_torch, ""), (by_graphs, "engine: onnx\n")]
        export([f"model={copy}"])
        assert sorted(path.name for path in copy.iterdir()) == ["model.pt", "onnx"]
        assert translations(copy, "auto") == by_graphs
        shutil.rmtree(copy)
    assert killed


def kill_writers(command: str, work: Path, count: int, *arguments: str) -> None:
    """Kill ``count`` commands that write the folder ``work``/out; the next one succeeds.

    The killed ones leave a temporary folder beside it.
    """
    before = sorted(path.name for path in work.iterdir())
    killed = 0
    for ready in random_moments(count, work, ".nmt-*.partial/new", files=3, delay_s=0.05):
        kill_at(start(MAIN.format(command), [*arguments, f"output={work}/out"]), ready)
        if (work / "out").exists():  # killed too late
            shutil.rmtree(work / "out")
        else:
            killed += 1
    assert killed
    run(command, *arguments, f"output={work}/out")
    names = sorted(path.name for path in work.iterdir() if not path.name.startswith(".nmt-"))
    assert names == sorted([*before, "out"])


@pytest.mark.parametrize("count", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_prepare_does_not_block_its_folder(tmp_path: Path, count: int) -> None:
    lines = [f"{'the dog sees a cat ' * (number % 9)}{number}" for number in range(30_000)]
    kill_writers("prepare", tmp_path, count, *text_files(tmp_path, lines))


@pytest.mark.skipif(os.name == "nt", reason="needs a limit of the file size")
def test_full_disk_stops_preparing_in_one_line(tmp_path: Path) -> None:
    """A limit of the file size stands for the full disk."""
    lines = [f"{'the dog sees a cat ' * 9}{number}" for number in range(1500)]
    words = [*text_files(tmp_path, lines), f"output={tmp_path}/out"]
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
    code, _, messages = finish(limit + MAIN.format("prepare"), words)
    assert code == 2 and re.fullmatch(r"error: .*: cannot write: File too large; .*\n", messages.decode())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.src", "train.tgt"]
