"""nmt-evaluate prints what sacrebleu and Och & Ney's formula say, and nothing else, on stdout."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sacrebleu

from nmt.alignment.aer import AER_METHOD
from nmt.commands.evaluate import evaluate
from nmt.errors import UserError
from nmt.inference.forced import forced_links
from nmt.inference.translator import Translator

SOURCE = ["the dog sees a cat", "", "a red house", "the cat sleeps"]
TARGET = ["der Hund sieht eine Katze", "nichts", "ein rotes Haus", "die Katze schläft"]
GUESS = ["der Hund sieht eine Katze", "nichts da", "ein ROTES Haus hier", "die Katze"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, lines in {"src": SOURCE, "tgt": TARGET, "guess": GUESS}.items():
        text = "".join(f"{line}\n" for line in lines)
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    return tmp_path


@pytest.mark.parametrize("lowercase", [False, True])
def test_translations_in_a_file(lowercase: bool, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate([f"hypotheses={files}/guess.gz", f"tgt={files}/tgt", f"lowercase={str(lowercase).lower()}"])
    lines = capsys.readouterr().out.splitlines()
    bleu = sacrebleu.corpus_bleu(GUESS, [TARGET], lowercase=lowercase).score
    ter = sacrebleu.corpus_ter(GUESS, [TARGET], case_sensitive=not lowercase).score
    assert [line.split()[0] for line in lines] == ["BLEU", "chrF", "TER"]
    assert lines[0].startswith(f"BLEU {bleu:.2f}  nrefs:1|case:{'lc' if lowercase else 'mixed'}|")
    assert lines[2].startswith(f"TER {ter:.2f}  nrefs:1|case:{'lc' if lowercase else 'mixed'}|")


def test_a_model_with_gold_links(model: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "links").write_text("1-1 2p2\n\n3-3 1p2\n1-1\n")
    given = [f"model={model}", f"src={files}/src.gz", f"tgt={files}/tgt.gz", f"links={files}/links", "links_base=1"]
    evaluate([*given, "json=true"])
    result = json.loads(capsys.readouterr().out)
    translator = Translator.load(model)
    assert result["bleu"] == sacrebleu.corpus_bleu(translator.texts(SOURCE), [TARGET]).score
    sure = [{(0, 0)}, set(), {(2, 2)}, {(0, 0)}]
    possible = [{(0, 0), (1, 1)}, set(), {(2, 2), (0, 1)}, {(0, 0)}]
    found = forced_links(translator, SOURCE, TARGET)
    agreed = sum(len(a & s) + len(a & p) for a, s, p in zip(found, sure, possible, strict=True))
    assert result["aer"] == pytest.approx(1 - agreed / (sum(map(len, found)) + sum(map(len, sure))))
    assert result["sentences"] == 4 and result["signatures"]["aer"] == AER_METHOD
    evaluate(given)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"AER {result['aer']:.4f}  {AER_METHOD}"


def test_a_source_longer_than_the_attention_holds_has_no_links(
    model_of: Callable[..., Path], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = model_of({"_target_": "nmt.attention.LowRankAttention", "slots": 3})
    (files / "src").write_text("".join(f"{line}\n" for line in [*SOURCE[:3], "cat " * 30]))
    (files / "links").write_text("0-0\n\n0-0\n0-0 1-1 2-2\n")
    evaluate([f"model={model}", f"src={files}/src", f"tgt={files}/tgt", f"links={files}/links"])
    out, error = capsys.readouterr()
    found = forced_links(Translator.load(model), SOURCE[:3], TARGET[:3])
    agreed = 2 * (((0, 0) in found[0]) + ((0, 0) in found[2]))
    assert out.splitlines()[-1].startswith(f"AER {1 - agreed / (sum(map(len, found)) + 5):.4f} ")
    empty, unaligned = error.splitlines()
    assert empty.startswith(f"warning: {files}/src:4: a source of ") and empty.endswith("its translation is empty")
    assert unaligned.startswith(f"warning: {files}/src:4: a source of ") and unaligned.endswith("it is not aligned")


def test_a_lower_cased_model_is_told_apart(blind_model: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [f"model={blind_model}", f"src={files}/src", f"tgt={files}/tgt"]
    evaluate(given)
    assert "trained on lower-cased text" in capsys.readouterr().err
    evaluate([*given, "lowercase=true"])
    out, error = capsys.readouterr()
    assert "case:lc" in out and error == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hypotheses=guess"], "tgt: must be given"),
        (["tgt=tgt"], "give one of them"),
        (["tgt=tgt", "hypotheses=guess", "model=MODEL"], "give one of them"),
        (["tgt=tgt", "model=MODEL"], "add src=FILE"),
        (["tgt=tgt", "hypotheses=guess", "links=links"], "give model=FOLDER"),
        (["tgt=short", "hypotheses=guess"], "guess has 4 lines, short has 1 lines"),
        (["tgt=short", "model=MODEL", "src=src"], "src has 4 lines, short has 1 lines"),
        (["tgt=nowhere", "hypotheses=guess"], "nowhere: No such file"),
        (["tgt=empty", "hypotheses=empty"], "empty: empty file"),
        (["tgt=tgt", "model=MODEL", "src=src", "links=links"], "links:1: 5-5 points outside"),
        (["tgt=tgt", "model=BLIND", "src=src", "links=fine"], "no attention"),
        (["tgt=tgt", "model=MODEL", "src=src", "links_base=2"], "links_base=2: must be 0 | 1"),
        (["tgt=tgt", "hypothesis=guess"], "did you mean hypotheses"),
    ],
)
def test_bad_input_gets_one_clear_line(
    arguments: list[str], message: str, model: Path, blind_model: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    (files / "short").write_text("Hund\n")
    (files / "empty").touch()
    (files / "links").write_text("5-5\n\n\n\n")
    (files / "fine").write_text("0-0\n\n\n\n")
    given = [word.replace("MODEL", str(model)).replace("BLIND", str(blind_model)) for word in arguments]
    with pytest.raises(UserError) as caught:
        evaluate(given)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_help_shows_every_key_and_needs_no_torch() -> None:
    code = "import sys; from nmt.commands.evaluate import evaluate; evaluate(['--help'])"
    check = f"{code}; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "links_base: 0" in done.stdout and "nmt-evaluate hypotheses=out.txt" in done.stdout
