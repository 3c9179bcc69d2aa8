"""Files from a stranger or a damaged disk are refused at once, and run no code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
import torch
from builders import expect_error

from nmt.files.atomic import load_record, save_record
from nmt.files.checkpoint import read_checkpoint, write_checkpoint
from nmt.files.checksum import (
    archive_fingerprint,
    changed_names,
    checksum,
    code_of,
    fingerprint,
    require_format,
    stored_code,
    verify_file,
)
from nmt.files.reading import MAX_BYTES, MAX_DEPTH, MAX_VALUES, read_json, read_text, require_plain


@pytest.mark.parametrize("read", [read_text, read_json, checksum, archive_fingerprint])
def test_only_regular_files_are_opened(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for name in ("pipe", "link", "", "absent"):
        with pytest.raises(OSError):
            read(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    [
        *(b"[" * 100_000, b'{"a":' * 30_000, b"[" * 40 + b"]" * 40, b"[", b"", b"\xff", b"{'a': 1}"),
        *(b'"' + b"x" * MAX_BYTES + b'"', b"1" * 5000, b"1" * 21, b"[" + b"0," * 60_000 + b"0]"),
    ],
    ids=lambda text: str(text[:6]),
)
def test_damaged_json_raises_value_error(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a.json").write_bytes(text)
    with pytest.raises(ValueError):
        read_json(tmp_path / "a.json")


def nested(levels: int, copies: int = 1) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value] * copies
    return value


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE
NOT_PLAIN = [nested(30, copies=2), CYCLE, nested(MAX_DEPTH + 1), [0] * MAX_VALUES, 2**64, b"x", (1, 2), {(1, 2): 3}]


def test_plain_values_are_bounded(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None, True, "ä"], "b": {"c": -(2**63)}}
    (tmp_path / "a.json").write_text(json.dumps(value))
    assert read_json(tmp_path / "a.json") == value
    for accepted in (nested(MAX_DEPTH), [0] * (MAX_VALUES - 1), 2**64 - 1):
        assert require_plain(accepted) is accepted
    for refused in NOT_PLAIN:
        with pytest.raises(ValueError):
            require_plain(refused)


def test_records_are_missing_if_they_are_damaged_or_of_another_key(tmp_path: Path) -> None:
    file = tmp_path / "records" / "a"
    save_record(file, ["key", 1], {"x": [1, 2]})
    assert load_record(file, ("key", 1)) == {"x": [1, 2]}
    assert load_record(file, ["key", 2]) is None and load_record(tmp_path / "b", ["key", 1]) is None
    file.write_bytes(file.read_bytes().replace(b"2]", b"3]"))
    assert load_record(file, ["key", 1]) is None


# Checkpoints.


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


@pytest.mark.parametrize(
    "damage",
    [
        compress,
        change_byte,
        mark_member_as_folder,
        lambda path: torch.save({"a": Harmful()}, path),
        lambda path: torch.save([1], path),
        lambda path: path.write_bytes(b"nonsense"),
        lambda path: path.write_bytes(b"\x80\x02."),  # an empty pickle
        lambda path: write_checkpoint(path, {"weights": 1}),
        os.unlink,
    ],
)
def test_damaged_checkpoint_is_refused_and_runs_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], object]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_checkpoint(Path("model.pt"), {"weights": torch.full((4096,), 1.5)})
    read_checkpoint(Path("model.pt"), keys={"weights": torch.Tensor})
    damage(Path("model.pt"))
    expect_error("model.pt", read_checkpoint, Path("model.pt"), keys={"weights": torch.Tensor})
    assert os.listdir() in (["model.pt"], [])


def test_equal_checkpoints_have_equal_bytes(tmp_path: Path) -> None:
    stored = {"format": 1, "weights": {"a": torch.arange(6.0)}, "name": "x"}
    for name in ("model.pt", "last.ckpt"):
        write_checkpoint(tmp_path / name, stored)
    assert str(read_checkpoint(tmp_path / "model.pt")) == str(stored)
    assert (tmp_path / "model.pt").read_bytes() == (tmp_path / "last.ckpt").read_bytes()


# Checksums, fingerprints and format versions.


def test_checksums_find_damage_truncation_and_loss(tmp_path: Path) -> None:
    file, data = tmp_path / "step.onnx", bytes(range(256)) * 9000  # more than one block
    file.write_bytes(data)
    recorded = {"step.onnx": checksum(file)}
    assert verify_file(file, recorded, kind="a graph", fix="export again") == file
    expect_error(str(file), verify_file, file, {}, kind="a graph", fix="export again")
    for damaged in (data[:-256], b"", b"x" + data[1:]):
        file.write_bytes(damaged)
        expect_error(str(file), verify_file, file, recorded, kind="a graph", fix="export again")
    file.unlink()
    expect_error(str(file), verify_file, file, recorded, kind="a graph", fix="export again")


def test_fingerprint_changes_with_name_type_shape_value_and_header(tmp_path: Path) -> None:
    def stored(tensors: dict[str, torch.Tensor], header: bytes) -> str:
        write_checkpoint(tmp_path / "model.pt", {"header": header.decode(), **tensors})
        return archive_fingerprint(tmp_path / "model.pt")

    large = torch.zeros(400_000)  # 1.6 MB: its first values lie outside the hashed end of the file
    changed = large.clone()
    changed[0] = 1e-45
    others = [
        ({"a": large}, b"header"),
        ({"a": changed}, b"header"),
        ({"a": large.view(1000, 400)}, b"header"),
        ({"a": large.view(torch.int32)}, b"header"),
        ({"b": large}, b"header"),
        ({"a": large}, b"other"),
    ]
    for function in (lambda tensors, header: fingerprint(header, tensors), stored):
        assert len({function(*arguments) for arguments in others}) == len(others)
        assert function(*others[0]) == function({"a": large.clone()}, b"header")
    strided = torch.stack([large, large + 1], dim=1)[:, 0]
    assert fingerprint(b"", {"a": strided, "b": large}) == fingerprint(b"", {"b": large, "a": large})


@pytest.mark.parametrize("stored", [1, 3, "10", b"1", None, b"\xff", -1, True, {}])
def test_other_formats_are_refused(stored: object) -> None:
    for supported in (2, "2", b"2"):
        require_format(supported, 2, name="c.arrow", fix="prepare again")
    expect_error("c.arrow", require_format, stored, 2, name="c.arrow", fix="prepare again")


def test_edited_module_of_a_trusted_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mine.attention", "other"):
        module = ModuleType(name)
        module.__file__ = str(tmp_path / f"{name}.py")
        Path(module.__file__).write_text("")
        monkeypatch.setitem(sys.modules, name, module)
    config = {"trust": ["mine"], "a": {"_target_": "other.A", "inner": {"_target_": "mine.attention.B"}}}
    (tmp_path / "code.json").write_text(json.dumps(code_of(config)))
    stored = stored_code(tmp_path / "code.json")
    assert [*stored] == ["nmt", "mine.attention"] and changed_names(stored, code_of(config)) == []
    (tmp_path / "mine.attention.py").write_text("edited = True\n")
    assert code_of(config) == stored  # the code that this process has imported
    sys.modules["mine.attention"].__spec__ = ModuleSpec("mine.attention", None)  # as importlib.reload
    assert changed_names({**stored, "nmt": "0"}, code_of(config)) == ["mine.attention", "nmt"]
    for damaged in ("[3]", "{"):
        (tmp_path / "code.json").write_text(damaged)
        assert stored_code(tmp_path / "code.json") == {}
