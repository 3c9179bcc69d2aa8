"""nmt-translate workers=N: the same files as without, also after a worker or the command itself was killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from builders import write_lines
from commands.processes import start, wait_until
from commands.texts import Call

from nmt.commands import streams
from nmt.commands.translate import translate
from nmt.data.text_files import read_lines

pytestmark = pytest.mark.thorough

RANDOM = random.Random(1)
LINES = [" ".join(RANDOM.choices("the small dog sees a red house".split(), k=RANDOM.randint(0, 6))) for _ in range(160)]
CODE = """
from nmt.commands import streams
from nmt.commands.programs import translate
streams.GROUP = 4
translate()
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working directory with the text in.txt."""
    monkeypatch.chdir(tmp_path)
    write_lines("in.txt", LINES)
    return tmp_path


def outputs(call: Call, *words: str, stdin: bytes = b"") -> tuple[dict[str, bytes], str]:
    """Run the command; return the files in the new folder o that it wrote, decompressed, and its messages."""
    Path("o").mkdir()
    error = call(translate, *words, stdin=stdin).error
    files = {path.name: b"\n".join(map(str.encode, read_lines(path))) for path in Path("o").iterdir()}
    shutil.rmtree("o")
    return files, error


@pytest.mark.parametrize(
    ("workers", "size", "options"),
    [
        (2, 33, ["engine=onnx", "alignments=o/links.gz", "search.n_best=2", "search.beam_size=3"]),
        (1, 1000, ["engine=onnx", "scores=true", "search.temperature=0.8", "search.max_length=5"]),
    ],
)
def test_output_and_messages_equal_those_of_a_single_process(
    exported: Path, work: Path, workers: int, size: int, options: list[str], monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    words = [f"model={exported}", "output=o/out.txt", "threads=1", *options]
    monkeypatch.setattr(streams, "GROUP", size)
    expected = outputs(call, *words, "input=in.txt")
    assert len(expected[0]) == 1 + any("links" in word for word in options)
    files, error = outputs(call, *words, f"workers={workers}", stdin=Path("in.txt").read_bytes())
    assert (files, error.replace("<stdin>", "in.txt")) == expected


def workers_of(process: int) -> list[int]:
    """Return the worker processes. The other child of the command tracks resources of the package multiprocessing."""
    children = []
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                children.append(int(child))
    return children


def finished_shards() -> int:
    return len(list(Path("out.txt.shards").glob("*.shard")))


def start_translation(model: Path) -> subprocess.Popen[bytes]:
    """Start the command with two workers and shards of four lines."""
    return start(CODE, [f"model={model}", "engine=onnx", "input=in.txt", "output=out.txt", "workers=2"])


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the workers in /proc")
def test_what_is_killed_or_stopped_continues_with_its_finished_shards(exported: Path, work: Path) -> None:
    write_lines("in.txt", LINES * 4)
    translate([f"model={exported}", "engine=onnx", "input=in.txt", "output=expected"])
    kept = 0
    for target, stop, code in ("worker", signal.SIGKILL, 2), ("command", signal.SIGINT, 130):
        with start_translation(exported) as process:
            while process.poll() is None and finished_shards() < kept + 4:
                time.sleep(0.002)
            workers = workers_of(process.pid)
            os.kill(workers[0] if target == "worker" else process.pid, stop)
            messages = process.communicate(timeout=60)[1].decode()
        assert workers and process.returncode == code, messages
        assert not Path("out.txt").exists() and kept < finished_shards() < 160
        for worker in workers:
            wait_until(lambda folder=Path(f"/proc/{worker}"): not folder.exists())
        kept = finished_shards()
    with start_translation(exported) as process:
        process.communicate(timeout=60)
    assert Path("out.txt").read_bytes() == Path("expected").read_bytes()
    assert not Path("out.txt.shards").exists()
