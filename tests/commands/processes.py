"""Python code in new processes, whose streams a shell can close or redirect."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MAIN = "from nmt.commands.programs import {0}; {0}()"


def run_python(
    code: str, *words: str, timeout_s: float = 120, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter, which finds the package and has the further variables ``env``."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_s, **options)


def start(code: str, words: Sequence[str] = (), shell: str = 'exec "$@"', **options: Any) -> subprocess.Popen[bytes]:
    """Start Python with ``code`` under ``bash``, which can redirect its streams."""
    command = ["bash", "-c", shell, "bash", sys.executable, "-c", code, *words]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    return subprocess.Popen(command, env=environment, **{**pipes, **options})


def finish(
    code: str, words: Sequence[str] = (), shell: str = 'exec "$@"', text: bytes = b"", **options: Any
) -> tuple[int, bytes, bytes]:
    """Return exit code, stdout and stderr of Python with ``code``, whose stdin has this text."""
    with start(code, words, shell, **options) as child:
        out, error = child.communicate(text, timeout=120)
        return child.returncode, out, error


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until the condition is true; fail after a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.01)


LATER = (
    *("concurrent.futures", "difflib", "gzip", "html", "hydra", "lightning", "multiprocessing", "omegaconf", "shlex"),
    *("pytorch_lightning", "torch", "yaml", "nmt.alignment", "nmt.inference.ensemble", "nmt.inference.markup"),
    *("nmt.inference.prefix", "nmt.inference.protection", "nmt.inference.terms", "nmt.text.prepare"),
)
"""What a plain line does not need, so that it does not wait for its import."""


def run_without_torch(
    command: str, words: Sequence[str], text: bytes = b"", *, unwanted: Sequence[str] = ("torch", "multiprocessing")
) -> str:
    """Call a command's function in a new interpreter and return its stdout.

    Asserts that it imports nothing ``unwanted``: torch and what starts processes slow down the first line.
    """
    code = f"import sys; from nmt.commands.{command} import {command}; {command}(sys.argv[1:])"
    code += f"; assert not (late := {{*{unwanted}}} & {{*sys.modules}}), late"
    status, out, error = finish(code, words, text=text)
    assert status == 0, error
    return out.decode()
