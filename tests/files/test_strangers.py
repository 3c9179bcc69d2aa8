"""A stranger who can write into the folder of an output redirects no write and loses the user no file."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt.config.compose import train_config
from nmt.config.runs import new_folder, run_to_resume
from nmt.errors import UserError
from nmt.files.atomic import (
    create_folder,
    make_folder,
    open_regular_to_write,
    replace_file,
    replace_folder,
    write_bytes,
    write_lines,
)
from nmt.files.locks import LOCK_FILE, lock_folder, own_folder, require_own
from nmt.files.private import NAME
from nmt.files.reading import MAX_DEPTH
from nmt.inference.run_files import CHECKPOINTS, LAST_CHECKPOINT
from nmt.inference.shards import open_store
from nmt.text.unfinished import unfinished_folder

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has other links")
attack_names = pytest.mark.attack("a stranger's temporary names")
attack_links = pytest.mark.attack("a stranger's links")
attack_folders = pytest.mark.attack("a stranger's folders")


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """Return a file of the user outside the folder ``shared``, in which the stranger can write."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "home").mkdir()
    file = tmp_path / "home" / "thesis"
    file.write_text("mine")
    return file


@attack_names
def test_names_of_temporary_files_cannot_be_predicted(tmp_path: Path) -> None:
    names = set()
    for _ in range(20):
        with replace_file(tmp_path / "out"):
            (name,) = os.listdir(tmp_path) if not names else set(os.listdir(tmp_path)) - {"out"}
            assert NAME.fullmatch(name) and os.stat(tmp_path / name).st_mode & 0o777 == 0o700
            names.add(name)
    assert len(names) == 20


def swapped(shared: Path, replacement: Callable[[Path], None]) -> None:
    """Do what a stranger does during a write: rename the private folder and put something else in its place."""
    for entry in [entry for entry in shared.iterdir() if NAME.fullmatch(entry.name)]:
        os.rename(entry, shared / f"{entry.name}.moved")
        replacement(entry)


@attack_names
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("kind", ["link", "folder with links", "folder of the user"])
@pytest.mark.parametrize("write", [replace_file, create_folder, replace_folder])
def test_private_folder_that_is_swapped_during_the_write(
    precious: Path, tmp_path: Path, kind: str, write: Callable[..., object]
) -> None:
    """The write goes to our folder, and what stands in its place is neither written nor deleted."""
    shared, home = tmp_path / "shared", precious.parent

    def replacement(path: Path) -> None:
        if kind == "link":
            path.symlink_to(home)
        elif kind == "folder with links":
            (path / "new").mkdir(parents=True)
            (path / "new" / "thesis").symlink_to(precious)
        else:
            os.rename(home, path)

    with write(shared / "out") as target:  # type: ignore[attr-defined]
        swapped(shared, replacement)
        if isinstance(target, Path):
            (target / "thesis").write_text("new")
        else:
            target.write(b"new")
    written = shared / "out" if write is replace_file else shared / "out" / "thesis"
    assert written.read_text() == "new"
    thesis = precious if precious.exists() else next(shared.glob(".nmt-*.partial/thesis"))
    assert thesis.read_text() == "mine"


@attack_names
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_thread_that_swaps_names_all_the_time(precious: Path, tmp_path: Path) -> None:
    shared, ended = tmp_path / "shared", threading.Event()

    def swap() -> None:
        while not ended.is_set():
            for entry in os.listdir(shared):
                if NAME.fullmatch(entry):
                    try:
                        os.rename(shared / entry, shared / f"{entry}.moved")
                        os.symlink(precious.parent, shared / entry)
                    except OSError:
                        continue

    stranger = threading.Thread(target=swap)
    stranger.start()
    try:
        for number in range(100):
            with suppress(UserError):  # swapped before it was opened
                write_lines(shared / "thesis", [f"{number}"])
                assert (shared / "thesis").read_text() == f"{number}\n"
            with suppress(UserError), replace_folder(shared / "folder") as folder:
                (folder / "thesis").write_text("new")
    finally:
        ended.set()
        stranger.join()
    assert precious.read_text() == "mine" and os.listdir(precious.parent) == ["thesis"]


PLANTED = ["link", "dangling link", "loop", "pipe", "folder"]


def plant(path: Path, kind: str, victim: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"link": victim, "dangling link": victim.with_name("absent"), "loop": path}[kind])


@attack_links
@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize(
    "write", [lambda path: write_lines(path, ["new"]), lambda path: write_bytes(path, b"new"), open_regular_to_write]
)
def test_own_files_are_not_written_through_what_a_stranger_planted(
    precious: Path, tmp_path: Path, kind: str, write: Callable[[Path], object]
) -> None:
    plant(tmp_path / "shared" / "metrics.csv", kind, precious)
    with pytest.raises((UserError, OSError)):
        write(tmp_path / "shared" / "metrics.csv")
    assert os.listdir(precious.parent) == ["thesis"] and precious.read_text() == "mine"


@pytest.mark.parametrize("name", ["loop", "dangling", "file", "loop/x", "dangling/x", "file/x"])
def test_what_is_in_the_place_of_a_folder_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("absent")
    (tmp_path / "file").touch()
    place = {
        "loop": "loop: a symbolic link to loop, which is not a folder",
        "dangling": "dangling: a symbolic link to absent, which is not a folder",
        "file": "file: is not a folder",
    }[name.partition("/")[0]]

    for make in (make_folder, lambda folder: new_folder(folder, "mine")):
        with pytest.raises(UserError, match=f"{place}; remove it, or choose another place$"):
            make(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["dangling", "file", "loop"]


@pytest.mark.parametrize("name", ["n" * 255, "字" * 85])
def test_longest_names_are_written(tmp_path: Path, name: str) -> None:
    write_lines(tmp_path / name, ["new"], user_named=True)
    assert (tmp_path / name).read_text() == "new\n"
    with create_folder(tmp_path / "f" / name) as folder:
        (folder / name).write_text("new")
    assert (tmp_path / "f" / name / name).read_text() == "new"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_replaced_file_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    (tmp_path / "out").write_text("old")
    (tmp_path / "out").chmod(mode)
    write_lines(tmp_path / "out", ["new"], user_named=True)
    assert (tmp_path / "out").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
def test_new_files_and_folders_have_the_usual_permissions(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_lines(tmp_path / "file", ["new"])
        for write in (create_folder, replace_folder):
            with write(tmp_path / write.__name__):
                pass
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666 & ~mask
    for name in ("create_folder", "replace_folder"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o777 & ~mask


# Folders in which commands continue.

OPEN = {"busy": "is busy", "fix": "choose another output="}


def test_folder_is_continued(tmp_path: Path) -> None:
    for _ in range(2):
        with own_folder(tmp_path / "new", **OPEN):  # type: ignore[arg-type]
            (tmp_path / "new" / "a").write_text("ours")


@attack_folders
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(name=st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20))
def test_folder_of_the_user_stays_whatever_it_holds(tmp_path: Path, name: str) -> None:
    if name in (".", "..", LOCK_FILE):
        return
    shutil.rmtree(tmp_path / "mine", ignore_errors=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text("mine")
    with pytest.raises(UserError, match="which this command has not written"), own_folder(tmp_path / "mine", **OPEN):  # type: ignore[arg-type]
        pytest.fail("the block ran")
    assert os.listdir(tmp_path / "mine") == [name]


@attack_folders
@pytest.mark.parametrize("content", ["apples\n", "12 apples", "1" * 30, "\n\n"])
def test_lock_file_of_something_else_stays(tmp_path: Path, content: str) -> None:
    (tmp_path / LOCK_FILE).write_text(content)
    with pytest.raises(UserError, match="not a lock of this toolkit"), lock_folder(tmp_path, busy="is busy"):
        pytest.fail("the block ran")
    assert (tmp_path / LOCK_FILE).read_text() == content


@attack_links
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_lock_that_a_stranger_planted(precious: Path, tmp_path: Path, kind: str) -> None:
    plant(tmp_path / "shared" / LOCK_FILE, kind, precious)
    with pytest.raises((UserError, OSError)), own_folder(tmp_path / "shared", **OPEN):  # type: ignore[arg-type]
        pytest.fail("the block ran")
    assert precious.read_text() == "mine"


def resume(run: Path) -> AbstractContextManager[None]:
    (run / CHECKPOINTS).mkdir(exist_ok=True)
    (run / CHECKPOINTS / LAST_CHECKPOINT).touch()
    return nullcontext(run_to_resume(run, [], train_config([]).training))


@attack_links
@pytest.mark.parametrize("kind", ["link", "dangling link", "loop"])
@pytest.mark.parametrize(
    ("place", "name", "opened"),
    [
        ("out.shards", "settings.json", lambda folder: open_store(folder, {})),
        ("out.shards", "000001.shard", lambda folder: open_store(folder, {})),
        ("out.partial", "train.arrow", lambda folder: unfinished_folder(folder.with_suffix(""))),
        ("out.partial", "progress/000001.json", lambda folder: unfinished_folder(folder.with_suffix(""))),
        ("comparison", "report.html", own_folder),
        ("sweep", "seed=1/job.json", own_folder),
        ("sweep", "seed=1.log", own_folder),
        ("run", f"{CHECKPOINTS}/epoch-1.ckpt", resume),
        ("run", "metrics.csv", resume),
        ("run", "tensorboard/events", resume),
    ],
)
def test_links_where_a_command_continues(
    precious: Path,
    tmp_path: Path,
    place: str,
    name: str,
    kind: str,
    opened: Callable[[Path], AbstractContextManager[object]],
) -> None:
    folder = tmp_path / "shared" / place
    plant(folder / name, kind, precious)
    (folder / LOCK_FILE).touch()
    with pytest.raises(UserError, match="a symbolic link inside a result folder"), opened(folder):
        pytest.fail("the block ran")
    assert os.listdir(precious.parent) == ["thesis"] and precious.read_text() == "mine"
    assert (folder / name).is_symlink()


@attack_folders
def test_thousands_of_nested_folders_are_one_error(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).touch()
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        for _ in range(1500):
            os.mkdir("d")
            os.chdir("d")
        with pytest.raises(UserError, match=f"more than {MAX_DEPTH} nested folders"):
            require_own(tmp_path, fix="choose another name=")
    finally:
        for _ in range(1500):
            os.chdir("..")
            os.rmdir("d")
        os.chdir(here)


def test_only_names_that_the_command_writes_count(precious: Path, tmp_path: Path) -> None:
    names, shared = re.compile(r"[0-9]{4}\.png"), tmp_path / "shared"
    (shared / "notes").symlink_to(precious)
    require_own(shared, fix="", names=names)
    (shared / "0001.png").write_text("a photo")
    with pytest.raises(UserError, match=r"holds 0001\.png, which this command has not written"):
        require_own(shared, fix="", names=names)
    (shared / LOCK_FILE).touch()
    require_own(shared, fix="", names=names)
    (shared / "0002.png").symlink_to(precious)
    with pytest.raises(UserError, match=r"0002\.png: a symbolic link"):
        require_own(shared, fix="", names=names)


@attack_links
@pytest.mark.parametrize(
    ("name", "opened"),
    [
        ("out.shards", lambda folder: open_store(folder, {})),
        ("out.partial", lambda folder: unfinished_folder(folder.with_suffix(""))),
    ],
)
def test_link_in_place_of_a_folder_whose_name_is_derived(
    precious: Path, tmp_path: Path, name: str, opened: Callable[[Path], AbstractContextManager[object]]
) -> None:
    (tmp_path / name).symlink_to(precious.parent)
    with pytest.raises(UserError, match=rf"{name}: a symbolic link to {precious.parent}; remove it"):  # noqa: SIM117
        with opened(tmp_path / name):
            pytest.fail("the block ran")
    assert (tmp_path / name).is_symlink()


@attack_folders
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give folders away")
def test_folder_of_a_stranger_beside_the_output(tmp_path: Path) -> None:
    (tmp_path / "out.shards").mkdir()
    (tmp_path / "out.shards" / LOCK_FILE).touch()
    require_own(tmp_path / "out.shards", fix="", derived=True)
    os.chown(tmp_path / "out.shards", 12345, 12345)
    with pytest.raises(UserError, match=r"out\.shards: belongs to another user"):
        require_own(tmp_path / "out.shards", fix="", derived=True)


@attack_names
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_folder_of_the_user_that_is_swapped_in_before_ours_is_opened(
    precious: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """Its content is not deleted as that of a temporary folder."""
    shared, create = tmp_path / "shared", os.mkdir
    precious.parent.chmod(mode)

    def mkdir(path: Path, *arguments: int) -> None:
        create(path, *arguments)
        os.rmdir(path)
        os.rename(precious.parent, path)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(UserError, match="another process has replaced the temporary folder"):
        write_lines(shared / "out", ["new"])
    (thesis,) = shared.glob(".nmt-*.partial/*")
    assert thesis.read_text() == "mine"


@attack_names
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give folders away")
def test_folder_of_a_stranger_that_is_swapped_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = os.mkdir

    def mkdir(path: Path, *arguments: int) -> None:
        create(path, *arguments)
        os.chown(path, 12345, 12345)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(UserError, match="another process has replaced the temporary folder"):
        write_lines(tmp_path / "out", ["new"])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("change", ["deleted", "moved", "replaced"])
def test_folder_that_is_deleted_during_the_work_is_an_error(tmp_path: Path, change: str) -> None:
    folder = tmp_path / "run"
    with pytest.raises(UserError, match="run: was deleted or moved while this command wrote into it"):  # noqa: SIM117
        with own_folder(folder, **OPEN):  # type: ignore[arg-type]
            os.rename(folder, tmp_path / "moved") if change == "moved" else shutil.rmtree(folder)
            if change == "replaced":
                folder.mkdir()
                (folder / LOCK_FILE).touch()
