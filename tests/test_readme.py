"""What the README says to type works, typed in its order in an empty folder outside the project."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.alignment.aer import AER_METHOD
from nmt.tasks.grammar import generate

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKE = {"make train", "make test"}  # .ci/run and whoever reads this run them
# The commands as they stand, only smaller.
SMALL = (
    "tokenizer.vocab_size=500 embeddings.size=8 encoder.hidden_size=8 decoder.hidden_size=8 training.max_epochs=1 "
    "training.decode_sentences=4 search.max_length=5 threads=1"
)
GENERATED = "data.train_pairs=200 data.valid_pairs=8 data.test_pairs=8"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines() if line not in MAKE]


def smaller(command: str) -> str:
    if "nmt-train" not in command:
        return command
    words = SMALL
    if "data=" not in command and "experiment" not in command:
        words += f" {GENERATED}"
    if "data=prepared" in command:
        words = words.replace("tokenizer.vocab_size=500 ", "")
    if "init_from=" in command:  # which brings all its sizes
        words = words[words.index("training") :]
    return f"{command} {words}"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the text files that the README speaks of, and with its example of an attention."""
    pairs = generate(train_pairs=300, valid_pairs=8, test_pairs=8, seed=3)
    (tmp_path / "data" / "multi30k").mkdir(parents=True)
    for part, kept in pairs.items():
        for side, ending in ((0, "en"), (1, "de")):
            text = "".join(f"{pair[side]}\n" for pair in kept).encode()
            (tmp_path / f"{part}.{ending}").write_bytes(text)
            if part == "train":
                (tmp_path / f"more.{ending}").write_bytes(text)
            name = "test2016" if part == "test" else part
            (tmp_path / "data" / "multi30k" / f"{name}.{ending}.gz").write_bytes(gzip.compress(text))
    for file, text in re.findall(r"[Ii]n\s`(mine/[^`]+)`:\n\n```\w+\n(.*?)^```$", README, re.MULTILINE | re.DOTALL):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text, encoding="utf-8")
    return tmp_path


def shell(command: str, place: Path) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    run = subprocess.run(command, shell=True, cwd=place, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, f"{command}\n{run.stderr}"
    return run.stdout


def test_every_command_works_in_order(place: Path) -> None:
    shell(smaller("nmt-train"), place)  # what `make train` does
    for command in commands():
        shell(smaller(command), place)
    for run in (
        "demo",
        "luong",
        "wide",
        "mine",
        "multi30k",
        "multi30k-bahdanau",
        "prepared",
        "further",
        "stream",
        "mean",
    ):
        assert (place / "runs" / run / "summary.json").is_file(), run
    assert len((place / "out.txt").read_text().splitlines()) == 8
    assert list((place / "pictures").glob("*.png"))
    (python,) = [block for block in blocks("python") if "Translator.load" in block]
    (place / "door.py").write_text(python, encoding="utf-8")
    assert "(" in shell("python door.py", place)


def test_files_that_it_points_to_are_there() -> None:
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_it_says_what_aer_means() -> None:
    assert AER_METHOD in " ".join(README.replace("`", "").split())
