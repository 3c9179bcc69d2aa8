"""A forked child translates as its parent does, after the parent has used several threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from commands.processes import run_python

CODE = """
import os, signal, sys
from nmt import Translator
from nmt.search.options import SearchOptions

lines = ["a small dog", "two cats sleep here today", "red houses", "a dog sees a dog"] * 5
search = SearchOptions(beam_size=4, max_length=6)
for engine in ("torch", "onnx", "onnx-int8"):
    translator = Translator.load(sys.argv[1], engine=engine, threads=2)
    expected = [translator.texts(lines[:1], search), translator.texts(lines, search)]
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # SIGALRM ends a child that waits for ever
        actual = [translator.texts(lines[:1], search), translator.texts(lines, search)]
        os._exit(actual != expected)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, engine
    assert translator.texts(lines, search) == expected[1]  # the parent goes on
"""


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_translates(exported_model: Callable[[str], Path]) -> None:
    process = run_python(CODE, str(exported_model("memory")), env={"OMP_NUM_THREADS": "2"}, timeout_s=300)
    assert process.returncode == 0, process.stderr
