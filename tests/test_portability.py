"""Modules and functions of POSIX systems are optional: every module can be imported without them."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands.processes import run_python

pytestmark = pytest.mark.thorough

CODE = """
import os, signal, sys
# Libraries that need them on this system come first; after that, they are hidden from nmt.
import hydra, onnx, onnxruntime, pyarrow, pytorch_lightning, torch, torch.onnx, onnxruntime.quantization
for name in ("fcntl", "resource"):
    sys.modules[name] = None
for name in ("SIGHUP", "SIGPIPE"):
    delattr(signal, name)
del os.sched_getaffinity
import importlib, pathlib, pkgutil
import nmt
modules = [module.name for module in pkgutil.walk_packages(nmt.__path__, "nmt.")]
for name in modules:
    importlib.import_module(name)
from nmt.system.machine import peak_memory_mb, usable_cores
from nmt.files.atomic import write_lines
from nmt.files.checkpoint import read_checkpoint
nmt.system.machine.Path = lambda file: pathlib.Path("missing")  # no /proc
assert peak_memory_mb() is None and usable_cores() >= 1
write_lines(sys.argv[1], ["a"])
write_lines(sys.argv[1], ["b"])
print(len(modules), open(sys.argv[1]).read().strip())
"""


def test_every_module_is_imported_without_posix_modules(tmp_path: Path) -> None:
    run = run_python(CODE, str(tmp_path / "a.txt"), env={"OMP_NUM_THREADS": "1"})
    assert run.returncode == 0, run.stderr
    count, text = run.stdout.split()
    assert int(count) > 100 and text == "b"
