"""nmt-translate workers=N: the same files as without, also after workers or the command itself were killed."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from builders import expect_error, write_lines
from commands.processes import start, wait_until
from commands.texts import Call

from nmt.commands import streams
from nmt.commands.translate import translate
from nmt.errors import UserError
from nmt.inference.engines import LoadSettings
from nmt.inference.shards import Done, Shard, TranslateShard, translator_fingerprint
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.system.processes import Failed, attempt

WORDS = "ban gin kor".split()
RANDOM = random.Random(1)
LINES = [" ".join(RANDOM.choices(WORDS, k=RANDOM.randint(0, 4))) for _ in range(160)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()
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
    (tmp_path / "in.txt").write_bytes(TEXT)
    return tmp_path


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, golden_run: Path) -> Path:
    """Folder of a trained model with graphs and a shortlist."""
    return shutil.copytree(golden_run, tmp_path_factory.mktemp("exported") / "run")


def outputs(call: Call, *words: str, stdin: bytes = b"") -> tuple[dict[str, bytes], str]:
    """Run the command; return and delete the files that it wrote, decompressed, and return its messages."""
    before = set(os.listdir())
    error = call(translate, *words, stdin=stdin).error
    files = {}
    for name in set(os.listdir()) - before:
        content = Path(name).read_bytes()
        files[name] = gzip.decompress(content) if name.endswith(".gz") else content
        Path(name).unlink()
    return files, error


@pytest.mark.parametrize(
    ("workers", "size", "engine", "options"),
    [
        pytest.param(
            *(2, 33, "onnx", ["alignments=links", "scores=true", "shortlist=true"]), marks=pytest.mark.thorough
        ),
        (3, 7, "onnx-int8", ["alignments=links.gz", "search.n_best=2", "search.beam_size=3"]),
        pytest.param(
            *(1, 1000, "torch", ["search.temperature=0.8", "search.n_best=2", "search.max_length=5"]),
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_output_and_messages_equal_those_of_a_single_process(
    exported: Path,
    work: Path,
    workers: int,
    size: int,
    engine: str,
    options: list[str],
    monkeypatch: pytest.MonkeyPatch,
    call: Call,
) -> None:
    too_long = "ban " * 30
    write_lines("in.txt", [*LINES[:12], too_long, *LINES[12:150], too_long, *LINES[150:]])
    words = [f"model={exported}", "input=in.txt", "output=out.txt", "threads=1", f"engine={engine}", *options]
    monkeypatch.setattr(streams, "GROUP", size)
    expected = outputs(call, *words)
    refused = [] if engine == "torch" else ["13", "152"]
    assert [line.split(":")[2] for line in expected[1].splitlines() if "warning" in line] == refused
    assert len(expected[0]) == 1 + any("links" in word for word in options)
    assert outputs(call, *words, f"workers={workers}") == expected
    assert sorted(os.listdir()) == ["in.txt"]


@pytest.mark.thorough
def test_piped_and_compressed_text(exported: Path, work: Path, call: Call) -> None:
    (work / "in.txt.gz").write_bytes(gzip.compress(TEXT))
    words = [f"model={exported}", "engine=onnx", "search=greedy"]
    expected = outputs(call, *words, "input=in.txt", "output=out.txt")[0]["out.txt"]
    compressed, _ = outputs(call, *words, "input=in.txt.gz", "output=out.gz", "workers=1")
    piped, _ = outputs(call, *words, "output=out.txt", "workers=1", stdin=TEXT)
    assert (compressed, piped) == ({"out.gz": expected}, {"out.txt": expected})


@pytest.mark.thorough
def test_invalid_text_stops_and_keeps_finished_shards(
    exported: Path, work: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    monkeypatch.setattr(streams, "GROUP", 20)
    (work / "in.txt").write_bytes(TEXT + b"\xff\n")
    words = [f"model={exported}", "input=in.txt", "engine=onnx", "search=greedy"]
    expect_error(
        r"^in.txt:161: invalid UTF-8.*; 8 finished shards kept in out.txt.shards; run",
        translate,
        [*words, "output=out.txt", "workers=1"],
    )
    assert sorted(os.listdir()) == ["in.txt", "out.txt.shards"]
    (work / "in.txt").write_bytes(TEXT)
    error = call(translate, *words, "output=out.txt", "workers=1").error
    assert error == "out.txt.shards: 8 finished shards; continuing\n"
    translate([*words, "output=two.txt"])
    assert (work / "out.txt").read_bytes() == (work / "two.txt").read_bytes()


# Kill -9.


@pytest.fixture(scope="module")
def expected(exported: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The translations of 320 lines."""
    folder = tmp_path_factory.mktemp("expected")
    (folder / "in.txt").write_bytes(TEXT * 2)
    translate([f"model={exported}", "engine=onnx", f"input={folder}/in.txt", f"output={folder}/out.txt"])
    return (folder / "out.txt").read_bytes()


def start_translation(model: Path) -> subprocess.Popen[bytes]:
    """Start the command with two workers and shards of four lines."""
    Path("in.txt").write_bytes(TEXT * 2)
    return start(CODE, [f"model={model}", "engine=onnx", "input=in.txt", "output=out.txt", "workers=2"])


def finished_shards() -> int:
    return len(list(Path("out.txt.shards").glob("*.shard")))


def children(process: int) -> Iterator[int]:
    """Yield the worker processes. The other child of the command tracks resources of the package multiprocessing."""
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                yield int(child)


def wait_for_shards(process: subprocess.Popen[bytes], count: int) -> bool:
    """Wait until that many shards are finished; return False if the command ends before."""
    while process.poll() is None and finished_shards() < count:
        time.sleep(0.002)
    return process.poll() is None


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the workers in /proc")


@pytest.mark.thorough
@needs_proc
@pytest.mark.attack("kill -9 of workers")
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_workers_lose_and_repeat_no_line(exported: Path, work: Path, expected: bytes, kills: int) -> None:
    moments = random.Random(kills)
    killed = 0
    with start_translation(exported) as process:
        while killed < kills and wait_for_shards(process, (killed + 1) * 60 // (kills + 2)):  # of 80
            time.sleep(moments.uniform(0, 0.05))
            if workers := list(children(process.pid)):
                os.kill(moments.choice(workers), signal.SIGKILL)
                killed += 1
        _, messages = process.communicate()
    if b"failed 3 times" in messages:  # the same lines, by chance: a new worker is killed while it starts
        with start_translation(exported) as process:
            process.communicate()
    else:
        assert killed == kills
    assert process.returncode == 0, messages
    assert (work / "out.txt").read_bytes() == expected
    assert sorted(os.listdir()) == ["in.txt", "out.txt"]
    assert b"their worker was killed, probably because memory ran out; trying them again" in messages


@pytest.mark.thorough
@needs_proc
def test_model_that_is_replaced_meanwhile_stops_its_workers(exported: Path) -> None:
    job = TranslateShard(
        model=exported,
        settings=LoadSettings(engine="onnx"),
        search=SearchOptions(beam_size=1),
        scores=False,
        alignments=False,
        fingerprint=translator_fingerprint(Translator.load(exported, engine="onnx"), [exported], None),
        contents={"glossary": None},
    )
    shard = Shard(0, 0, LINES[:2])
    assert isinstance(attempt(job, shard), Done)
    failed = attempt(replace(job, fingerprint="of another model"), shard)
    assert failed == Failed(f"{exported}: the model was replaced while it translated; repeat the command", final=True)


@pytest.mark.thorough
def test_glossary_that_is_edited_meanwhile_stops_its_workers(exported: Path, tmp_path: Path) -> None:
    """Otherwise a part of the text would be translated with the new terms."""
    file = write_lines(tmp_path / "terms.tsv", ["a\tb"])
    job = TranslateShard.of(
        Translator.load(exported, engine="onnx"),
        exported,
        LoadSettings(engine="onnx"),
        search=SearchOptions(beam_size=1, glossary=str(file)),
        scores=False,
        alignments=False,
    )
    shard = Shard(0, 0, LINES[:2])
    assert len(job(shard).output) == 2
    write_lines(file, ["a\tc", "d\te"])
    with pytest.raises(UserError, match=r"^search.glossary=.*/terms.tsv: edited while it translated; restore it"):
        job(shard)


@pytest.mark.thorough
def test_workers_that_are_always_killed_stop_the_command(exported: Path, work: Path) -> None:
    with start_translation(exported) as process:
        assert wait_for_shards(process, 3)
        while process.poll() is None:
            for worker in children(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
            time.sleep(0.01)
        _, messages = process.communicate()
    *_, last = messages.decode().splitlines()
    assert process.returncode == 2 and last.startswith("error: lines ")
    assert "failed 3 times (their worker was killed, probably because memory ran out); give fewer workers=; " in last
    count = finished_shards()
    assert f"{count} finished shards kept in out.txt.shards; run the same command again to continue" in last


@pytest.mark.thorough
@needs_proc
def test_stopped_command_ends_its_workers_and_continues(exported: Path, work: Path, expected: bytes) -> None:
    counts = [0]
    for stop in (signal.SIGKILL, signal.SIGINT):
        with start_translation(exported) as process:
            assert wait_for_shards(process, counts[-1] + 4)
            workers = list(children(process.pid))
            assert not any(b"libtorch" in Path(f"/proc/{worker}/maps").read_bytes() for worker in workers)
            process.send_signal(stop)
            messages = process.communicate(timeout=60)[1].decode()
        assert workers and not Path("out.txt").exists()
        counts.append(finished_shards())
        for worker in workers:
            wait_until(lambda folder=Path(f"/proc/{worker}"): not folder.exists())
    kept = f"{counts[2]} finished shards kept in out.txt.shards; run the same command again to continue"
    before = f"out.txt.shards: {counts[1]} finished shards; continuing"
    assert (process.returncode, messages) == (130, f"{before}\nstopped; {kept}\ninterrupted\n")
    with start_translation(exported) as process:
        messages = process.communicate()[1].decode()
    assert messages == f"out.txt.shards: {counts[2]} finished shards; continuing\n"
    assert (work / "out.txt").read_bytes() == expected and sorted(os.listdir()) == ["in.txt", "out.txt"]
