"""Files and folders appear complete or not at all, and damage and foreign versions are noticed."""

from __future__ import annotations

import errno
import gzip
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
import torch
from builders import leave_private_folder

from nmt.errors import UserError
from nmt.files.atomic import create_folder, replace_file, replace_folder, write_lines
from nmt.files.checkpoint import read_checkpoint, write_checkpoint
from nmt.files.checksum import archive_fingerprint, checksum, fingerprint, require_format, verify_file
from nmt.files.locks import lock_folder
from nmt.files.private import ABANDONED_S, MARK, delete, private_folder, remove_leftovers
from nmt.inference.shards import open_store
from nmt.text.unfinished import unfinished_folder

DISK_FULL = OSError(errno.ENOSPC, "No space left on device")
ERRORS = [DISK_FULL, KeyboardInterrupt(), UserError("no")]
Write = Callable[[Path], AbstractContextManager[Any]]


def raised(error: BaseException) -> type[BaseException]:
    """Return what the user sees: an OSError becomes a UserError."""
    return UserError if isinstance(error, OSError) else type(error)


def content(folder: Path) -> dict[str, str]:
    """Return the text of every file in ``folder`` by its relative path."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def put(target: Any, text: str) -> None:
    """Write into the new file, or into a file of this name in the new folder."""
    if isinstance(target, Path):
        (target / text).write_text(text)
    else:
        target.write(text.encode())


# Files and folders.


@pytest.mark.parametrize("error", [None, *ERRORS], ids=repr)
@pytest.mark.parametrize(
    ("write", "exists"),
    [
        (replace_file, False),
        (replace_file, True),
        (create_folder, False),
        (replace_folder, False),
        (replace_folder, True),
    ],
)
def test_output_appears_complete_when_the_block_succeeds_and_else_nothing_changes(
    tmp_path: Path, write: Write, exists: bool, error: BaseException | None
) -> None:
    path = tmp_path / "out"

    def written(text: str) -> dict[str, str]:
        return {"out" if write is replace_file else f"out/{text}": text}

    if exists:
        with write(path) as target:
            put(target, "old")
    before = written("old") if exists else {}
    with pytest.raises(raised(error)) if error else nullcontext() as caught, write(path) as target:
        put(target, "new")
        assert path.exists() == exists and before.items() <= content(tmp_path).items()
        if error:
            raise error
    assert content(tmp_path) == (before if error else written("new"))
    assert os.listdir(tmp_path) == (["out"] if exists or not error else [])
    if error is DISK_FULL:
        advice = "free some disk space, or choose another place"
        assert str(caught.value) == f"{path}: cannot write: No space left on device; {advice}"


def marked_folder(path: Path) -> AbstractContextManager[Path]:
    return replace_folder(path, mark="about.json")


@pytest.mark.parametrize(
    ("write", "name", "problem"),
    [
        (replace_file, "folder", "cannot write: Is a directory"),
        (replace_file, "absent/out", "cannot write: No such file or directory; create its folder first"),
        (create_folder, "folder", "already exists; choose another folder$"),
        (create_folder, "file/out", "cannot write: Not a directory"),
        (replace_folder, "file/out", "cannot write: Not a directory"),
        (replace_folder, "file", "not a folder, which would be replaced; remove it$"),
        (replace_folder, "link", "a symbolic link to folder, which would be replaced; remove it$"),
        (marked_folder, "folder", "holds thesis, but no about.json"),
        *(
            (write, name, "cannot write: File name too long")
            for write in (replace_file, create_folder, replace_folder)
            for name in ("n" * 256, "字" * 86, "/".join(["deep"] * 1100))
        ),
    ],
)
def test_unusable_path_is_refused_as_given_before_the_block_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write, name: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("folder", "thesis").write_text("mine")
    Path("link").symlink_to("folder")
    Path("file").write_text("mine")
    with pytest.raises(UserError, match=f"^(output=)?{name}: {problem}"), write(Path(name)):
        pytest.fail("the block ran")
    assert content(tmp_path) == {"folder/thesis": "mine", "file": "mine"}
    assert sorted(os.listdir()) == ["file", "folder", "link"]


def test_a_symbolic_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link, real = tmp_path / "link.txt", tmp_path / "elsewhere" / "real.txt"
    link.symlink_to(real)
    for text in ("created", "replaced"):
        write_lines(link, [text], user_named=True)
        assert link.is_symlink()
        assert real.read_text() == f"{text}\n"
    assert os.listdir(real.parent) == ["real.txt"]


def test_a_pipe_is_written_directly_and_not_replaced(tmp_path: Path) -> None:
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    write_lines(pipe, ["a", "b"], user_named=True)
    reader.join()
    assert received == ["a\nb\n"]
    assert pipe.is_fifo()


def test_a_broken_pipe_is_left_to_the_command(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), replace_file(tmp_path / "out.txt"):
        raise BrokenPipeError
    assert content(tmp_path) == {}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "write",
    [
        lambda device: write_lines(device, ["a"] * 10, user_named=True),
        lambda device: write_checkpoint(device, {"a": torch.zeros(100_000)}),
    ],
)
def test_a_full_device_is_reported(monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]) -> None:
    monkeypatch.setattr("nmt.files.checkpoint.replace_file", partial(replace_file, user_named=True))
    with pytest.raises(UserError, match="/dev/full: cannot write: No space left on device; free some disk space"):
        write(Path("/dev/full"))
    assert not Path("/dev/full").is_file()


def test_lines_are_gzipped_if_the_name_ends_in_gz(tmp_path: Path) -> None:
    lines = ["a", "", "ä\u2028b", "c\r"]
    for name in ("out.txt", "out.txt.gz"):
        write_lines(tmp_path / name, lines)
    expected = "a\n\nä\u2028b\nc\r\n".encode()
    assert (tmp_path / "out.txt").read_bytes() == gzip.decompress((tmp_path / "out.txt.gz").read_bytes()) == expected


def test_a_folder_that_appears_during_the_block_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "output"
    with pytest.raises(UserError, match="cannot write"), create_folder(path) as temporary:
        put(temporary, "mine")
        path.mkdir()
        put(path, "theirs")
    assert content(tmp_path) == {"output/theirs": "theirs"}


@pytest.mark.parametrize("replaced_meanwhile", [False, True])
def test_a_failed_rename_restores_the_old_folder_or_keeps_that_of_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced_meanwhile: bool
) -> None:
    folder, rename = tmp_path / "onnx", os.replace
    with replace_folder(folder) as temporary:
        put(temporary, "old")

    def failing(source: Path, target: Path) -> None:
        if (Path(source) / "new").exists() and replaced_meanwhile:
            folder.mkdir()
            put(folder, "theirs")
        elif (Path(source) / "new").exists():
            raise DISK_FULL
        rename(source, target)

    monkeypatch.setattr(os, "replace", failing)
    message = "another process has replaced it meanwhile; run the command again$"
    if not replaced_meanwhile:
        message = "cannot write: No space left"
    with pytest.raises(UserError, match=f"^{folder}: {message}"), replace_folder(folder) as temporary:
        put(temporary, "new")
    kept = "theirs" if replaced_meanwhile else "old"
    assert content(tmp_path) == {f"onnx/{kept}": kept} and os.listdir(tmp_path) == ["onnx"]


@pytest.fixture(scope="module")
def dead() -> int:
    """Return the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_the_next_write_deletes_what_killed_processes_left(tmp_path: Path, dead: int) -> None:
    old = ABANDONED_S + 60
    abandoned = [
        leave_private_folder(tmp_path, 1, process=dead),
        leave_private_folder(tmp_path, 2, process=1, age_s=old),
    ]
    abandoned += [leave_private_folder(tmp_path, 3, process=dead, host="another", age_s=old)]
    for number, content in ((4, None), (5, b"")):  # killed before the mark was written
        abandoned.append(leave_private_folder(tmp_path, number, process=dead))
        delete(abandoned[-1] / "new")
        delete(abandoned[-1] / MARK)
        if content is not None:
            (abandoned[-1] / MARK).write_bytes(content)
        os.utime(abandoned[-1], (0, time.time() - old))
        if content is not None:
            os.utime(abandoned[-1] / MARK, (0, time.time() - old))
    running = [
        leave_private_folder(tmp_path, 6, process=1),
        leave_private_folder(tmp_path, 7, process=dead, host="another"),
    ]
    write_lines(tmp_path / "out.txt", ["new"])
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "out.txt", *running])
    remove_leftovers(tmp_path, locked=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


NUMBERED = "0123456789abcdef"


@pytest.mark.parametrize(
    "name", [".a.{}.partial", ".a.{}.old.partial", "a.partial", ".out.txt.{}.partial", f".nmt-{NUMBERED}.partial"]
)
@pytest.mark.parametrize("kind", ["file", "folder", "marked", "other mark", "link", "mark is a pipe", "mark is a link"])
def test_files_and_folders_of_the_user_stay(tmp_path: Path, dead: int, name: str, kind: str) -> None:
    """Names alone do not show who wrote a file."""
    mine, mark = tmp_path / name.format(dead), json.dumps({"process": dead, "host": os.uname().nodename})
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis").write_text("mine")
    (tmp_path / "precious" / MARK).write_text(mark)
    if kind == "file":
        mine.write_text(mark)
    elif kind == "link":
        mine.symlink_to(tmp_path / "precious")
    elif kind == "marked" and NUMBERED in name:
        return  # this is what the toolkit leaves
    else:
        mine.mkdir()
        (mine / "thesis").write_text("mine")
        if kind == "marked":
            (mine / MARK).write_text(mark)
        if kind == "other mark":
            (mine / MARK).write_text("{}")
        if kind == "mark is a pipe":
            os.mkfifo(mine / MARK)
        if kind == "mark is a link":
            (mine / MARK).symlink_to(tmp_path / "precious" / MARK)
    for path in (mine, mine / "thesis"):
        if path.exists():
            os.utime(path, (0, 0), follow_symlinks=False)
    write_lines(tmp_path / "out.txt", ["new"])
    with replace_folder(tmp_path / "a"):
        pass
    remove_leftovers(tmp_path, locked=True)
    assert (tmp_path / "precious" / "thesis").read_text() == "mine"
    assert mine.is_file() or (mine / "thesis").read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_leftovers_of_another_user_stay(tmp_path: Path, dead: int) -> None:
    theirs = leave_private_folder(tmp_path, 1, process=dead)
    os.chown(theirs, 12345, 12345)
    write_lines(tmp_path / "out.txt", ["new"])
    assert theirs.exists()


def test_what_a_process_of_another_machine_writes_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dead: int
) -> None:
    """Its number does not exist here, but it holds a lock."""
    with ExitStack() as block:
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: dead)
            inside = block.enter_context(private_folder(tmp_path))
        for name in (MARK, "."):
            os.utime(inside / name, (0, time.time() - ABANDONED_S - 60))
        remove_leftovers(tmp_path, locked=True)
        assert json.loads((inside / MARK).read_text())["process"] == dead
    assert list(tmp_path.iterdir()) == []


def test_two_processes_may_write_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with replace_folder(tmp_path / "onnx") as first, replace_file(tmp_path / "out") as first_file:
        monkeypatch.setattr(os, "getpid", lambda: -1)  # stands for the other process
        with replace_folder(tmp_path / "onnx") as second, replace_file(tmp_path / "out") as second_file:
            for name, text in ((first / "a", "first"), (second / "b", "second")):
                name.write_text(text)
            first_file.write(b"first")
            second_file.write(b"second")
        assert content(tmp_path / "onnx") == {"b": "second"}
        assert (tmp_path / "out").read_text() == "second"
    assert content(tmp_path) == {"onnx/a": "first", "out": "first"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["onnx", "out"]


# Checkpoints.


def test_a_checkpoint_comes_back_and_equal_ones_have_equal_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / "model.pt", tmp_path / "last.ckpt"]
    for number, file in enumerate(files):
        monkeypatch.setattr(os, "getpid", lambda number=number: number)
        write_checkpoint(file, {"format": 1, "weights": {"a": torch.arange(6.0)}, "name": "x"})
    loaded = read_checkpoint(files[0])
    assert loaded.pop("weights")["a"].tolist() == list(range(6)) and loaded == {"format": 1, "name": "x"}
    assert files[0].read_bytes() == files[1].read_bytes()


def test_missing_keys_of_a_checkpoint_are_reported(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "last.ckpt", {"epoch": 1})
    assert read_checkpoint(tmp_path / "last.ckpt", keys={"epoch": int}) == {"epoch": 1}
    for keys in ({"epoch": int, "loops": dict, "callbacks": dict}, {"loops": list}):
        with pytest.raises(UserError, match=r"last\.ckpt: has no valid 'loops'; it is not a checkpoint that nmt-train"):
            read_checkpoint(tmp_path / "last.ckpt", keys=keys)
    with pytest.raises(UserError, match=r"last\.ckpt: has no valid 'epoch'; "):
        read_checkpoint(tmp_path / "last.ckpt", keys={"epoch": str})


def test_durable_files_are_on_the_disk_before_and_after_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    flush, rename = os.fsync, os.replace

    def record_flush(descriptor: int) -> None:
        calls.append(f"flush {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")
        flush(descriptor)

    def record_rename(source: Path, target: Path) -> None:
        calls.append(f"rename {Path(source).name}")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", record_flush)
    monkeypatch.setattr(os, "replace", record_rename)
    for write in (
        lambda: write_lines(tmp_path / "a", ["x"], durable=True),
        lambda: write_checkpoint(tmp_path / "a", {"x": 1}),
    ):
        calls.clear()
        write()
        assert calls == ["flush new", "rename new", f"flush {tmp_path.name}"]
    calls.clear()
    write_lines(tmp_path / "a", ["x"])  # a result that can be computed again
    assert calls == ["rename new"]


class Harmful:
    """An object whose unpickling would run a function."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("harmed",)


def compress(path: Path) -> None:
    """Let a few bytes become gigabytes."""
    with ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def change_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def mark_member_as_folder(path: Path) -> None:
    """Torch can read such a member as other numbers, although the checksums of all members are right."""
    with ZipFile(path) as archive:
        members, start = archive.infolist(), archive.start_dir
    data = bytearray(path.read_bytes())
    for member in members:
        if member.filename.endswith("data/0"):
            break
        start += 46 + len(member.orig_filename.encode()) + len(member.extra) + len(member.comment)
    assert data[start : start + 4] == b"PK\x01\x02"
    data[start + 38] = 0x10  # external attributes
    path.write_bytes(data)


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (compress, r"cannot be read as a model \(its members are compressed or overlap\)"),
        (change_byte, r"cannot be read as a model \(.*: wrong checksum\)"),
        (mark_member_as_folder, r"cannot be read as a model \(it has folders\)"),
        (replace_by_pipe, r"cannot be read as a model \(.*not a regular file"),
        (lambda path: torch.save({"a": Harmful()}, path), "cannot be read as a model"),
        (lambda path: torch.save([1], path), "not a model of this toolkit"),
        *(
            (lambda path, data=data: path.write_bytes(data), "cannot be read as a model .*; it may be truncated")
            for data in (b"", b"nonsense", b"\x80\x02.")  # the last one is an empty pickle
        ),
    ],
)
def test_a_damaged_checkpoint_is_refused_and_runs_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], object], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_checkpoint(tmp_path / "model.pt", {"weights": torch.full((4096,), 1.5)})
    damage(tmp_path / "model.pt")
    with pytest.raises(UserError, match=f"model.pt: {problem}"):
        read_checkpoint(tmp_path / "model.pt")
    assert os.listdir() == ["model.pt"]


# Integrity and format versions.


def test_checksums_find_damage_truncation_and_loss(tmp_path: Path) -> None:
    file = tmp_path / "step.onnx"
    file.write_bytes(bytes(range(256)) * 9000)  # more than one block
    recorded = {"step.onnx": checksum(file)}
    assert verify_file(file, recorded, kind="a graph", fix="export again") == file
    for data in (bytes(range(256)) * 8999, b"", b"x" + bytes(range(1, 256)) + bytes(range(256)) * 8999):
        file.write_bytes(data)
        message = r"step\.onnx: cannot be read as a graph \(wrong checksum\); export again$"
        with pytest.raises(UserError, match=message):
            verify_file(file, recorded, kind="a graph", fix="export again")
    with pytest.raises(UserError, match="wrong checksum"):
        verify_file(file, {}, kind="a graph", fix="export again")
    file.unlink()
    with pytest.raises(UserError, match=r"\(No such file or directory\)"):
        verify_file(file, recorded, kind="a graph", fix="export again")


def test_the_fingerprint_changes_with_every_change_of_a_model(tmp_path: Path) -> None:
    def stored_fingerprint(stored: dict[str, Any]) -> str:
        write_checkpoint(tmp_path / "model.pt", stored)
        return archive_fingerprint(tmp_path / "model.pt")

    large = torch.zeros(1_000_000)  # 4 MB: its first values lie outside the hashed end of the file
    stored = {"weights": large, "format": 1}
    first = stored_fingerprint(stored)
    assert stored_fingerprint(stored) == first
    changed = large.clone()
    changed[0] = 1e-45
    fingerprints = {
        first,
        stored_fingerprint({**stored, "weights": changed}),
        stored_fingerprint({**stored, "format": 2}),
        stored_fingerprint({**stored, "weights": large[:-1].clone()}),
        stored_fingerprint({**stored, "weights": large.view(1000, 1000)}),
        stored_fingerprint({**stored, "more": 0}),
    }
    assert len(fingerprints) == 6


def test_the_fingerprint_changes_with_name_type_shape_value_and_header() -> None:
    tensors = {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([], dtype=torch.int64)}
    reference = fingerprint(b"header", tensors)
    assert fingerprint(b"header", dict(reversed(tensors.items()))) == reference
    strided = torch.tensor([[1.0, 9.0], [2.0, 9.0]])[:, 0]
    assert fingerprint(b"header", {**tensors, "a": strided}) == reference
    others = [
        ({**tensors, "a": torch.tensor([1.0, 2.0000002])}, b"header"),
        ({**tensors, "a": torch.tensor([[1.0, 2.0]])}, b"header"),
        ({**tensors, "a": torch.tensor([1.0, 2.0]).view(torch.int32)}, b"header"),
        ({"c": tensors["a"], "b": tensors["b"]}, b"header"),
        ({"a": tensors["a"]}, b"header"),
        (tensors, b"other"),
    ]
    assert len({reference, *(fingerprint(header, other) for other, header in others)}) == len(others) + 1


@pytest.mark.parametrize(
    ("stored", "problem"),
    [
        *((stored, "format 1, but this version reads format 2; prepare again") for stored in (1, b"1")),
        (3, "format 3, but this version reads format 2; update the toolkit"),
        ("10", "format 10, but this version reads format 2; update the toolkit"),
        *((stored, "no valid format version; prepare again") for stored in (None, b"\xff", -1, True, {})),
    ],
)
def test_other_formats_are_rejected_with_advice(stored: object, problem: str) -> None:
    for supported in (2, "2", b"2"):
        require_format(supported, 2, name="c.arrow", fix="prepare again")
    with pytest.raises(UserError, match=f"^c.arrow: {problem}$"):
        require_format(stored, 2, name="c.arrow", fix="prepare again")


# Locks.


@pytest.mark.parametrize(
    ("opened", "arguments", "busy"),
    [
        (lock_folder, (), "is training into it; wait until it ends"),
        (open_store, ({},), "is writing into it; wait until it ends"),
        (unfinished_folder, (), "is writing it; wait until it ends"),
    ],
)
def test_folder_is_locked_for_other_processes_until_the_block_ends(
    tmp_path: Path, opened: Callable[..., AbstractContextManager[Any]], arguments: tuple[object, ...], busy: str
) -> None:
    program = f"import sys; from pathlib import Path; from {opened.__module__} import {opened.__name__} as opened\n"
    program += f"with opened(Path(sys.argv[1]), *{arguments}): pass"
    command = [sys.executable, "-c", program, str(tmp_path / "out")]
    (tmp_path / "out").mkdir()
    with opened(tmp_path / "out", *arguments):
        refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode and f"process {os.getpid()} {busy}" in refused.stderr
    assert subprocess.run(command).returncode == 0
