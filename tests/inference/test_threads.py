"""``threads=`` is the number of threads that each engine uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import LUONG, save_random, tiny_config

from nmt.commands.translate import translate
from nmt.errors import UserError
from nmt.inference.engines import EngineName
from nmt.inference.translator import Translator
from nmt.text.tokenizer import Tokenizer

pytestmark = pytest.mark.thorough

TOKENIZER = Tokenizer.train(["a small dog sees red houses"], vocab_size=280)


@pytest.fixture(autouse=True)
def restore_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    save_random(folder, tiny_config(LUONG), TOKENIZER)
    (folder / "text").write_text("a dog\n")
    return folder


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("engine", ["torch", "auto"])  # auto falls back to torch without an export
def test_torch_uses_the_given_threads(run: Path, engine: EngineName, threads: int) -> None:
    Translator.load(run, engine=engine, threads=threads).texts(["a dog"])
    assert torch.get_num_threads() == threads
    torch.set_num_threads(2)
    translate([f"model={run}", f"engine={engine}", f"threads={threads}", f"input={run}/text", f"output={run}/out"])
    assert torch.get_num_threads() == threads
    torch.set_num_threads(2)
    Translator.load(run, engine=engine).texts(["a dog"])
    assert torch.get_num_threads() == 2  # without threads=, torch's own setting holds


@pytest.mark.parametrize("threads", [0, "2", 1.5])
def test_a_wrong_number_of_threads_is_refused(run: Path, threads: Any) -> None:
    with pytest.raises(UserError, match=f"threads={threads!r}: must be a whole number of at least 1; remove threads="):
        Translator.load(run, threads=threads)
