"""A forked child translates as its parent does, after the parent has used several threads."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from builders import MEMORY, save_random, tiny_config
from commands.processes import run_python

from nmt.text.tokenizer import Tokenizer

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
LINES = ["a small dog", "two cats sleep here today", "red houses", "a dog sees a dog"] * 5
TIMEOUT_S = 300  # of everything; a child that waits for a thread would wait for ever

START = f"""
import os, signal, sys, time, warnings
import multiprocessing
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads
from nmt import Translator
from nmt.inference import Translate
from nmt.search.options import SearchOptions
folder, LINES, SEARCH = sys.argv[1], {LINES!r}, SearchOptions(beam_size=4, max_length=6)

def use_threads():
    import torch
    torch.set_num_threads(2)
    x = torch.randn(700, 700)
    (x @ x).exp().sum()

def in_child(work):
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # SIGALRM ends a child that waits for ever
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, code

def require(condition):
    assert condition
"""
LOADED_BEFORE = """
def translated(lines):
    return translator.texts(lines, SEARCH)

for engine in ("torch", "onnx", "onnx-int8"):
    translator = Translator.load(folder, engine=engine, threads=2)
    if engine == "torch":
        use_threads()
    else:
        translator.loaded_model._all_threads, translator.loaded_model._single_thread
    expected = translator.texts(LINES, SEARCH)
    scores = [one.log_prob for one in translator.score([("a dog", "red houses")])]
    in_child(lambda: require(translator.texts(LINES, SEARCH) == expected))
    in_child(lambda: require([one.log_prob for one in translator.score([("a dog", "red houses")])] == scores))
    in_child(lambda: in_child(lambda: require(translator.texts(LINES, SEARCH) == expected)))  # a daemon
    require(translator.texts(LINES, SEARCH) == expected)  # the parent goes on
    with multiprocessing.get_context("fork").Pool(2) as pool:
        require(pool.map_async(translated, [LINES[:3], LINES[3:]]).get(60) == [expected[:3], expected[3:]])
"""
LOADED_IN_CHILD = """
use_threads()  # for another model than ours
for engine in ("torch", "onnx"):
    translate = Translate(model=folder, engine=engine, search=SEARCH)
    expected = translate({"text": LINES})
    in_child(lambda: require(translate({"text": LINES}) == expected))
    in_child(lambda: require(Translate(model=folder, engine=engine, search=SEARCH)({"text": LINES}) == expected))

def asks_for_threads():
    import torch
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        translator = Translator.load(folder, engine="torch", threads=2)
    require("threads=2: this process was forked after torch was loaded, so it uses 1" in str(caught[0].message))
    require(torch.get_num_threads() == 1)
    translator.texts(LINES, SEARCH)

in_child(asks_for_threads)
"""
DROPPED = """
import gc

def drop_translator():
    global translator
    del translator
    gc.collect()

translator = Translator.load(folder, engine="onnx", threads=2)
translator.texts(LINES, SEARCH)
in_child(drop_translator)
cycle = [translator]
cycle.append(cycle)
del translator, cycle  # the child collects it
in_child(gc.collect)
"""
DATASETS = """
import datasets
expected = Translator.load(folder, engine="onnx", threads=2).texts(LINES, SEARCH)
rows = datasets.Dataset.from_dict({"text": LINES, "id": [*range(len(LINES))]})
translate = Translate(model=folder, engine="onnx", threads=1, search=SEARCH)
result = rows.map(translate, batched=True, batch_size=4, num_proc=2)
require(result["translation"][:] == expected and result["id"][:] == [*range(len(LINES))])
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fork") / "run"
    tokenizer = Tokenizer.train([" ".join(LINES)], vocab_size=290)
    config = tiny_config(MEMORY, size=64, embeddings=64)
    save_random(folder, config, tokenizer, engines=["onnx", "onnx-int8"], scale=3.0)
    return folder


@pytest.mark.thorough
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(LOADED_BEFORE, id="before"),
        pytest.param(LOADED_IN_CHILD, id="in child"),
        pytest.param(DROPPED, id="dropped"),
        pytest.param(
            DATASETS, id="datasets", marks=pytest.mark.skipif(not find_spec("datasets"), reason="not installed")
        ),
    ],
)
def test_forked_children_translate(run: Path, code: str, tmp_path: Path) -> None:
    environment = {"HF_HOME": str(tmp_path), "OMP_NUM_THREADS": "2"}
    process = run_python(START + code, str(run), env=environment, timeout_s=TIMEOUT_S)
    assert process.returncode == 0, process.stderr
