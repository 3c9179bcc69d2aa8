"""Corpus scores against sacrebleu's own functions."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from builders import refusal
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

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


@pytest.mark.parametrize("lowercase", [False, True])
def test_scores_equal_sacrebleu(lowercase: bool) -> None:
    scores = corpus_scores(HYPOTHESES, REFERENCES, lowercase=lowercase, ter=True)
    # force=True: sacrebleu otherwise warns that these lines look tokenised.
    assert scores.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], lowercase=lowercase, force=True).score > 0
    assert scores.ter == sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES], case_sensitive=not lowercase).score
    text = [[line.lower() if lowercase else line for line in side] for side in (HYPOTHESES, REFERENCES)]
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(text[0], [text[1]]).score)


@pytest.mark.parametrize("count", [0, 2, 4])
def test_sides_of_unequal_length_are_rejected(count: int) -> None:
    references = ["a line"] * count
    with pytest.raises(UserError, match=f"3 translations, {count} references: "):
        corpus_scores(HYPOTHESES, references)


CHINESE = ["我喜欢在公园里散步。", "今天天气很好，我们去看电影吧。", "他在 Berlin 学习了 3 年德语。"]
GUESSES = ["我喜欢在公园散步。", "今天天气很好，我们去看戏吧。", "他在 Berlin 学了 3 年德语。"]
LANGUAGES = {
    "German with a Chinese name": ("Herr 王小明 geht mit seinem Hund im Park spazieren.", "13a"),
    "English that explains a word": ("The word 公園 means park, and it is read kōen.", "13a"),
    "Tamil": ("ஒரு மனிதன் பூங்காவில் தன் நாயுடன் நடக்கிறான்.", "13a"),
    "Malayalam": ("ഒരു മനുഷ്യൻ പാർക്കിൽ നായയെ നടത്തുന്നു.", "13a"),
    "Amharic": ("አንድ ሰው በፓርኩ ውስጥ ውሻውን ያንሸራሽራል።", "13a"),
    "Korean": ("한 남자가 공원에서 개를 산책시키고 있다.", "13a"),
    "Finnish compounds": ("Lentokonesuihkuturbiinimoottoriapumekaanikkoaliupseerioppilas", "13a"),
    "a protein": ("MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQAPILSRVGDGTQDNLSGAEKAVQ", "13a"),
    "Chinese": ("一个男人在公园里遛狗。", "zh"),
    "Chinese with English terms": ("我们使用 PyTorch 训练 Transformer 模型，并在 Multi30k 数据集上评估。", "zh"),
    "Chinese in words": ("一个 男人 在 公园 里 遛狗 。", "zh"),
    "rare Chinese characters": ("\U00020001\U00020002\U00020003\U00020004\U00020005", "char"),
    "Japanese": ("男の人が公園で犬を散歩させています。", "char"),
    "half-width Japanese": ("ｵﾄｺﾉﾋﾄｶﾞｺｳｴﾝﾃﾞ", "char"),
    "Thai": ("ผู้ชายกำลังพาสุนัขเดินเล่นในสวนสาธารณะ", "char"),
    "Gothic": ("𐌰𐍄𐍄𐌰𐌿𐌽𐍃𐌰𐍂𐌸𐌿𐌹𐌽𐌷𐌹𐌼𐌹𐌽𐌰𐌼𐍅𐌴𐌹𐌷𐌽𐌰𐌹𐌽𐌰𐌼𐍉𐌸𐌴𐌹𐌽", "char"),
    "nothing": ("", "13a"),
}


@pytest.fixture
def without_mecab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    monkeypatch.setattr("nmt.inference.scores.require_tokenizer", require_tokenizer.__wrapped__)


@pytest.mark.parametrize("language", LANGUAGES)
def test_script_of_the_references_chooses_the_tokenizer(language: str, without_mecab: None) -> None:
    line, tokenizer = LANGUAGES[language]
    choice = choose_tokenizer([line] * 3)
    assert choice.tokenizer == tokenizer
    assert (choice.reason is None) == (tokenizer == "13a" and language != "Korean")
    if choice.reason is not None:
        assert choice.reason.startswith(f"evaluation.tokenizer={tokenizer}: ") and "\n" not in choice.reason


def test_foreign_lines_do_not_change_the_tokenizer_of_the_others() -> None:
    german, _ = LANGUAGES["German with a Chinese name"]
    assert choose_tokenizer([german] * 9 + CHINESE[:1]).tokenizer == "13a"
    assert choose_tokenizer([german, *CHINESE * 3]).tokenizer == "zh"


def test_the_setting_wins_over_the_script() -> None:
    assert choose_tokenizer(CHINESE, "char") == ("char", None)
    assert (
        corpus_scores(GUESSES[:2], CHINESE[:2], tokenizer="13a").bleu == 0 < 50 < corpus_scores(GUESSES, CHINESE).bleu
    )


@pytest.mark.parametrize("lowercase", [False, True])
def test_chinese_scores_are_those_of_sacrebleu_for_chinese(lowercase: bool) -> None:
    scores = corpus_scores(GUESSES, CHINESE, ter=True, lowercase=lowercase)
    assert scores.bleu == sacrebleu.corpus_bleu(GUESSES, [CHINESE], tokenize="zh", lowercase=lowercase).score > 50
    options = {"normalized": True, "asian_support": True, "case_sensitive": not lowercase}
    assert scores.ter == sacrebleu.corpus_ter(GUESSES, [CHINESE], **options).score
    assert scores.ter is not None and 0 < scores.ter < 30
    assert "|tok:zh|" in scores.signatures["bleu"] and "|asian:yes|" in scores.signatures["ter"]


def test_ter_of_a_text_without_spaces_counts_characters() -> None:
    thai, _ = LANGUAGES["Thai"]
    scores = corpus_scores([thai[:-1]], [thai], ter=True)
    assert scores.ter == pytest.approx(100 / len(thai)) and "|tok:char+tercom|" in scores.signatures["ter"]
    # A tokenizer of words means that spaces separate words: sacrebleu's own TER.
    assert corpus_scores([thai[:-1]], [thai], ter=True, tokenizer="none").ter == 100


@pytest.mark.parametrize("tokenizer", ["13a", "zh"])
def test_scores_and_signature_are_those_of_the_command_sacrebleu(tokenizer: str, tmp_path: Path) -> None:
    for name, lines in (("guess", GUESSES), ("reference", CHINESE)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", *f"sacrebleu reference -i guess -tok {tokenizer} -f json -w 6".split()]
    result = json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout)
    scores = corpus_scores(GUESSES, CHINESE, tokenizer=tokenizer)
    assert scores.bleu == pytest.approx(result["score"], abs=1e-5)
    assert scores.signatures["bleu"] == result["signature"]


def test_unknown_tokenizers_and_missing_packages_are_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"^evaluation\.tokenizer=mecab: unknown to sacrebleu; did you mean \w+-mecab\?; choose "
    ):
        EvaluationSettings("mecab")
    assert refusal(EvaluationSettings, "xyz").endswith(", ".join(sorted(BLEU.TOKENIZERS)))

    def offline(*_: Any, **__: Any) -> None:
        raise OSError("no network")

    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.download_file", offline)
    with pytest.raises(
        UserError,
        match=r"^evaluation\.tokenizer=flores200: its model .* \(no network\); .* set evaluation\.tokenizer=null$",
    ):
        EvaluationSettings("flores200")


def test_japanese_packages_that_are_missing_are_named(without_mecab: None) -> None:
    message = (
        r"^evaluation\.tokenizer=ja-mecab: its packages are not installed; pip install 'nmt-memory-attention\[ja\]'"
    )
    with pytest.raises(UserError, match=message):
        choose_tokenizer(CHINESE, "ja-mecab")


BLOCKS = [ord(letter) for letter in "กກཀကកᥐᨠᬅあア㐀一ꀀꦄ豈𐌰"]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(BLOCKS), st.lists(st.lists(st.integers(0, 29), min_size=24, max_size=60), min_size=1, max_size=4)
)
def test_text_of_any_script_without_spaces_gets_a_score(block: int, lines: list[list[int]]) -> None:
    references = ["".join(chr(block + number) for number in line) for line in lines]
    hypotheses = [line[:10] + line[11:] for line in references]  # one character is missing
    scores = corpus_scores(hypotheses, references, ter=True)
    assert scores.bleu > 50 and scores.ter is not None and 0 < scores.ter < 20
    perfect = corpus_scores(references, references, ter=True)
    assert perfect.bleu == pytest.approx(100) and perfect.ter == 0 and perfect.chrf == 100


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.text("abcdeäöüßжийגדהقشक", min_size=1, max_size=9), min_size=4, max_size=9), min_size=1))
def test_languages_with_spaces_keep_13a(lines: list[list[str]]) -> None:
    references = [" ".join(words) for words in lines]
    assert choose_tokenizer(references) == ("13a", None)
    assert corpus_scores(references, references).bleu == pytest.approx(100)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("lines", ["abc", None, ["a", None], [["a"], ["b"]]])
def test_anything_but_lists_of_text_is_a_type_error(side: int, lines: Any) -> None:
    texts: list[Any] = [["a b c", "d e f"], ["a b c", "d e f"]]
    texts[side] = lines
    with pytest.raises(TypeError, match=r"^(hypotheses|references)\b.*; give "):
        corpus_scores(*texts)


def test_empty_lists_have_no_score() -> None:
    with pytest.raises(UserError, match="^0 translations: nothing to score"):
        corpus_scores([], [])


def words(seed: int, count: int = 60) -> list[str]:
    source = random.Random(seed)
    return [" ".join(source.choices("Haus Katze Baum gehen früh spät Berlin café".split(), k=9)) for _ in range(count)]


LINES = words(1)
ROUGH = [" ".join(line.split()[1:]) for line in LINES]


@pytest.mark.parametrize(
    ("hypotheses", "references", "shown"),
    [
        (ROUGH, LINES, None),
        (words(2), LINES, None),
        (["a"] * 5, ["a"] * 5, None),
        ([*ROUGH[1:], "x"], LINES, "next"),
        (["x", *ROUGH[:-1]], LINES, "previous"),
        ([*ROUGH[:20], *ROUGH[21:], "x"], LINES, "next"),
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
