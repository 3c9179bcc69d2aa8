"""Text that a tokenizer cannot read is counted and named with its fix; text that it can read is not."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import unicodedata
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizer_kinds import train_sentencepiece

from nmt.settings.build import build, plain
from nmt.text.coverage import (
    Coverage,
    are_exchanged,
    coverage,
    coverage_problems,
    splits_to_letters,
    unknown_letters,
)
from nmt.text.tokenizer import Tokenizer

ENGLISH = [
    "two small dogs run through the deep white snow .",
    "a man in a blue shirt is standing on a high ladder .",
    "the young children play with a red ball in the garden .",
    "an old woman reads a long letter at the window .",
] * 5
GERMAN = [
    "Zwei kleine Hunde laufen durch den tiefen weißen Schnee .",
    "Ein Mann in einem blauen Hemd steht auf einer hohen Leiter .",
    "Die jungen Kinder spielen im Garten mit einem roten Ball .",
    "Eine alte Frau liest am Fenster einen langen Brief über Bäume .",
] * 5
# First and last letter of scripts of three families, with and without case, and of syllables and signs.
SCRIPTS = {
    "Cyrillic": "аяАЯ", "Greek": "αωΑΩ", "Armenian": "աֆ", "Hebrew": "את", "Arabic": "بي", "Devanagari": "कह",
    "Thai": "กฮ", "Georgian": "აჰ", "Ethiopic": "ሀፐ", "Hangul": "가힣", "Hiragana": "あん", "Katakana": "アン",
    "CJK": "一龥", "Cherokee": "ᎠᏴ",
}  # fmt: skip


@cache
def tokenizer(language: str = "en", *, byte_fallback: bool = True, form: str = "NFC", size: int = 340) -> Tokenizer:
    lines = [unicodedata.normalize(form, line) for line in (ENGLISH if language == "en" else GERMAN)]
    if byte_fallback:
        return Tokenizer.train(lines, vocab_size=size)
    return train_sentencepiece(lines, vocab_size=100)


def random_line(generator: random.Random, ends: str) -> str:
    codes = [code for at in range(0, len(ends), 2) for code in range(ord(ends[at]), ord(ends[at + 1]) + 1)]
    letters = [chr(code) for code in codes if unicodedata.category(chr(code)).startswith("L")]
    return " ".join("".join(generator.choices(letters, k=generator.randrange(1, 9))) for _ in range(12))


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(SCRIPTS)), st.booleans(), st.integers(0, 10**6), st.integers(1, 30))
def test_text_in_a_random_other_script_is_named(name: str, fallback: bool, seed: int, lines: int) -> None:
    generator, reader = random.Random(seed), tokenizer(byte_fallback=fallback)
    texts = [random_line(generator, SCRIPTS[name]) for _ in range(lines)]
    [problem] = coverage_problems(coverage(reader, texts), reader, "choose another model")
    assert problem.endswith("; choose another model") and f" ({name})" in problem
    assert ("<unk>" in problem) is not fallback
    assert any(repr(word) in problem for word in texts[0].split())


@settings(deadline=None, max_examples=60)
@given(st.booleans(), st.lists(st.text(max_size=40), max_size=8))
def test_unknown_tokens_are_counted(fallback: bool, texts: list[str]) -> None:
    reader = tokenizer(byte_fallback=fallback)
    counts = coverage(reader, texts)
    encoded = [reader.encode(text) for text in texts]
    pieces = [piece for ids in encoded for piece in reader.pieces(ids)]
    assert counts.tokens == len(pieces)
    assert counts.unknown == sum(piece == "<unk>" or piece.startswith("<0x") for piece in pieces)
    assert counts.words == sum(len(text.split()) for text in texts)
    assert counts.unknown_letters == sum(unknown_letters(reader, word) for text in texts for word in text.split())
    halves = coverage(reader, texts[:4])
    halves.add(coverage(reader, texts[4:]))
    assert halves == counts and build(Coverage, plain(counts)) == counts


@pytest.mark.parametrize(
    "texts",
    [
        ENGLISH,
        ["Müller"],
        ["é"],
        ["😀"],
        [f"{line} 😀👩‍👩‍👧❤️" for line in ENGLISH],
        [line.replace(".", "…”") for line in ENGLISH],
        [*ENGLISH, "a man in Москва ."],
        ["a man called Чехов"],
        [],
        ["", " "],
    ],
)
@pytest.mark.parametrize("fallback", [True, False])
def test_emoji_rare_names_and_punctuation_are_no_problem(texts: list[str], fallback: bool) -> None:
    reader = tokenizer(byte_fallback=fallback)
    assert coverage_problems(coverage(reader, texts), reader, "no") == []


@pytest.mark.parametrize("text", ["Чехов", "你好", "안녕하세요 여러분"])
def test_one_line_without_any_readable_letter_is_named(text: str) -> None:
    assert coverage_problems(coverage(tokenizer(), [text]), tokenizer(), "choose another model")


@pytest.mark.parametrize(
    ("form", "convert", "fix"),
    [
        ("NFC", lambda text: unicodedata.normalize("NFD", text), "decomposed (NFD): compose them"),
        ("NFD", lambda text: unicodedata.normalize("NFC", text), "convert it with uconv -x any-nfd"),
        ("NFC", lambda text: text.translate({code: code + 0xFEE0 for code in range(0x41, 0x7B)}), "any-nfkc"),
    ],
)
def test_another_unicode_form_is_named(form: str, convert, fix: str) -> None:  # type: ignore[no-untyped-def]
    words = ["für", "Bäume", "Schüler", "größte", "öde"]
    lines = [" ".join(words)] * 40
    reader = Tokenizer.train([unicodedata.normalize(form, line) for line in lines], vocab_size=290)
    assert coverage(reader, [unicodedata.normalize(form, line) for line in lines]).unknown == 0
    [problem] = coverage_problems(coverage(reader, [convert(line) for line in lines]), reader, "no")
    assert fix in problem


@pytest.mark.parametrize(
    ("known", "given", "fix"),
    [
        (
            "این یک کتاب کوچک است",
            "این يك كتاب كوچك است",
            "the letters of Persian: convert it with sed 's/ي/ی/g; s/ك/ک/g'",
        ),
        ("هذا كتاب كبير في البيت", "هذا کتاب کبیر فی البیت", "the letters of Arabic: convert it with sed"),
        ("המורה קורא ספר", "הַמּוֹרֶה קוֹרֵא סֵפֶר", "does not know its vowel marks: remove them with perl"),
        ("هذا كتاب جيد", "هٰذَا كِتَابٌ جَيِّدٌ", "does not know its vowel marks: remove them with perl"),
    ],
)
def test_another_form_of_letters_is_named(known: str, given: str, fix: str) -> None:
    reader = Tokenizer.train([known] * 40, vocab_size=272)
    [problem] = coverage_problems(coverage(reader, [given] * 40), reader, "no")
    assert fix in problem
    if "perl" in fix and shutil.which("perl"):
        [command] = re.findall("perl -CSD -pe '(.*)'", problem)
        changed = subprocess.run(["perl", "-CSD", "-pe", command], input=given.encode(), capture_output=True)
        assert changed.stdout.decode() == known


def test_capital_letters_are_named() -> None:
    reader = Tokenizer.train([line.lower() for line in ENGLISH], vocab_size=340)
    [problem] = coverage_problems(coverage(reader, [line.upper() for line in ENGLISH]), reader, "no")
    assert problem.endswith("lower-case the text")


@pytest.mark.parametrize(
    "mark", ["sm@@ all", "▁small", "it &apos;s", "&quot; a", "a &amp; b", "well @-@ known", "end@@", "<b>x</b>"]
)
def test_marks_of_other_tools_are_named_unless_the_tokenizer_knows_them(mark: str) -> None:
    lines = [f"{line} {mark}" for line in ENGLISH]
    [problem] = coverage_problems(coverage(tokenizer(), lines), tokenizer(), "no")
    assert problem.startswith("20 of 20 lines contain ")
    trained = Tokenizer.train(lines, vocab_size=345)
    assert coverage_problems(coverage(trained, lines), trained, "no") == [] or "▁" in mark
    own = coverage_problems(coverage(trained, lines), trained, "no", learned_it=True)
    assert len(own) == any(tool in mark for tool in ("@@", "▁"))
    assert coverage_problems(coverage(tokenizer(), [*ENGLISH * 5, lines[0]]), tokenizer(), "no") == []


@pytest.mark.parametrize(
    ("change", "fix"),
    [
        (lambda line: f"S-1\t{line}", "as with cut -f2"),
        (lambda line: f"{line} ||| {line}", "as with sed"),
        (lambda line: line.replace(" ", "|a ") + "|.", "words have factors"),
        (lambda line: line.replace(" a ", " a\uffed "), "OpenNMT has split"),
        (lambda line: f'<seg id="1">{line}</seg>', "between <seg> and </seg>"),
        (lambda line: f"<p>{line}</p>", "translate with format=html"),
        (lambda line: f'msgid "{line}"', "translate it with format=po"),
        (lambda line: f'{{"en": "{line}"}}', "lines are JSON"),
        (lambda line: f"00:00:01,000 --> 00:00:02,000 {line}", "translate with format=srt"),
    ],
)
def test_formats_of_other_tools_are_named(change, fix: str) -> None:  # type: ignore[no-untyped-def]
    lines = [change(line) for line in ENGLISH]
    assert [fix in problem for problem in coverage_problems(coverage(tokenizer(), lines), tokenizer(), "no")] == [True]


@pytest.mark.parametrize("line", ["\tan indented line", "a man | a dog", "a\t|b| and c", "x || y", "one"])
def test_tabs_and_bars_within_text_are_not_named(line: str) -> None:
    lines = [*ENGLISH, *[line] * 18]
    assert coverage_problems(coverage(tokenizer(), lines), tokenizer(), "no") == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.encode("cp1252").decode("utf-8", "replace"),
        lambda text: text.encode("cp1252").decode("latin-1"),
        lambda text: text.encode().decode("latin-1"),
        lambda text: text.encode().decode("cp1252", "replace"),
    ],
)
@pytest.mark.parametrize("text", ["the dog’s ball", "“small” dogs", "a caf\u00e9 – a bar"])
def test_text_in_a_wrong_charset_is_named_also_if_the_tokenizer_learned_it(damage, text: str) -> None:  # type: ignore[no-untyped-def]
    lines = [*ENGLISH, damage(text)]
    trained = Tokenizer.train(lines, vocab_size=345)
    for reader in (tokenizer(), trained):
        [problem] = coverage_problems(coverage(reader, lines), reader, "no")
        assert problem.startswith("1 of 21 lines have characters of a wrong charset")
    assert coverage_problems(coverage(tokenizer(), [*ENGLISH, text]), tokenizer(), "no") == []


@pytest.mark.parametrize("fallback", [True, False])
def test_exchanged_tokenizers_are_noticed_also_in_one_script(fallback: bool) -> None:
    english, german = (tokenizer(language, byte_fallback=fallback) for language in ("en", "de"))
    assert are_exchanged(german, english, ENGLISH, GERMAN)
    assert not are_exchanged(english, german, ENGLISH, GERMAN)
    assert not are_exchanged(english, english, GERMAN, ENGLISH)


def test_unknown_words_of_a_tokenizer_of_words_are_named() -> None:
    """Each of its letters occurs in another piece."""
    known = ["cat dog tac", "god cat dog"] * 20
    reader = train_sentencepiece(known, model_type="word", vocab_size=8)
    assert coverage_problems(coverage(reader, known), reader, "advice") == []
    [problem] = coverage_problems(coverage(reader, ["cat goat dog tag dot"] * 40), reader, "advice")
    assert problem.startswith("50.0 % of the tokens are <unk>, as in 'goat' (Latin), ") and problem.endswith("; advice")


@pytest.mark.parametrize(("ends", "split"), [("가힣", False), ("ая", True)])
def test_scripts_of_syllables_may_have_a_token_for_each_letter(ends: str, split: bool) -> None:
    """In Korean, a tokenizer that was trained for it may need as many tokens as another one for a foreign language."""
    generator = random.Random(1)
    lines = [random_line(generator, ends) for _ in range(200)]
    words = ["".join(generator.choices("aeinrst", k=generator.randrange(6, 14))) for _ in range(2000)]
    alphabet = sorted({*"".join(lines)} - {" "})[:600]
    known = [line for line in lines if {*line} <= {*alphabet, " "}] or ["".join(alphabet)]
    reader = Tokenizer.train([" ".join(words)] * 3 + known, vocab_size=3000)
    text = [" ".join("".join(generator.choices(alphabet, k=3)) for _ in range(10)) for _ in range(40)]
    counts = coverage(reader, text)
    assert counts.tokens > 0.6 * counts.characters and not coverage_problems(counts, reader, "x")
    assert splits_to_letters(counts, reader) is split
