"""nmt-doctor: describe this installation and machine, and say what would be slow."""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from nmt.commands.options import command
from nmt.errors import UserError, counted, reason
from nmt.inference.engines import GRAPH_SUFFIX, LoadSettings
from nmt.inference.run_files import ADAPTER, MODEL_FILE
from nmt.system.machine import (
    allowed_cores,
    available_memory,
    cpu_quota,
    installed,
    instruction_sets,
    peak_memory_mb,
    processor_name,
    usable_cores,
)

HELP = """nmt-doctor: describe this installation and machine, and say what would be slow or fail, and why.

  nmt-doctor
  nmt-doctor model=runs/demo                 also: which engines can run this model

Add its output to a report of a problem. It names no file except those of the model."""

PACKAGE = "nmt-memory-attention"
LIBRARIES = ("torch", "onnxruntime", "pytorch-lightning", "sentencepiece", "numpy")
EXTRA = re.compile(r"""([\w.-]+).*; extra == ['"]([\w-]+)['"]""")
"""A requirement of an extra, as the metadata of a package has it: its name, and that of the extra."""
GIGABYTE = 10**9
LITTLE_RAM = 2 * GIGABYTE
"""Training the default model takes 1.3 GB."""
LITTLE_DISK = GIGABYTE
"""A run of the default model takes 0.2 GB, checkpoints included."""


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """The settings in conf/doctor.yaml."""

    model: str | None


@command(HELP, DoctorOptions)
def doctor(options: DoctorOptions) -> None:
    """Print one line for each property, then one for each problem."""
    report = [*_versions(), *_machine(), *_kernels()]
    problems = [*_slow_settings(), *_slow_processor(), *_scarce(), *_slow_kernels()]
    if options.model is not None:
        report += _model(options.model, problems)
    width = max(len(name) for name, _ in report)
    for name, value in report:
        print(f"{name:<{width}}  {value}")
    print()
    for problem in problems:
        print(f"note: {problem}")
    if not problems:
        print("no problems found")


def _versions() -> Iterator[tuple[str, str]]:
    yield "toolkit", f"{PACKAGE} {import_module('nmt').__version__}"
    yield "system", f"Python {platform.python_version()}, {platform.system()} {platform.release()}"
    yield "libraries", ", ".join(f"{name} {installed(name) or 'not installed'}" for name in LIBRARIES)
    extras = _extras()
    yield "extras", ", ".join(name for name, complete in extras.items() if complete) or "none"
    yield "other extras", ", ".join(name for name, complete in extras.items() if not complete) or "none"


def _extras() -> dict[str, bool]:
    """Return for each extra of the package whether everything that it needs is installed."""
    complete = dict[str, bool]()
    try:
        requirements = requires(PACKAGE) or []
    except PackageNotFoundError:  # a copy of the source that was not installed
        return {}
    for requirement in requirements:
        if match := EXTRA.fullmatch(requirement):
            complete[match[2]] = complete.get(match[2], True) and installed(match[1]) is not None
    return complete


def _machine() -> Iterator[tuple[str, str]]:
    sets = instruction_sets()
    yield "processor", processor_name() + (f" ({', '.join(sets)})" if sets else "")
    quota = cpu_quota()
    limit = "" if quota is None else f", quota {quota:g}"
    yield "cores", f"{usable_cores()} used, {allowed_cores()} allowed, {os.cpu_count()} in the machine{limit}"
    memory = available_memory()
    yield "RAM", ("unknown" if memory is None else f"{memory / GIGABYTE:.1f} GB available")
    yield "disk", f"{_free('.'):.1f} GB here, {_free(tempfile.gettempdir()):.1f} GB for temporary files"


def _free(folder: str) -> float:
    return shutil.disk_usage(folder).free / GIGABYTE


def _kernels() -> Iterator[tuple[str, str]]:
    """Describe the GPUs that torch finds, and whether the fast paths of the CPU are on."""
    if installed("torch") is None:
        return
    import torch

    from nmt import kernels

    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    yield "GPU", ", ".join(names) or "none"
    yield "fast paths", "on" if kernels.enabled() else "off"


def _slow_settings() -> Iterator[str]:
    threads = os.environ.get("OMP_NUM_THREADS")
    quota = cpu_quota()
    if quota is not None and quota < allowed_cores():
        yield f"quota={quota:g}: a container or service limits the CPU time; raise it, or expect its share of the speed"
    elif usable_cores() < allowed_cores():
        yield f"OMP_NUM_THREADS={threads}: {allowed_cores()} cores are allowed; unset it to use all"
    cores = os.cpu_count() or allowed_cores()  # the load is that of the whole machine
    if hasattr(os, "getloadavg") and (load := os.getloadavg()[0]) > cores + 0.5:
        all_cores = f"more than the {counted(cores, 'core')} of the machine"
        yield f"load={load:.1f}: {all_cores}; stop other programs before you time anything"


def _slow_processor() -> Iterator[str]:
    sets = instruction_sets()
    if sets is None:
        return
    if not {"AVX2", "NEON"} & set(sets):
        yield "processor: has no AVX2; products take several times as long, and another machine is the only fix"
    elif not {"VNNI", "dot products"} & set(sets):
        yield "engine=onnx-int8: the processor cannot add products of bytes at once; compare it with engine=onnx"


def _scarce() -> Iterator[str]:
    memory = available_memory()
    if memory is not None and memory < LITTLE_RAM:
        yield f"RAM={memory / GIGABYTE:.1f} GB: training needs more; stop other programs, or lower batches.max_tokens"
    for folder in (".", tempfile.gettempdir()):
        if _free(folder) * GIGABYTE < LITTLE_DISK:
            yield f"disk={_free(folder):.1f} GB in {folder}: a run may not fit; delete files, or use another disk"


def _slow_kernels() -> Iterator[str]:
    if installed("torch") is None:
        yield "torch: not installed; only exported models translate, and nothing trains"
        return
    import torch

    from nmt import kernels
    from nmt.kernels.operators import can_differentiate, can_multiply, can_pack

    if not kernels.enabled():
        yield "NMT_KERNELS=off: training takes longer; unset it to use the fast paths"
    elif not (can_multiply(torch.float32) and can_pack(torch.float32) and can_differentiate()):
        fix = "install the version that constraints.txt names"
        yield f"torch {torch.__version__}: its private operators have changed, so plain code replaces fast paths; {fix}"
    if torch.version.cuda and not torch.cuda.is_available():
        yield f"torch {torch.__version__}: finds no GPU; check the driver, or install the smaller CPU build"


def _model(folder: str, problems: list[str]) -> Iterator[tuple[str, str]]:
    """Describe the model of ``folder``, and add to ``problems`` the reason for each engine that cannot run it."""
    from nmt.inference.load import load

    if not Path(folder).is_dir():
        raise UserError(f"model={folder}: no such folder; name one that nmt-train or nmt-export wrote")
    engines = list[str]()
    attention = "unknown"
    for engine in ("torch", *GRAPH_SUFFIX):
        try:
            model = load(folder, LoadSettings(engine=engine))  # type: ignore[arg-type]
            model.engine(trace=True)
        except UserError as error:
            problems.append(reason(error))
        else:
            engines.append(engine)
            attention = model.properties.attention.name
    yield "model", f"{attention} attention, {_size(Path(folder)) / 10**6:.1f} MB"
    yield "engines", ", ".join(engines) or "none"
    peak = peak_memory_mb()
    yield "RAM of all engines", "unknown" if peak is None else f"{peak:,.0f} MB"


def _size(folder: Path) -> int:
    """Return the bytes of the trained model or adapter, or of all files of a deployment."""
    trained = [file for name in (MODEL_FILE, ADAPTER) if (file := folder / name).is_file()]
    return sum(file.stat().st_size for file in trained or folder.iterdir())
