"""Warnings about texts whose scores mislead; ordinary text gives none."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Sequence

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.inference.scores import choose_tokenizer, print_hints

WORDS = (
    *("café", "größer", "l'été", "Straße", "señor", "hôtel", "garçon", "Mädchen", "naïve", "œuvre", "don't", "Katze"),
    *("Haus", "well-known", "Über", "maison", "dog", "runs", "Baum", "gehen", "früh", "spät", '"so"', "Berlin"),
)


def text(seed: int, count: int = 60) -> list[str]:
    source = random.Random(seed)
    return [" ".join(source.choices(WORDS, k=source.randint(6, 12))) + "." for _ in range(count)]


def noisy(lines: Sequence[str]) -> list[str]:
    """Return the lines, each without one of its words: BLEU is about 80."""
    return [" ".join(words[: row % 5 + 1] + words[row % 5 + 2 :]) for row, words in enumerate(map(str.split, lines))]


def hints(
    hypotheses: Sequence[str], references: Sequence[str], capsys: pytest.CaptureFixture[str], **how: object
) -> str:
    choice = choose_tokenizer(references)
    print_hints(choice, hypotheses, references, **how)  # type: ignore[arg-type]
    return capsys.readouterr().err


CHANGES: dict[str, tuple[Callable[[str], str], str]] = {
    "NFD": (lambda line: unicodedata.normalize("NFD", line), "the same Unicode normal form"),
    "curly": (lambda line: line.replace("'", "’").replace('"', "“"), "the same quotation marks"),
    "wide": (lambda line: line.replace("o", "\uff4f").replace(" ", "\u3000"), "the same width of characters"),
    "soft hyphens": (lambda line: line.replace("a", "a\u00ad"), "the same invisible characters"),
    "pieces": (lambda line: line.replace("s", "s@@ "), "the same subword pieces"),
    "SentencePiece": (lambda line: "▁" + line.replace(" ", " ▁").replace("s", "s "), "the same subword pieces"),
    "Moses": (lambda line: line.replace("'", " '").replace("-", " @-@ "), "the same word tokenization"),
    "entities": (lambda line: line.replace("'", " &apos;"), "the same word tokenization"),
    "lower case": (str.lower, "the same case"),
    "capitals": (str.upper, "the same case"),
}


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("change", CHANGES)
def test_a_difference_of_the_whole_text_is_named_with_both_scores(
    change: str, side: int, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = text(1)
    sides = [noisy(lines), lines]
    true = sacrebleu.corpus_bleu(sides[0], [sides[1]]).score
    sides[side] = [CHANGES[change][0](line) for line in sides[side]]
    warning = hints(*sides, capsys).splitlines()
    before = sacrebleu.corpus_bleu(sides[0], [sides[1]], force=True).score
    assert len(warning) == 1 and warning[0].startswith(f"warning: BLEU {before:.1f} would be ")
    assert CHANGES[change][1] in warning[0]
    if change in ("NFD", "pieces", "soft hyphens"):  # the original text comes back
        assert f"would be {true:.1f} if" in warning[0]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(20, 60), st.sampled_from([0, 1]))
def test_random_text_in_another_normal_form_is_named_and_others_give_no_warning(
    seed: int, count: int, side: int
) -> None:
    from _pytest.capture import SysCapture

    lines = text(seed, count)
    capture = SysCapture(2)
    capture.start()
    try:
        print_hints(choose_tokenizer(lines), noisy(lines), lines)
        assert capture.snap() == ""
        sides = [noisy(lines), lines]
        sides[side] = [unicodedata.normalize("NFD", line) for line in sides[side]]
        print_hints(choose_tokenizer(lines), *sides)
        assert "normal form" in capture.snap()
    finally:
        capture.done()


FORMS = {
    "Arabic yeh and kaf": ("کتاب یک کوچک این زندگی می خانه", "یک", "يك", "the same letters"),
    "Romanian cedillas": ("și țara ține la oamenii săi acum", "șț", "şţ", "the same letters"),
    "digits": ("سنة ٣٠ يوم ١٢ كتاب ٤٥ ساعة", "٠١٢٣٤٥", "012345", "the same digits"),
    "niqqud": ("הַיֶּלֶד קוֹרֵא סֵפֶר אָדֹם בַּיִת", "\u05b7\u05b6\u05b9\u05b5\u05b8\u05b4\u05bc", None, "the same vowel marks"),
    "gershayim": ('צה"ל הוא דו"ח של רמטכ"ל עם יו"ר', '"', "״", "the same quotation marks"),
    "traditional Chinese": (
        "我们 这个 国家 来说 时间 学习 看见 你好",
        "们这个国来说时间学见",
        "們這個國來說時間學見",
        "the same Chinese",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_another_form_of_the_letters_is_named(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, old, new, named = FORMS[form]
    source = random.Random(1)
    blank = "" if "Chinese" in form else " "
    lines = [" ".join(source.choices(words.split(), k=9)) for _ in range(60)]
    changed = [line.translate(str.maketrans(old, new) if new else dict.fromkeys(map(ord, old))) for line in lines]
    sides = [[line.replace(" ", blank) for line in side] for side in (noisy(lines), lines, changed, noisy(changed))]
    assert "warning" not in hints(sides[0], sides[1], capsys)
    for hypotheses, references in ((sides[0], sides[2]), (sides[3], sides[1])):
        warnings = [line for line in hints(hypotheses, references, capsys).splitlines() if "warning" in line]
        assert len(warnings) == 1 and named in warnings[0]


@pytest.mark.parametrize("mark", "।۔؟።")
def test_a_space_before_the_full_stop_of_another_script_is_named(mark: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = random.Random(1)
    lines = [" ".join(source.choices("कम पानी घर फल बड़ा नया".split(), k=6)) + mark for _ in range(60)]
    spaced = [line.replace(mark, f" {mark}") for line in lines]
    assert not hints(noisy(lines), lines, capsys)
    assert "the same spaces before full stops and commas" in hints(noisy(lines), spaced, capsys)


def test_words_with_vowel_signs_are_compared_too(capsys: pytest.CaptureFixture[str]) -> None:
    """In Hindi, nearly every word has one, and str.isalpha is false for such a word."""
    words = ["किताब", "अच्छी", "पढ़ता", "लड़का", "बिल्ली", "खिड़की", "पानी में", "दूसरी"]
    source = random.Random(1)
    lines = [" ".join(source.choices(words, k=8)) for _ in range(60)]
    other = [" ".join(f"{word}\u0902" for word in line.split()) for line in lines]
    assert not hints(noisy(lines), lines, capsys)
    assert "only 0% of the words of the translations occur in the references" in hints(other, lines, capsys)


def test_files_that_do_not_belong_together_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    references, sources = text(2), [f"the man number {row} sees that many birds {row}" for row in range(60)]
    shifted = [*noisy(references)[1:], "x"]
    assert "fit the next reference (BLEU" not in hints(noisy(references), references, capsys)
    assert "fit the previous reference" in hints(["x", *noisy(references)[:-1]], references, capsys)
    assert "missing or additional line" in hints(shifted, references, capsys)
    later = [*noisy(references)[:28], *shifted[28:]]
    assert "warning: the last 30 translations fit the next reference (BLEU" in hints(later, references, capsys)
    copied = hints(noisy(sources), references, capsys, sources=sources)
    assert "resemble the sources" in copied and "exchanged" in copied
    assert "60 of 60 references equal their source" in hints(noisy(references), sources, capsys, sources=sources)
    reads_target = [f"{' '.join(reversed(line.split()))} Katze gehen" for line in sources]
    message = "only 29% of the words of the translations occur in the references, and 71% in the sources; are they of"
    assert message in hints(reads_target, references, capsys, sources=sources)
    english = [line.replace("Katze", "river").replace("gehen", "mountain") for line in sources]
    assert "% of the words of the translations occur in the references" in hints(english, references, capsys)
    assert hints(english, references, capsys, finished=False) == ""  # a model in training may write anything
    assert hints(sources, sources, capsys, sources=sources) == ""  # a copy task


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (["a b c d"] * 300, ["a b c d"] * 288 + ["", " "] * 6, "12 of 300 references are blank"),
        ([""] * 30, ["a b c d"] * 30, "30 of 30 translations are blank"),
        (["a b c d"] * 5 + [""] * 2, ["a b c d"] * 7, "2 of 7 translations are blank"),
        (["a b c d"] * 9, ["a b <unk> d"] * 9, "9 of 9 references are cut by <unk>"),
        (["a b c"] * 9, ["a b c"] * 9, "no translation has four tokens, so BLEU"),
        (["a b c d"], ["a b c d"], "1 sentence: BLEU is meant for a test set"),
        (["a b c d."] * 10, ["a b c d ."] * 10, "0 translations and 10 references have a space before a full stop"),
        (
            ["-0.5\ta b c d"] * 10,
            ["a b c d"] * 10,
            "10 translations and 0 references have a tab or |||; keep",
        ),
        (["7 ||| a b c d ||| -0.5"] * 9, ["a b c d"] * 9, "9 translations and 0 references have a tab or |||; keep"),
        (["a b c d"] * 9, ["a b c d\te f"] * 9, "0 translations and 9 references have a tab or |||; keep"),
        (['{"de": "a b c"},'] * 9, ["a b c d"] * 9, "9 translations and 0 references have quotation marks"),
        (["a b c d"] * 9, ['"a b c d"'] * 9, "0 translations and 9 references have quotation marks"),
        (
            ["a b c d"] * 9,
            ["<seg>a b c d</seg>"] * 9,
            "0 translations and 9 references have quotation marks",
        ),
        (["a b c d"] * 10, ["a b c d"] * 7 + ["今天天气很好"] * 3, "3 of 10 references have no spaces between words"),
    ],
)
def test_unusual_lines_are_counted(
    hypotheses: list[str], references: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"warning: {message}" in hints(hypotheses, references, capsys)


def test_translations_without_full_stops_have_no_spaces_before_them(capsys: pytest.CaptureFixture[str]) -> None:
    """As a model that has hardly learned writes them."""
    assert "full stop" not in hints(["a b c d"] * 10, ["a b c d ."] * 10, capsys)


def test_case_that_is_ignored_gives_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    lines = text(3)
    assert hints([line.lower() for line in noisy(lines)], lines, capsys, lowercase=True) == ""
