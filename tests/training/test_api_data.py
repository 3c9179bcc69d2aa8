"""``nmt.train`` gives the run of nmt-train: with the same text in files, in a notebook, and from a thread."""

from __future__ import annotations

import asyncio
import io
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import expect_error, refusal, write_parts
from tiny import MODEL, ONE_EPOCH, interrupt_at, refuse, summary

import nmt
import nmt.api
import nmt.text.prepare
import nmt.training.run
from nmt.commands.train import train
from nmt.config.init_from import read_yaml
from nmt.errors import Interrupted

WORDS = [word for word in MODEL if not word.startswith("attention")]
WORDS += ["attention=none", "tokenizer.vocab_size=300", "training.max_epochs=1"]
PAIRS = [(f"Ban des {'Gin ' * (n % 9)}kor{n}", f"Ban des {'Gni ' * (n % 9)}kor{n}") for n in range(60)]
PARTS = {"train": PAIRS[:40], "valid": PAIRS[40:50], "test": PAIRS[50:]}
Convert = Callable[[list[tuple[str, str]]], Any]


class Table:
    """A stand-in for a Hugging Face ``Dataset``: it has columns, and its rows are dictionaries."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __iter__(self) -> Iterable[dict[str, Any]]:
        for row in zip(*self.columns.values(), strict=True):
            yield dict(zip(self.columns, row, strict=True))

    from_dict = classmethod(lambda cls, columns: cls(columns))


try:
    from datasets import Dataset
except ImportError:
    Dataset = Table


def nested(pairs: list[tuple[str, str]]) -> Any:
    texts = [{"en": target, "de": source} for source, target in pairs]
    return Dataset.from_dict({"id": list(range(len(pairs))), "translation": texts})


def flat(pairs: list[tuple[str, str]]) -> Any:
    sources, targets = zip(*pairs, strict=True)
    return Dataset.from_dict({"en": list(targets), "note": [None] * len(pairs), "de": list(sources)})


@pytest.fixture(scope="module")
def from_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run on the same pairs in files."""
    with chdir(folder := tmp_path_factory.mktemp("files")):
        train([*WORDS, "data=text", *write_parts(folder, PARTS)])
    return folder / "runs" / "demo"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("convert", "columns"),
    [(list, None), (iter, None), (nested, ("de", "en")), (flat, ("de", "en"))],
    ids=["list", "iterator", "translation", "two columns"],
)
def test_run_equals_that_on_files(
    run: Path, from_files: Path, convert: Convert, columns: tuple[str, str] | None
) -> None:
    parts = {part: convert(pairs) for part, pairs in PARTS.items()}
    result = nmt.train(*WORDS, **parts, columns=columns)
    for file in ("data/train.arrow", "data/valid.arrow", "data/test.arrow", "data/source.model"):
        assert (run / file).read_bytes() == (from_files / file).read_bytes()
    assert (run / "test.translations.txt").read_text() == (from_files / "test.translations.txt").read_text()
    stored = read_yaml(run / "config.yaml")["data"]
    assert stored["_target_"] == "nmt.data.from_python.from_python"
    assert stored["columns"] == (None if columns is None else list(columns))
    assert result.scores["bleu"] is not None


def test_settings_of_the_text_apply(run: Path) -> None:
    pairs = [*PARTS["train"], ("A B", "C D"), ("x " * 200, "y")]
    nmt.train(*WORDS, "data.lowercase=true", "data.max_length=150", train=pairs, valid=PARTS["valid"])
    prepared = nmt.text.prepare.open_prepared(run / "data")
    assert len(prepared.corpora["train"]) == len(pairs) - 1
    assert "a b" in prepared.corpora["train"].sources() and "test" not in prepared.corpora


def test_interrupted_run_resumes_from_its_stored_text(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at(monkeypatch, step=1)
    with pytest.raises(Interrupted, match="stopped by SIGINT"):
        nmt.train(*WORDS, "batches.max_tokens=200", **PARTS)
    expect_error(
        "resume=true: a run continues with its stored text; remove train=, valid=", nmt.train, "resume=true", **PARTS
    )
    assert nmt.train("resume=true").summary["epochs"] == 1


@pytest.mark.thorough
def test_run_starts_from_another_model(run: Path, from_files: Path) -> None:
    words = [word for word in WORDS if word.startswith(("training", "export", "search", "device", "threads"))]
    nmt.train(*words, f"init_from={from_files}", **PARTS)
    assert (run / "data" / "source.model").read_bytes() == (from_files / "data" / "source.model").read_bytes()
    message = "data=python: the text of such a run is in its program.*data=prepared data.fol"
    refuse([*words, f"init_from={run}", "name=next"], message)
    nmt.train(*words, f"init_from={run}", "name=next", "data=prepared", f"data.folder={run}/data")


BAD_ROW = [*PAIRS[:2], ("a", 3)]
FLAT = flat(PAIRS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"train": BAD_ROW, "valid": PAIRS}, r"data: pair 3 of part train is ('a', 3); must be (source, target)"),
        ({"train": PAIRS, "valid": ["ab"]}, r"data: pair 1 of part valid is 'ab'; must be (source, target)"),
        ({"train": PAIRS}, "valid=: must be given, with the sentence pairs of this part"),
        ({"train": nested(PAIRS), "valid": PAIRS}, "data: pair 1 of part train has the columns "),
        ({"train": FLAT, "valid": PAIRS, "columns": ("de", "fr")}, "data: part train has no text in column fr; choose"),
        (
            {"train": FLAT, "valid": PAIRS, "columns": ("de", "note")},
            "data: part train has no text in column note; choose",
        ),
        ({"train": PAIRS, "valid": PAIRS, "columns": ("de",)}, "columns=['de']: must be the names of source"),
        ({"columns": ("de", "en")}, "columns=: needs train= and valid= too; give them"),
        ({"train": [], "valid": PAIRS}, "the training text contains no words"),
    ],
)
def test_wrong_text_is_reported_and_leaves_no_folder(run: Path, given: dict[str, Any], message: str) -> None:
    assert message in refusal(nmt.train, *WORDS, **given)
    assert not run.exists()


def test_text_is_given_once(run: Path) -> None:
    expect_error(
        "data=text: the text is given as train=, valid=, test=; remove one", nmt.train, *WORDS, "data=text", **PARTS
    )
    refuse([*WORDS, "data=python"], "data=python: the text of such a run is in its program")
    assert not run.exists()


def test_only_training_flushes_denormal_numbers(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.set_flush_denormal(False):
        pytest.skip("this CPU cannot flush denormal numbers")
    products = []

    def fit(*_: Any, **__: Any) -> None:
        products.append(float(torch.tensor(1e-30) * 1e-10))
        raise KeyError

    monkeypatch.setattr(nmt.training.run, "fit", fit)
    with pytest.raises(KeyError):
        nmt.train(*ONE_EPOCH, "name=program")
    assert products == [0] and torch.tensor(1e-30) * 1e-10 > 0


class NotebookStream(io.TextIOBase):
    """A stream as ipykernel's: not a terminal, and without a file descriptor."""

    encoding = "UTF-8"

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)


@pytest.mark.thorough
def test_train_works_in_a_notebook(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is that of the command: in a running event loop, in its thread and another, with a notebook's streams."""
    train([*ONE_EPOCH, "name=command"])
    expected = nmt.api.Run(run.parent / "command", summary(run.parent / "command"))
    outer = signal.getsignal(signal.SIGINT)

    async def cell() -> list[nmt.api.Run]:
        here = nmt.train(*ONE_EPOCH, "name=cell")
        return [here, await asyncio.to_thread(nmt.train, *ONE_EPOCH, "name=thread")]

    stderr = NotebookStream()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stderr)
        patch.setattr(sys, "stdout", NotebookStream())
        patch.setattr("rich.console._is_jupyter", lambda: True)
        runs = asyncio.run(cell())
    for result in runs:
        assert result.scores == expected.scores
        assert result.history["valid_loss"] == expected.history["valid_loss"] != []
        assert nmt.Translator.load(result.folder).texts(["ban"])
    lines = stderr.text.splitlines()
    assert lines[0] == "run: runs/cell" and sum(line.startswith("epoch 1  valid_loss") for line in lines) == 2
    assert signal.getsignal(signal.SIGINT) == outer
