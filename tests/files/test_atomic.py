"""Files and folders appear complete or not at all, what is the user's stays, and a folder has one writer."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
import torch
from builders import expect_error

from nmt.errors import UserError
from nmt.files.atomic import (
    LOCK_FILE,
    create_folder,
    lock_folder,
    own_folder,
    replace_file,
    replace_folder,
    write_lines,
)
from nmt.files.checkpoint import write_checkpoint

DISK_FULL = OSError(errno.ENOSPC, "No space left on device")
Write = Callable[[Path], AbstractContextManager[Any]]
replace_marked = partial(replace_folder, mark="about")


def content(folder: Path) -> dict[str, str]:
    """Return the text of every file in ``folder`` by its relative path."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def put(target: Any, text: str) -> None:
    """Write into the new file, or into the file ``about`` of the new folder."""
    if isinstance(target, Path):
        (target / "about").write_text(text)
    else:
        target.write(text.encode())


def write_into(write: Write, path: Path, text: str) -> None:
    with write(path) as target:
        put(target, text)


WRITES = [(replace_file, False), (replace_file, True), (create_folder, False)]
WRITES += [(replace_marked, False), (replace_marked, True)]


@pytest.mark.parametrize("error", [None, DISK_FULL, KeyboardInterrupt(), UserError("no")], ids=repr)
@pytest.mark.parametrize(("write", "exists"), WRITES)
def test_output_is_complete_when_the_block_succeeds_and_else_nothing_changes(
    tmp_path: Path, write: Write, exists: bool, error: BaseException | None
) -> None:
    name = "out" if write is replace_file else "out/about"
    if exists:
        write_into(write, tmp_path / "out", "old")
    before = content(tmp_path)
    raised = UserError if isinstance(error, OSError) else type(error)
    with pytest.raises(raised) if error else nullcontext(), write(tmp_path / "out") as target:
        put(target, "new")
        assert before.items() <= content(tmp_path).items()
        if error:
            raise error
    assert content(tmp_path) == (before if error else {name: "new"})
    assert os.listdir(tmp_path) == (["out"] if exists or not error else [])


@pytest.mark.parametrize(("write", "exists"), WRITES)
def test_what_a_killed_process_leaves_is_no_output_and_is_deleted_by_the_next_holder_of_the_lock(
    tmp_path: Path, write: Write, exists: bool
) -> None:
    if exists:
        write_into(write, tmp_path / "out", "old")
    before = content(tmp_path)
    child = os.fork()
    if child == 0:
        with write(tmp_path / "out") as target:
            put(target, "new")
            os.kill(os.getpid(), SIGKILL)
    os.waitpid(child, 0)
    assert [name for name in os.listdir(tmp_path) if not name.startswith(".")] == (["out"] if exists else [])
    with lock_folder(tmp_path):
        assert content(tmp_path) == {**before, LOCK_FILE: ""}
    write_into(write, tmp_path / "out", "new")
    assert "new" in content(tmp_path).values()


@pytest.mark.parametrize(
    ("write", "name", "key"),
    [
        (replace_file, "folder", "folder"),
        (replace_file, "absent/out", "absent/out"),
        (create_folder, "folder", "output"),
        (create_folder, "link", "output"),
        (create_folder, "file/out", "file"),
        (replace_marked, "file", "file"),
        (replace_marked, "folder", "folder"),
        (own_folder, "folder", "folder"),
        (own_folder, "file", "file"),
        *((write, "n" * 256, "n" * 256) for write in (replace_file, create_folder, replace_marked, own_folder)),
    ],
)
def test_path_that_is_the_users_or_unusable_is_refused_before_the_block_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write, name: str, key: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for file in ("file", "folder/thesis"):
        Path(file).write_text("mine")
    Path("link").symlink_to("absent")
    expect_error(key, write_into, write, Path(name), "new")
    assert content(tmp_path) == {"file": "mine", "folder/thesis": "mine"}


@pytest.mark.parametrize("write", [create_folder, replace_marked, own_folder])
def test_too_many_nested_folders_are_refused(tmp_path: Path, write: Write) -> None:
    with pytest.raises(UserError):
        write_into(write, tmp_path / ("d/" * 1900), "new")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("write", [create_folder, replace_marked])
def test_folder_that_appears_during_the_block_is_kept(tmp_path: Path, write: Write) -> None:
    with pytest.raises(UserError), write(tmp_path / "out") as temporary:
        put(temporary, "new")
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "thesis").write_text("mine")
    assert content(tmp_path) == {"out/thesis": "mine"}


def test_failed_rename_restores_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, rename = tmp_path / "out", os.rename
    write_into(replace_marked, folder, "old")

    def failing(source: Path, target: Path) -> None:
        if source.name == "new":
            raise DISK_FULL
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    expect_error(str(folder), write_into, replace_marked, folder, "new")
    assert content(tmp_path) == {"out/about": "old"}


def test_links_pipes_devices_and_permissions_of_an_output_stay(tmp_path: Path) -> None:
    link, real, pipe = (tmp_path / name for name in ("link", "real", "pipe"))
    link.symlink_to(real)
    for text in ("created", "replaced"):
        write_lines(link, [text])
        assert link.is_symlink() and real.read_text() == f"{text}\n"
        real.chmod(0o640)
    assert real.stat().st_mode & 0o777 == 0o640
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    write_lines(pipe, ["a", "b"])
    reader.join()
    assert received == ["a\nb\n"] and pipe.is_fifo()
    if Path("/dev/full").exists():
        expect_error("/dev/full", write_lines, "/dev/full", ["a"] * 10)
        expect_error("/dev/full", write_checkpoint, Path("/dev/full"), {"a": torch.zeros(100_000)})
        assert not Path("/dev/full").is_file()


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_new_files_and_folders_have_the_usual_permissions(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_lines(tmp_path / "file", [])
        write_into(create_folder, tmp_path / "folder", "new")
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("file", "folder", "folder/about")]
    assert modes == [0o666 & ~mask, 0o777 & ~mask, 0o666 & ~mask]


def test_names_that_are_not_utf8_are_written_with_escapes(tmp_path: Path) -> None:
    write_lines(tmp_path / "out", [os.fsdecode(b"r\xff"), "\u00fc"])
    assert (tmp_path / "out").read_text("utf-8") == "r\\udcff\n\u00fc\n"


def test_broken_pipe_is_left_to_the_command(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), replace_file(tmp_path / "out.txt"):
        raise BrokenPipeError
    assert content(tmp_path) == {}


def test_two_writers_of_one_name_leave_the_output_of_the_last(tmp_path: Path) -> None:
    with replace_marked(tmp_path / "folder") as first, replace_file(tmp_path / "file") as first_file:
        put(first, "first")
        put(first_file, "first")
        for write, name in ((replace_marked, "folder"), (replace_file, "file")):
            write_into(write, tmp_path / name, "second")
        assert content(tmp_path / "folder") == {"about": "second"}
    assert content(tmp_path) == {"folder/about": "first", "file": "first"}


def test_durable_file_is_on_the_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda _: flushed.append((tmp_path / "a").exists()))
    write_lines(tmp_path / "a", ["x"], durable=True)
    write_lines(tmp_path / "a", ["x"])  # a result that can be computed again
    assert flushed == [False]


def test_folder_is_locked_for_other_processes_until_the_block_ends(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from nmt.files.atomic import own_folder\n"
    command = [sys.executable, "-c", f"{program}with own_folder(Path(sys.argv[1])): pass", str(tmp_path / "a")]
    with own_folder(tmp_path / "a"):
        expect_error(str(tmp_path / "a"), write_into, lock_folder, tmp_path / "a", "")
        assert b"UserError" in subprocess.run(command, capture_output=True).stderr
    assert subprocess.run(command).returncode == 0
