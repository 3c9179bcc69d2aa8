"""The AER of a run's summary equals the one that nmt-evaluate prints for the same files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import write_parts
from tiny import MODEL, summary

from nmt.alignment.aer import AER_METHOD
from nmt.commands.evaluate import evaluate
from nmt.commands.prepare import prepare
from nmt.commands.train import train

SOURCES = ["Ban des gin kor", "des Kor", "gin gin ban des", "kor", "ban Gin kor des gin", "des ban"]


@pytest.mark.thorough
@pytest.mark.parametrize(("base", "prepared"), [(0, False), (1, True)], ids=["text", "prepared"])
def test_a_run_and_nmt_evaluate_report_the_same_aer(
    run: Path, capsys: pytest.CaptureFixture[str], base: int, prepared: bool
) -> None:
    folder = Path()
    pairs = [(line, line[::-1]) for line in SOURCES]
    files = write_parts(folder, {"train": pairs * 8, "valid": pairs, "test": pairs})
    sizes = [len(line.split()) for line in SOURCES]
    sure = [f"{base}-{base}" for _ in sizes]
    possible = [" ".join(f"{i + base}p{j + base}" for i in range(size) for j in range(size)) for size in sizes]
    (folder / "sure.links").write_text("".join(f"{line}\n" for line in sure))
    (folder / "test.links").write_text("".join(f"{a} {b}\n" for a, b in zip(sure, possible, strict=True)))
    data = [*files, "data.test.links=test.links", f"data.test.links_base={base}", "tokenizer.vocab_size=276"]
    data += ["data=text"]
    if prepared:
        prepare([*data, "output=corpus"])
        data = ["data=prepared", "data.folder=corpus"]
    train([*MODEL, *data])
    content = summary(run)

    def evaluated(links: str) -> dict[str, float]:
        capsys.readouterr()
        arguments = ["src=test.src", "tgt=test.tgt", f"links={links}", f"links_base={base}", "device=cpu"]
        evaluate([f"model={run}", *arguments, "json=true"])
        scores: dict[str, float] = json.loads(capsys.readouterr().out)
        return scores

    assert content["test"]["aer"] == evaluated("test.links")["aer"]
    assert content["test"]["aer"] != evaluated("sure.links")["aer"]  # possible links do count
    assert content["signatures"]["aer"] == AER_METHOD
