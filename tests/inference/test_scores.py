"""Corpus scores against sacrebleu's own functions."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from builders import refusal

from nmt.errors import UserError
from nmt.inference.scores import (
    EvaluationSettings,
    choose_tokenizer,
    corpus_scores,
    print_hints,
    require_tokenizer,
)

HYPOTHESES = ["A man sleeps .", "two dogs run in the park .", "the Cat"]
REFERENCES = ["a man is asleep .", "two dogs run through the park .", "the cat sees a bird ."]
CHINESE = ["我喜欢在公园里散步。", "今天天气很好，我们去看电影吧。", "他在 Berlin 学习了 3 年德语。"]
GUESSES = ["我喜欢在公园散步。", "今天天气很好，我们去看戏吧。", "他在 Berlin 学了 3 年德语。"]
THAI = "ผู้ชายกำลังพาสุนัขเดินเล่นในสวนสาธารณะ"
LANGUAGES = {
    "Herr 王小明 geht mit seinem Hund im Park spazieren.": "13a",
    "ஒரு மனிதன் பூங்காவில் தன் நாயுடன் நடக்கிறான்.": "13a",
    "አንድ ሰው በፓርኩ ውስጥ ውሻውን ያንሸራሽራል።": "13a",
    "한 남자가 공원에서 개를 산책시키고 있다.": "13a",
    "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQAPILSRVGDGTQDNLSGAEKAVQ": "13a",
    "一个男人在公园里遛狗。": "zh",
    "我们使用 PyTorch 训练 Transformer 模型，并在 Multi30k 数据集上评估。": "zh",
    "一个 男人 在 公园 里 遛狗 。": "zh",
    "男の人が公園で犬を散歩させています。": "char",
    THAI: "char",
    "": "13a",
}


@pytest.mark.parametrize("lowercase", [False, True])
def test_scores_equal_sacrebleu(lowercase: bool) -> None:
    scores = corpus_scores(HYPOTHESES, REFERENCES, lowercase=lowercase, ter=True)
    # force=True: sacrebleu otherwise warns that these lines look tokenised.
    assert scores.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], lowercase=lowercase, force=True).score > 0
    assert scores.ter == sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES], case_sensitive=not lowercase).score
    text = [[line.lower() if lowercase else line for line in side] for side in (HYPOTHESES, REFERENCES)]
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(text[0], [text[1]]).score)
    chinese = corpus_scores(GUESSES, CHINESE, ter=True, lowercase=lowercase)
    assert chinese.bleu == sacrebleu.corpus_bleu(GUESSES, [CHINESE], tokenize="zh", lowercase=lowercase).score > 50
    options = {"normalized": True, "asian_support": True, "case_sensitive": not lowercase}
    assert chinese.ter == sacrebleu.corpus_ter(GUESSES, [CHINESE], **options).score
    assert "|tok:zh|" in chinese.signatures["bleu"] and "|asian:yes|" in chinese.signatures["ter"]


@pytest.fixture
def without_mecab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    monkeypatch.setattr("nmt.inference.scores.require_tokenizer", require_tokenizer.__wrapped__)


def test_script_of_the_references_chooses_the_tokenizer(without_mecab: None) -> None:
    for line, tokenizer in LANGUAGES.items():
        assert choose_tokenizer([line] * 3).tokenizer == tokenizer, line
    [german, *_] = LANGUAGES
    assert choose_tokenizer([german] * 9 + CHINESE[:1]).tokenizer == "13a"
    assert choose_tokenizer([german, *CHINESE * 3]).tokenizer == "zh"
    assert choose_tokenizer(CHINESE, "char") == ("char", None)
    assert refusal(choose_tokenizer, CHINESE, "ja-mecab").startswith("evaluation.tokenizer=ja-mecab: ")


def test_ter_of_a_text_without_spaces_counts_characters() -> None:
    scores = corpus_scores([THAI[:-1]], [THAI], ter=True)
    assert scores.ter == pytest.approx(100 / len(THAI)) and "|tok:char+tercom|" in scores.signatures["ter"]
    # A tokenizer of words means that spaces separate words: sacrebleu's own TER.
    assert corpus_scores([THAI[:-1]], [THAI], ter=True, tokenizer="none").ter == 100


@pytest.mark.parametrize(
    ("texts", "error", "start"),
    [
        ((["a"] * 3, ["a"] * 2), UserError, "3 translations, 2 references: "),
        (([], []), UserError, "0 translations: "),
        (("abc", ["a b c"]), TypeError, "hypotheses"),
        ((["a", None], ["a", "b"]), TypeError, "hypotheses"),
        ((["a"], None), TypeError, "references"),
    ],
)
def test_anything_but_two_equally_long_lists_is_refused(texts: Any, error: type[Exception], start: str) -> None:
    with pytest.raises(error, match=f"^{start}"):
        corpus_scores(*texts)


def test_unknown_tokenizers_and_missing_packages_are_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def offline(*_: Any, **__: Any) -> None:
        raise OSError("no network")

    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.download_file", offline)
    for name in ("mecab", "flores200"):
        assert refusal(EvaluationSettings, name).startswith(f"evaluation.tokenizer={name}: ")


def words(seed: int) -> list[str]:
    source = random.Random(seed)
    return [" ".join(source.choices("Haus Katze Baum gehen früh spät Berlin café".split(), k=9)) for _ in range(60)]


LINES = words(1)
ROUGH = [" ".join(line.split()[1:]) for line in LINES]


@pytest.mark.parametrize(
    ("hypotheses", "references", "shown"),
    [
        (ROUGH, LINES, None),
        (words(2), LINES, None),
        ([*ROUGH[:20], *ROUGH[21:], "x"], LINES, "next"),
        (["x", *ROUGH[:-1]], LINES, "previous"),
        ([*ROUGH[:-1], " "], LINES, "1 of 60 translations"),
        ([*ROUGH[:-1], " "], [*LINES[:-1], ""], "1 of 60 references"),
        (CHINESE, CHINESE, "evaluation.tokenizer=zh"),
    ],
)
def test_hints(
    hypotheses: list[str], references: list[str], shown: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    print_hints(choose_tokenizer(references), hypotheses, references)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == (shown is not None) and (shown is None or shown in lines[0])
