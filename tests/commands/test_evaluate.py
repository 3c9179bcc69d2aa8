"""nmt-evaluate: scores equal sacrebleu's and Och & Ney's AER formula; stdout has nothing else."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import sacrebleu

from nmt.alignment.aer import AER_METHOD
from nmt.commands.evaluate import evaluate
from nmt.commands.export import export
from nmt.errors import UserError
from nmt.inference.forced_decoding import forced_links
from nmt.inference.model_folder import load_folder, save_folder
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
    assert result["precision"] == sum(len(a & p) for a, p in zip(links, possible, strict=True)) / sum(map(len, links))
    assert result["recall"] == sum(len(a & s) for a, s in zip(links, sure, strict=True)) / sum(map(len, sure))
    evaluate(arguments)
    *_, precision, recall, last = capsys.readouterr().out.splitlines()
    assert precision.startswith(f"precision {result['precision']:.4f}  ")
    assert recall.startswith(f"recall {result['recall']:.4f}  ")
    assert last == f"AER {result['aer']:.4f}  {AER_METHOD}"


GOLD = "0-0 2-1 2p2\n\n0-0 1-1 2-2\n0-0\n"  # sure: 6, possible: 1
LINKS = "0-0 2-2 3-4\n\n0-0 1-1\n1-0\n"  # 6 links, 3 of them sure and 1 possible


@pytest.mark.parametrize(
    ("links", "gold", "settings"),
    [
        (LINKS, GOLD, []),
        (LINKS, "1-1 3-2 3?3\n\n1-1 2-2 3-3\n1-1\n", ["links_base=1"]),
        (LINKS, "0-0 1-2 2p2\n\n0-0 1-1 2-2\n0-0\n", ["links_swap=true"]),
        (LINKS, "1 1 1 S\n1 3 2 S\n1 3 3 P\n3 1 1\n3 2 2\n3 3 3\n4 1 1\n", ["links_base=1"]),
        ("1 1 1\n1 3 3\n1 4 5\n3 1 1\n3 2 2\n4 2 1\n", GOLD, ["alignments_base=1"]),
    ],
    ids=["pharaoh", "from-1", "swapped", "naacl-gold", "naacl-links"],
)
@pytest.mark.parametrize("texts", [False, True])
def test_link_file_is_scored_as_by_hand(
    links: str, gold: str, settings: list[str], texts: bool, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "links").write_text(links)
    (files / "gold").write_text(gold)
    arguments = [f"alignments={files}/links", f"links={files}/gold", *settings]
    if texts:
        arguments += [f"src={files}/src", f"tgt={files}/tgt"]
    evaluate([*arguments, "json=true"])
    result = json.loads(capsys.readouterr().out)
    assert (result["links"], result["sure"], result["possible"], result["sentences"]) == (6, 6, 7, 4)
    assert (result["precision"], result["recall"]) == (pytest.approx(4 / 6), pytest.approx(3 / 6))
    assert result["aer"] == pytest.approx(1 - (3 + 4) / (6 + 6))
    evaluate(arguments)
    out, error = capsys.readouterr()
    assert [" ".join(line.split()[:2]) for line in out.splitlines()] == [
        "precision 0.6667",
        "recall 0.5000",
        "AER 0.4167",
    ]
    assert error == ""


def test_swapped_sides_and_shifted_numbers_are_noticed(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "gold").write_text("0-3 1-2 2-1\n0-1 1-2\n")
    (files / "swapped").write_text("3-0 2-1 1-2\n1-0 2-1\n")
    (files / "shifted").write_text("1-4 2-3 3-2\n1-2 2-3\n")
    for name, advice in (
        ("swapped", "sides look swapped; add alignments_swap=true"),
        ("shifted", "words look counted from another number; check alignments_base=0 and links_base=0"),
    ):
        evaluate([f"alignments={files}/{name}", f"links={files}/gold"])
        assert capsys.readouterr().err == f"warning: {files}/{name}: {advice}\n"
    for name, setting in (
        ("swapped", "alignments_swap=true"),
        ("swapped", "links_swap=true"),
        ("shifted", "alignments_base=1"),
    ):
        evaluate([f"alignments={files}/{name}", f"links={files}/gold", setting])
        out, error = capsys.readouterr()
        assert "\nAER 0.0000 " in out and error == ""


@pytest.mark.thorough
@pytest.mark.parametrize(("pair", "base"), [("de-en", 0), ("ro-en", 1), ("zh-en", 1)])
def test_real_gold_links_are_read_alike_in_every_format(
    pair: str, base: int, shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shared_data / "alignments" / pair
    naacl = tmp_path / "naacl"
    with naacl.open("w") as file:
        for number, line in enumerate((folder / "gold.talp").read_text().splitlines(), start=1):
            for item in line.split():
                i, mark, j = re.split("([-p])", item)
                print(number, int(i) - 1 + base, int(j) - 1 + base, "S" if mark == "-" else "P", file=file)
    files = [f"alignments={naacl}", f"alignments_base={base}", f"links={folder}/gold.talp", "links_base=1"]
    source, target = (folder / f"test.{side}" for side in pair.split("-"))
    evaluate([*files, f"src={source}", f"tgt={target}"])
    out, error = capsys.readouterr()
    # All gold links are correct and complete.
    assert [line.split()[1] for line in out.splitlines()] == ["1.0000", "1.0000", "0.0000"] and error == ""
    with pytest.raises(
        UserError, match=r"naacl:\d+: .* points outside .*; sides look swapped; add alignments_swap=true"
    ):
        evaluate([*files, f"src={target}", f"tgt={source}"])
    evaluate([*files, "links_swap=true"])
    assert capsys.readouterr().err == f"warning: {naacl}: sides look swapped; add alignments_swap=true\n"


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
    empty, unaligned, *_ = error.splitlines()
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
    assert (
        error == "warning: no translation has four tokens, so BLEU, which needs runs of four, is 0; read chrF instead\n"
    )


CHINESE = ["我喜欢在公园里散步。", "今天天气很好，我们去看电影吧。"]


@pytest.mark.parametrize(("setting", "tokenizer"), [([], "zh"), (["evaluation.tokenizer=char"], "char")])
def test_script_or_setting_chooses_the_tokenizer_of_a_file(
    setting: list[str], tokenizer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guess = [line.replace("天", "日") for line in CHINESE]
    for name, lines in (("guess", guess), ("tgt", CHINESE)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    evaluate([f"hypotheses={tmp_path}/guess", f"tgt={tmp_path}/tgt", "json=true", *setting])
    out, error = capsys.readouterr()
    result = json.loads(out)
    assert result["bleu"] == sacrebleu.corpus_bleu(guess, [CHINESE], tokenize=tokenizer).score > 50
    assert result["tokenizer"] == tokenizer and f"|tok:{tokenizer}|" in result["signatures"]["bleu"]
    assert error.startswith("evaluation.tokenizer=zh: chosen because ") if not setting else error == ""


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["torch", "onnx"])
@pytest.mark.parametrize(("setting", "tokenizer"), [([], "char"), (["evaluation.tokenizer=intl"], "intl")])
def test_tokenizer_of_the_run_is_used_unless_another_is_given(
    engine: str, setting: list[str], tokenizer: str, model: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = load_folder(model)
    run = files / "run"
    run.mkdir()
    save_folder(run, replace(trained, config={**trained.config, "evaluation": {"tokenizer": "char"}}))
    if engine == "onnx":
        export([f"model={run}"])
    capsys.readouterr()
    evaluate([f"model={run}", f"src={files}/src", f"tgt={files}/tgt", f"engine={engine}", "json=true", *setting])
    assert f"|tok:{tokenizer}|" in json.loads(capsys.readouterr().out)["signatures"]["bleu"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hypotheses=guess", "tgt=tgt", "evaluation.tokenizer=jp"], "evaluation.tokenizer=jp: unknown to sacrebleu; "),
        (["hypotheses=guess", "tgt=tgt", "tokenizer=zh"], "tokenizer: no such key; did you mean evaluation.tokenizer?"),
        (["hypotheses=guess"], "tgt=null: no references; add tgt=FILE"),
        (["model=MODEL", "src=src"], "tgt=null: no references; add tgt=FILE"),
        (["alignments=fine"], "links=null: alignments=fine needs gold links; add links=FILE"),
        (["alignments=fine", "links=links", "model=MODEL"], "alignments=fine: model="),
        (["alignments=fine", "links=links", "hypotheses=guess"], "alignments=fine: hypotheses=guess is given too"),
        (["alignments=fine", "links=links", "src=src"], "tgt=null: links are checked against both texts or none"),
        (["alignments=fine", "links=one"], "one has 1 line of links for 4 sentences"),
        (["alignments=short", "links=fine"], "short:1: 'Hund': not a link"),
        (["alignments=nowhere", "links=fine"], "nowhere: No such file"),
        (["tgt=tgt"], "hypotheses=null: nothing to score"),
        (["tgt=tgt", "hypotheses=guess", "model=MODEL"], "give only one of them"),
        (["tgt=tgt", "model=MODEL"], "add src=FILE"),
        (["tgt=tgt", "hypotheses=guess", "links=links"], "AER needs alignments; replace hypotheses= by model=FOLDER"),
        (["tgt=tgt", "hypotheses=guess", "src=src"], "src=src: hypotheses=guess needs no source text; remove it"),
        (["tgt=short", "hypotheses=guess"], "guess has 4 lines, short has 1 line"),
        (["tgt=short", "model=MODEL", "src=src"], "src has 4 lines, short has 1 line"),
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
    (files / "one").write_text("0-0\n")
    models = {"model=MODEL": f"model={model}", "model=NONE": f"model={model_without_attention}"}
    with pytest.raises(UserError) as caught:
        evaluate([models.get(argument, argument) for argument in arguments])
    assert message in str(caught.value) and "\n" not in str(caught.value)
