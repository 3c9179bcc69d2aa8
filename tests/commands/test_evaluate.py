"""nmt-evaluate: scores equal sacrebleu's and Och & Ney's AER formula; stdout has nothing else."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import sacrebleu

from nmt.alignment.aer import AER_METHOD
from nmt.commands.evaluate import evaluate
from nmt.errors import UserError
from nmt.inference.forced_decoding import forced_links
from nmt.inference.translator import Translator

SOURCE = ["the dog sees a cat", "", "a red house", "the cat sleeps"]
TARGET = ["der Hund sieht eine Katze", "nichts", "ein rotes Haus", "die Katze schläft"]
GUESS = ["der Hund sieht eine Katze", "nichts da", "ein ROTES Haus hier", "die Katze"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the files src, tgt and guess, each plain and as .gz."""
    for name, lines in {"src": SOURCE, "tgt": TARGET, "guess": GUESS}.items():
        text = "".join(f"{line}\n" for line in lines)
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    return tmp_path


@pytest.mark.parametrize("lowercase", [False, True])
def test_scores_of_a_translation_file_equal_sacrebleu(
    lowercase: bool, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate([f"hypotheses={files}/guess.gz", f"tgt={files}/tgt", f"lowercase={str(lowercase).lower()}"])
    lines = capsys.readouterr().out.splitlines()
    bleu = sacrebleu.corpus_bleu(GUESS, [TARGET], lowercase=lowercase).score
    ter = sacrebleu.corpus_ter(GUESS, [TARGET], case_sensitive=not lowercase).score
    assert [line.split()[0] for line in lines] == ["BLEU", "chrF", "TER"]
    assert lines[0].startswith(f"BLEU {bleu:.2f}  nrefs:1|case:{'lc' if lowercase else 'mixed'}|")
    assert lines[2].startswith(f"TER {ter:.2f}  nrefs:1|case:{'lc' if lowercase else 'mixed'}|")


def test_scores_of_a_model_equal_sacrebleu_and_the_aer_formula(
    model: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "links").write_text("1-1 2p2\n\n3-3 1p2\n1-1\n")
    arguments = [f"model={model}", f"src={files}/src.gz", f"tgt={files}/tgt.gz", f"links={files}/links", "links_base=1"]
    evaluate([*arguments, "json=true"])
    result = json.loads(capsys.readouterr().out)
    translator = Translator.load(model)
    assert result["bleu"] == sacrebleu.corpus_bleu(translator.texts(SOURCE), [TARGET]).score
    sure = [{(0, 0)}, set(), {(2, 2)}, {(0, 0)}]
    possible = [{(0, 0), (1, 1)}, set(), {(2, 2), (0, 1)}, {(0, 0)}]
    links = forced_links(translator, SOURCE, TARGET)
    agreed = sum(len(a & s) + len(a & p) for a, s, p in zip(links, sure, possible, strict=True))
    assert result["aer"] == pytest.approx(1 - agreed / (sum(map(len, links)) + sum(map(len, sure))))
    assert result["sentences"] == 4 and result["signatures"]["aer"] == AER_METHOD
    evaluate(arguments)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"AER {result['aer']:.4f}  {AER_METHOD}"


def test_source_too_long_for_the_attention_has_no_links(
    short_model: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "src").write_text("".join(f"{line}\n" for line in [*SOURCE[:3], "cat " * 30]))
    (files / "links").write_text("0-0\n\n0-0\n0-0 1-1 2-2\n")
    evaluate([f"model={short_model}", f"src={files}/src", f"tgt={files}/tgt", f"links={files}/links"])
    out, error = capsys.readouterr()
    links = forced_links(Translator.load(short_model), SOURCE[:3], TARGET[:3])
    agreed = 2 * (((0, 0) in links[0]) + ((0, 0) in links[2]))
    assert out.splitlines()[-1].startswith(f"AER {1 - agreed / (sum(map(len, links)) + 5):.4f} ")
    empty, unaligned = error.splitlines()
    assert empty.startswith(f"warning: {files}/src:4: a source of ") and empty.endswith("its translation is empty")
    assert unaligned.startswith(f"warning: {files}/src:4: a source of ") and unaligned.endswith("it is not aligned")


@pytest.mark.parametrize(("setting", "lowercase"), [([], True), (["lowercase=false"], False)])
def test_model_trained_on_lower_case_is_scored_without_case(
    setting: list[str], lowercase: bool, model_without_attention: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = Translator.load(model_without_attention).texts(SOURCE)
    references = [text.title() or "Nichts" for text in texts]  # equal except for case
    (files / "cased").write_text("".join(f"{line}\n" for line in references), encoding="utf-8")
    arguments = [f"model={model_without_attention}", f"src={files}/src", f"tgt={files}/cased", "json=true"]
    evaluate([*arguments, *setting])
    out, error = capsys.readouterr()
    result = json.loads(out)
    case = "case:lc" if lowercase else "case:mixed"
    assert result["bleu"] == sacrebleu.corpus_bleu(texts, [references], lowercase=lowercase).score
    assert result["lowercase"] is lowercase and all(case in result["signatures"][name] for name in ("bleu", "ter"))
    assert error == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hypotheses=guess"], "tgt: must be given"),
        (["tgt=tgt"], "hypotheses=null: nothing to score"),
        (["tgt=tgt", "hypotheses=guess", "model=MODEL"], "give only one of them"),
        (["tgt=tgt", "model=MODEL"], "add src=FILE"),
        (["tgt=tgt", "hypotheses=guess", "links=links"], "replace hypotheses= by model=FOLDER"),
        (["tgt=short", "hypotheses=guess"], "guess has 4 lines, short has 1 lines"),
        (["tgt=short", "model=MODEL", "src=src"], "src has 4 lines, short has 1 lines"),
        (["tgt=nowhere", "hypotheses=guess"], "nowhere: No such file"),
        (["tgt=empty", "hypotheses=empty"], "empty: empty file"),
        (["tgt=tgt", "model=MODEL", "src=src", "links=links"], "links:1: 5-5 points outside"),
        (["tgt=tgt", "model=NONE", "src=src", "links=fine"], "no attention"),
        (["tgt=tgt", "model=MODEL", "src=src", "links_base=2"], "links_base=2: must be 0 | 1"),
        (["tgt=tgt", "hypothesis=guess"], "did you mean hypotheses"),
    ],
)
def test_bad_input_gives_one_error_line(
    arguments: list[str], message: str, model: Path, model_without_attention: Path, files: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(files)
    (files / "short").write_text("Hund\n")
    (files / "empty").touch()
    (files / "links").write_text("5-5\n\n\n\n")
    (files / "fine").write_text("0-0\n\n\n\n")
    models = {"model=MODEL": f"model={model}", "model=NONE": f"model={model_without_attention}"}
    with pytest.raises(UserError) as caught:
        evaluate([models.get(argument, argument) for argument in arguments])
    assert message in str(caught.value) and "\n" not in str(caught.value)
