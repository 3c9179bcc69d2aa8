"""nmt-evaluate: scores equal sacrebleu's and Och & Ney's AER formula; stdout has nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from builders import write_lines
from commands.texts import SOURCE, TARGET, Call

from nmt.alignment.aer import AER_METHOD
from nmt.commands.evaluate import evaluate
from nmt.commands.export import export
from nmt.inference.model_folder import load_folder, save_folder
from nmt.inference.translator import Translator

GUESS = ["der Hund sieht eine Katze", "nichts da", "ein ROTES Haus hier", "die Katze"]


def scores(call: Call, *words: str) -> dict[str, Any]:
    """Return the scores that nmt-evaluate prints as JSON."""
    result: dict[str, Any] = json.loads("\n".join(call(evaluate, *words, "json=true").lines))
    return result


@pytest.mark.parametrize("lowercase", [False, True])
def test_scores_of_a_translation_file_equal_sacrebleu(lowercase: bool, files: Path, call: Call) -> None:
    write_lines("guess", GUESS)
    lines, _ = call(evaluate, "hypotheses=guess", "tgt=tgt", f"lowercase={str(lowercase).lower()}")
    bleu = sacrebleu.corpus_bleu(GUESS, [TARGET], lowercase=lowercase).score
    ter = sacrebleu.corpus_ter(GUESS, [TARGET], case_sensitive=not lowercase).score
    assert [line.split()[0] for line in lines] == ["BLEU", "chrF", "TER"]
    assert lines[0].startswith(f"BLEU {bleu:.2f}  nrefs:1|case:{'lc' if lowercase else 'mixed'}|")
    assert lines[2].startswith(f"TER {ter:.2f}  nrefs:1|case:{'lc' if lowercase else 'mixed'}|")


def test_scores_of_a_model_equal_sacrebleu_and_are_printed(model: Path, files: Path, call: Call) -> None:
    """test_word_counts.py compares its AER with that of a file of links."""
    write_lines("links", ["1-1 2p2", "", "3-3 1p2", "1-1"])
    words = [f"model={model}", "src=src", "tgt=tgt", "links=links", "links_base=1"]
    result = scores(call, *words)
    assert result["bleu"] == sacrebleu.corpus_bleu(Translator.load(model).texts(SOURCE), [TARGET]).score
    assert result["sentences"] == 4 and result["signatures"]["aer"] == AER_METHOD
    *_, precision, recall, last = call(evaluate, *words).lines
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
        ("1 1 1\n1 3 3\n1 4 5\n3 1 1\n3 2 2\n4 2 1\n", GOLD, ["alignments_base=1"]),
    ],
    ids=["pharaoh", "from-1", "naacl"],
)
@pytest.mark.parametrize("texts", [False, True])
def test_link_file_is_scored_as_by_hand(
    links: str, gold: str, settings: list[str], texts: bool, files: Path, call: Call
) -> None:
    Path("links").write_text(links)
    Path("gold").write_text(gold)
    words = ["alignments=links", "links=gold", *settings, *(["src=src", "tgt=tgt"] if texts else [])]
    result = scores(call, *words)
    assert (result["links"], result["sure"], result["possible"], result["sentences"]) == (6, 6, 7, 4)
    assert (result["precision"], result["recall"]) == (pytest.approx(4 / 6), pytest.approx(3 / 6))
    assert result["aer"] == pytest.approx(1 - (3 + 4) / (6 + 6))
    lines, error = call(evaluate, *words)
    shown = [" ".join(line.split()[:2]) for line in lines]
    assert (shown, error) == (["precision 0.6667", "recall 0.5000", "AER 0.4167"], "")


@pytest.mark.parametrize(("setting", "lowercase"), [([], True), (["lowercase=false"], False)])
def test_model_trained_on_lower_case_is_scored_without_case(
    setting: list[str], lowercase: bool, model_without_attention: Path, files: Path, call: Call
) -> None:
    texts = Translator.load(model_without_attention).texts(SOURCE)
    references = [text.title() or "Nichts" for text in texts]  # equal except for case
    write_lines("cased", references)
    lines, _ = call(evaluate, f"model={model_without_attention}", "src=src", "tgt=cased", "json=true", *setting)
    result = json.loads("\n".join(lines))
    case = "case:lc" if lowercase else "case:mixed"
    assert result["bleu"] == sacrebleu.corpus_bleu(texts, [references], lowercase=lowercase).score
    assert result["lowercase"] is lowercase and all(case in result["signatures"][name] for name in ("bleu", "ter"))


CHINESE = ["我喜欢在公园里散步。", "今天天气很好，我们去看电影吧。"]


@pytest.mark.parametrize(("setting", "tokenizer"), [([], "zh"), (["evaluation.tokenizer=char"], "char")])
def test_script_or_setting_chooses_the_tokenizer_of_a_file(
    setting: list[str], tokenizer: str, files: Path, call: Call
) -> None:
    guess = [line.replace("天", "日") for line in CHINESE]
    write_lines("guess", guess)
    write_lines("tgt", CHINESE)
    lines, error = call(evaluate, "hypotheses=guess", "tgt=tgt", "json=true", *setting)
    result = json.loads("\n".join(lines))
    assert result["bleu"] == sacrebleu.corpus_bleu(guess, [CHINESE], tokenize=tokenizer).score > 50
    assert result["tokenizer"] == tokenizer and f"|tok:{tokenizer}|" in result["signatures"]["bleu"]
    assert error.startswith("evaluation.tokenizer=zh: chosen because ") if not setting else error == ""


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["torch", "onnx"])
def test_tokenizer_of_the_run_is_used_unless_another_is_given(
    engine: str, model: Path, files: Path, call: Call
) -> None:
    trained = load_folder(model)
    save_folder(files, replace(trained, config={**trained.config, "evaluation": {"tokenizer": "char"}}))
    if engine == "onnx":
        export(["model=.", "engine=onnx"])
    for setting, tokenizer in ([], "char"), (["evaluation.tokenizer=intl"], "intl"):
        result = scores(call, "model=.", "src=src", "tgt=tgt", f"engine={engine}", *setting)
        assert f"|tok:{tokenizer}|" in result["signatures"]["bleu"]
