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
from nmt.inference.model_folder import load_folder, save_folder
from nmt.inference.translator import Translator

GUESS = ["der Hund sieht eine Katze", "nichts da", "ein ROTES Haus hier", "die Katze"]


def scores(call: Call, *words: str) -> dict[str, Any]:
    """Return the scores that nmt-evaluate prints as JSON."""
    result: dict[str, Any] = json.loads("\n".join(call(evaluate, *words, "json=true").lines))
    return result


@pytest.mark.parametrize(("lowercase", "score"), [(False, ""), (True, ""), (False, "-1.234567\t")])
def test_scores_of_a_translation_file_equal_sacrebleu(lowercase: bool, score: str, files: Path, call: Call) -> None:
    texts = [*GUESS[:3], "-0.500000\tdie Katze"]  # the number is a part of the text
    write_lines("guess", [f"{score}{line}" for line in texts])
    lines, _ = call(evaluate, "hypotheses=guess", "tgt=tgt", f"lowercase={str(lowercase).lower()}")
    bleu = sacrebleu.corpus_bleu(texts, [TARGET], lowercase=lowercase).score
    ter = sacrebleu.corpus_ter(texts, [TARGET], case_sensitive=not lowercase).score
    assert [line.split()[0] for line in lines] == ["BLEU", "chrF", "TER"]
    assert lines[0].startswith(f"BLEU {bleu:.2f}  nrefs:1|case:{'lc' if lowercase else 'mixed'}|")
    assert lines[2].startswith(f"TER {ter:.2f}  nrefs:1|case:{'lc' if lowercase else 'mixed'}|")


def test_scores_of_a_model_equal_sacrebleu_and_are_printed(model: Path, files: Path, call: Call) -> None:
    """test_word_counts.py compares its AER with that of a file of links."""
    write_lines("links", ["0-0 1p1", "", "2-2 0p1", "0-0"])
    words = [f"model={model}", "src=src", "tgt=tgt", "links=links"]
    result = scores(call, *words)
    assert result["bleu"] == sacrebleu.corpus_bleu(Translator.load(model).texts(SOURCE), [TARGET]).score
    assert result["sentences"] == 4 and result["signatures"]["aer"] == AER_METHOD
    shown = [line.split("  ")[0] for line in call(evaluate, *words).lines[-3:]]
    assert shown == [f"{name} {result[name.lower()]:.4f}" for name in ("precision", "recall", "AER")]


GOLD = "0-0 2-1 2p2\n\n0-0 1-1 2-2\n0-0\n"  # sure: 6, possible: 1
LINKS = "0-0 2-2 3-4\n\n0-0 1-1\n1-0\n"  # 6 links, 3 of them sure and 1 possible


def test_link_file_is_scored_as_by_hand(files: Path, call: Call) -> None:
    Path("links").write_text(LINKS)
    Path("gold").write_text(GOLD)
    words = ["alignments=links", "links=gold"]
    result = scores(call, *words, "src=src", "tgt=tgt")
    assert (result["links"], result["sure"], result["possible"], result["sentences"]) == (6, 6, 7, 4)
    assert (result["precision"], result["recall"]) == (pytest.approx(4 / 6), pytest.approx(3 / 6))
    assert result["aer"] == pytest.approx(1 - (3 + 4) / (6 + 6))
    assert scores(call, *words) == result


@pytest.mark.parametrize(("setting", "lowercase"), [([], True), (["lowercase=false"], False)])
def test_model_trained_on_lower_case_is_scored_without_case(
    setting: list[str], lowercase: bool, model_without_attention: Path, files: Path, call: Call
) -> None:
    texts = Translator.load(model_without_attention).texts(SOURCE)
    references = [text.title() or "Nichts" for text in texts]  # equal except for case
    write_lines("cased", references)
    result = scores(call, f"model={model_without_attention}", "src=src", "tgt=cased", *setting)
    case = "case:lc" if lowercase else "case:mixed"
    assert result["bleu"] == sacrebleu.corpus_bleu(texts, [references], lowercase=lowercase).score
    assert result["lowercase"] is lowercase and all(case in result["signatures"][name] for name in ("bleu", "ter"))


def test_tokenizer_of_the_run_is_used_unless_another_is_given(model: Path, files: Path, call: Call) -> None:
    trained = load_folder(model)
    save_folder(files, replace(trained, config={**trained.config, "evaluation": {"tokenizer": "char"}}))
    for setting, tokenizer in ([], "char"), (["evaluation.tokenizer=intl"], "intl"):
        result = scores(call, "model=.", "src=src", "tgt=tgt", *setting)
        assert f"|tok:{tokenizer}|" in result["signatures"]["bleu"]
