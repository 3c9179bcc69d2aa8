"""The files of a run's test set are those that the other commands read and write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import write_parts
from tiny import MODEL, summary

import nmt
from nmt.alignment.aer import AER_METHOD
from nmt.commands.evaluate import evaluate
from nmt.commands.prepare import prepare
from nmt.commands.train import train
from nmt.commands.translate import translate
from nmt.data.links import format_pharaoh, parse_links
from nmt.errors import SourceTooLong
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.corpus import Corpus
from nmt.training import report


def lines(file: Path) -> list[str]:
    return file.read_text("utf-8").splitlines()


def test_files_hold_the_test_set(finished: Path) -> None:
    corpus = Corpus.open(finished / "data" / "test.arrow")
    golds = corpus.links()
    assert golds is not None
    assert lines(finished / "test.source.txt") == corpus.sources()
    assert lines(finished / "test.references.txt") == corpus.targets()
    assert parse_links(lines(finished / "test.gold.links.txt"), "gold") == golds


def test_evaluation_of_the_files_has_the_scores_of_the_run(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, references, gold = (finished / f"test.{name}.txt" for name in ("source", "references", "gold.links"))
    evaluate([f"model={finished}", f"src={source}", f"tgt={references}", f"links={gold}", "search.max_length=8"])
    printed = dict(line.split()[:2] for line in capsys.readouterr().out.splitlines())
    test = summary(finished)["test"]
    assert printed["BLEU"] == f"{test['bleu']:.2f}" and printed["chrF"] == f"{test['chrf']:.2f}"
    assert printed["AER"] == f"{test['aer']:.4f}"


def test_links_of_translations_and_references_are_those_of_the_commands(finished: Path) -> None:
    words = [f"model={finished}", f"input={finished}/test.source.txt", "output=out.txt", "alignments=out.links"]
    translate([*words, "search.max_length=8"])
    assert lines(Path("out.txt")) == lines(finished / "test.translations.txt")
    assert lines(Path("out.links")) == lines(finished / "test.translations.links.txt")
    translator = nmt.Translator.load(finished)
    pairs = zip(lines(finished / "test.source.txt"), lines(finished / "test.references.txt"), strict=True)
    assert [format_pharaoh(links) for links in translator.align(pairs)] == lines(finished / "test.references.links.txt")


def test_warnings_count_sentences_over_all_groups(
    finished: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(self: Translator, line: str) -> list[int]:
        if len(line) > 20:
            raise SourceTooLong("too long")
        return original(self, line)

    monkeypatch.setattr(report, "GROUP", 3)
    original = Translator.encode
    monkeypatch.setattr(Translator, "encode", encode)
    options = SearchOptions(beam_size=1, max_length=4)
    texts, links = report._translate(nmt.Translator.load(finished), ["ban", "ban", "ban", "", "ban des " * 9], options)
    assert len(texts) == len(links) == 5
    assert "warning: test sentence 5: too long; it has no translation" in capsys.readouterr().err


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
