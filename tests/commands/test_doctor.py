"""nmt-doctor: it describes the machine and a model, and names each condition that slows the toolkit down."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from builders import expect_error
from commands.texts import Call

from nmt import kernels
from nmt.commands import doctor as module
from nmt.commands.doctor import doctor
from nmt.system import machine


@pytest.fixture(autouse=True)
def healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without problems, however the tests are run."""
    healthy = {
        "usable_cores": lambda: 4,
        "allowed_cores": lambda: 4,
        "cpu_quota": lambda: None,
        "available_memory": lambda: 8 * 10**9,
        "instruction_sets": lambda: ["AVX2", "VNNI"],
        "_free": lambda folder: 50.0,
    }
    for name, value in healthy.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module.os, "getloadavg", lambda: (5.0, 0.0, 0.0), raising=False)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 5)  # another program may use the fifth one
    monkeypatch.setattr(torch.version, "cuda", None)  # the tests may run with a CUDA build and no GPU


@pytest.mark.parametrize(
    ("name", "value", "note"),
    [
        ("usable_cores", 1, "OMP_NUM_THREADS=1: 4 cores are allowed"),
        ("cpu_quota", 1.5, "quota=1.5: "),
        ("available_memory", 10**9, "RAM=1.0 GB: "),
        ("instruction_sets", ["AVX2"], "engine=onnx-int8: "),
        ("instruction_sets", [], "processor: has no AVX2"),
        ("_free", 0.5, "disk=0.5 GB"),
        ("installed", None, "torch: not installed"),
        ("getloadavg", (6.0, 1.0, 1.0), "load=6.0: more than the 5 cores of the machine; stop other programs before "),
    ],
)
def test_a_condition_that_slows_the_toolkit_down_is_named(
    name: str, value: object, note: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call(doctor).lines[-1] == "no problems found"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    place = module.os if name == "getloadavg" else module
    monkeypatch.setattr(place, name, lambda *_: value)
    notes = [line for line in call(doctor).lines if line.startswith("note: ")]
    assert notes and all(line.startswith(f"note: {note}") for line in notes)


def test_fast_paths_that_are_off_are_named(call: Call) -> None:
    with kernels.disabled():
        assert "note: NMT_KERNELS=off" in call(doctor).lines[-1]


def test_a_cuda_build_without_a_gpu_is_named(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "finds no GPU" in call(doctor).lines[-1]


def test_a_model_and_its_engines_are_described(model: Path, deployment: Path, call: Call) -> None:
    lines = call(doctor, f"model={model}").lines
    assert any(line.split() == ["engines", "torch"] for line in lines) and sum("onnx" in line for line in lines) >= 2
    lines = call(doctor, f"model={deployment}").lines
    assert any(line.split() == ["engines", "onnx"] for line in lines)
    assert any(line.startswith(f"note: model={deployment}: ") for line in lines)  # no torch model
    expect_error("^model=missing: no such folder; ", call, doctor, "model=missing")


def test_size_is_that_of_the_trained_file(tmp_path: Path, call: Call) -> None:
    for name, size in (("curve.png", 700_000), ("adapter.safetensors", 300_000)):
        (tmp_path / name).write_bytes(bytes(size))
    assert any("attention, 0.3 MB" in line for line in call(doctor, f"model={tmp_path}").lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model name\t: A\nflags\t\t: fpu avx2 avx512f avx512_vnni avx_vnni\n", ["AVX2", "AVX-512", "VNNI"]),
        ("Features\t: fp asimd asimddp\n", ["NEON", "dot products"]),
        ("flags\t\t: fpu sse2\n", []),
        ("", None),
    ],
)
def test_instruction_sets_are_read_by_name(
    text: str, expected: list[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(text)
    monkeypatch.setattr(machine, "CPUINFO", file)
    assert machine.instruction_sets() == expected
    assert machine.processor_name() == "A" or "model name" not in text
