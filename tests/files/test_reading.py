"""Files of a stranger's folder cannot make the reader wait, run out of memory, or write elsewhere."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

import pytest

from nmt.errors import UserError
from nmt.files.checksum import archive_fingerprint, checksum
from nmt.files.reading import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_VALUES,
    check_members,
    open_regular,
    read_json,
    read_text,
    refuse_links,
    require_plain,
    require_regular,
)


@pytest.mark.parametrize("read", [open_regular, require_regular, read_text, read_json, checksum, archive_fingerprint])
def test_only_regular_files_are_opened(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for place in (tmp_path / "pipe", tmp_path / "link"):
        with pytest.raises(OSError, match="not a regular file"):
            read(place)
    with pytest.raises(OSError):
        read(tmp_path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "absent")


def test_json_comes_back(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None, True, "ä"], "b": {"c": -(2**63)}}
    (tmp_path / "a.json").write_text(json.dumps(value))
    assert read_json(tmp_path / "a.json") == value


@pytest.mark.parametrize(
    "text",
    [
        *(b"[" * 100_000, b'{"a":' * 30_000, b"[" * 40 + b"]" * 40, b"[", b"", b"\xff", b"{'a': 1}"),
        *(b'"' + b"x" * MAX_BYTES + b'"', b"1" * 5000, b"1" * 21, b"[" + b"0," * 60_000 + b"0]"),
    ],
    ids=lambda text: str(text[:6]),
)
def test_damaged_json_raises_value_error_at_once(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a.json").write_bytes(text)
    started = time.process_time()
    with pytest.raises(ValueError):
        read_json(tmp_path / "a.json")
    assert time.process_time() - started < 1


def bomb() -> Any:
    value: Any = "x"
    for _ in range(30):  # 2³⁰ values in 30 lists
        value = [value, value]
    return value


def cycle() -> Any:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


def nested(levels: int) -> Any:
    return [nested(levels - 1)] if levels else []


@pytest.mark.parametrize(
    "value",
    [
        *(bomb(), cycle(), nested(MAX_DEPTH + 1), [0] * MAX_VALUES, 2**64, [-(2**64)]),
        *(b"x", {1, 2}, (1, 2), {"a": b"x"}, {(1, 2): 3}, object()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_that_are_not_plain_are_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        require_plain(value)


@pytest.mark.parametrize("value", [nested(MAX_DEPTH), [0] * (MAX_VALUES - 1), 2**64 - 1, {"a": [1.0, None, True, "x"]}])
def test_plain_values_are_accepted(value: Any) -> None:
    assert require_plain(value) is value


@pytest.mark.parametrize("name", ["metrics.csv", "checkpoints", "tensorboard/events", "deep/er/a"])
@pytest.mark.parametrize("target", ["../victim", "absent", "."])
def test_every_link_inside_a_run_is_refused(tmp_path: Path, name: str, target: str) -> None:
    run = tmp_path / "run"
    (run / "checkpoints2").mkdir(parents=True)
    (run / "model.pt").write_text("model")
    (tmp_path / "alias").symlink_to(run)
    refuse_links(run)
    refuse_links(tmp_path / "alias")  # the user chose this name
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).symlink_to(target)
    for folder in (run, tmp_path / "alias"):
        message = rf"^{folder / name}: a symbolic link inside a result folder; replace it with a copy of {target}$"
        with pytest.raises(UserError, match=message):
            refuse_links(folder)


def test_archives_that_grow_are_refused(tmp_path: Path) -> None:
    for kind in (ZIP_STORED, ZIP_DEFLATED):
        with ZipFile(tmp_path / "a.zip", "w", kind) as archive:
            archive.writestr("a", bytes(100_000))
        with ZipFile(tmp_path / "a.zip") as archive:
            if kind == ZIP_STORED:
                check_members(archive, tmp_path / "a.zip")
                archive.filelist.append(archive.filelist[0])  # two members in the same place
            with pytest.raises(BadZipFile):
                check_members(archive, tmp_path / "a.zip")
