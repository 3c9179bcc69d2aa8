"""nmt-align: links of given pairs equal those of forced decoding, from files and from stdin."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from builders import expect_error, write_lines
from commands.processes import MAIN, start
from commands.texts import SOURCE, Call, Printed

from nmt.alignment.word_weights import word_weights
from nmt.commands.align import align
from nmt.commands.translate import translate
from nmt.data.lexicon import read_lexicon
from nmt.inference.forced_decoding import ForcedDecoding, force_decode
from nmt.inference.translator import Translator

TARGET = ["der Hund sieht eine Katze", "nichts", "ein rotes Haus", ""]


def naive_links(model: Path) -> list[str]:
    """Return a line of links per pair: for each target word, the first source word with the largest weight."""
    lines = []
    for decoding in force_decode(Translator.load(model), SOURCE, TARGET):
        weights = word_weights(decoding).tolist() if decoding.source_words else []
        links = sorted((row.index(max(row)), j) for j, row in enumerate(weights))
        lines.append(" ".join(f"{i}-{j}" for i, j in links))
    return lines


def test_links_of_files_and_of_stdin_are_those_of_forced_decoding(model: Path, files: Path, call: Call) -> None:
    write_lines("tgt", TARGET)
    expected = naive_links(model)
    assert [len(line.split()) for line in expected] == [5, 0, 3, 0]
    assert call(align, f"model={model}", "src=src", "tgt=tgt").lines == expected
    text = "".join(f"{source}\t{target}\n" for source, target in zip(SOURCE, TARGET, strict=True))
    assert call(align, f"model={model}", stdin=text.encode()).lines == expected


def test_lexicon_has_the_most_frequent_link_of_each_word(model: Path, files: Path, call: Call) -> None:
    write_lines("tgt", TARGET)
    counts: dict[str, list[str]] = {}
    for line, source, target in zip(naive_links(model), SOURCE, TARGET, strict=True):
        for i, j in (map(int, link.split("-")) for link in line.split()):
            counts.setdefault(source.split()[i], []).append(target.split()[j])
    lexicon = Path("lexicon.tsv.gz")
    words = [f"model={model}", "src=src", "tgt=tgt", f"lexicon={lexicon}"]
    for least in (1, 2):
        assert call(align, *words, f"lexicon_min_count={least}").lines == naive_links(model)
        best = {
            source: min(targets, key=lambda word: (-targets.count(word), word)) for source, targets in counts.items()
        }
        expected = {source: best[source] for source, words in counts.items() if words.count(best[source]) >= least}
        assert read_lexicon(lexicon) == expected if expected else not gzip.decompress(lexicon.read_bytes())


def test_exchanged_sides_are_named(model: Path, files: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is replaced by one that expects SOURCE on the left, and finds the other order improbable."""

    def decode(_: object, sources: list[str], targets: list[str], **how: object) -> list[ForcedDecoding]:
        log_prob = -3.0 if sources == SOURCE else -15.0
        return [ForcedDecoding([], ["a", "b", "</s>"], [], [], np.zeros((3, 1)), log_prob) for _ in targets]

    monkeypatch.setattr("nmt.inference.forced_decoding.force_decode", decode)
    write_lines("tgt", TARGET)
    warning = "warning: the first pairs are much more probable the other way round; "
    assert warning not in call(align, f"model={model}", "src=src", "tgt=tgt").error
    assert f"{warning}exchange src= and tgt=" in call(align, f"model={model}", "src=tgt", "tgt=src").error
    text = "".join(f"{target}\t{source}\n" for source, target in zip(SOURCE, TARGET, strict=True)).encode()
    assert f"{warning}write the source before the tab" in call(align, f"model={model}", stdin=text).error


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("小さな黒い犬が白い雪の中を走っている。", True),
        ("หมาดำตัวเล็กกำลังวิ่ง บนหิมะสีขาว", True),
        ("小さな 黒い 犬 が 白い 雪 の 中 を 走って いる 。", False),
        ("หมา ดำ ตัว เล็ก กำลัง วิ่ง บน หิมะ สี ขาว", False),
        ("ผม อยาก กิน ข้าวผัด ที่ ร้านอาหาร ใกล้ โรงเรียน กรุงเทพมหานคร", False),
        ("ខ្ញុំ សុខសប្បាយ ទេ អ្នក មាន សៀវភៅ ប៉ុន្មាន ក្បាល នៅ ក្នុង សាលារៀន ភ្នំពេញ", False),
        ("작은 검은 개가 하얀 눈 속을 달린다.", False),
        ("", False),
    ],
)
@pytest.mark.filterwarnings("ignore:.*of the tokens are")
def test_text_whose_words_are_not_split_is_named(model: Path, files: Path, call: Call, line: str, named: bool) -> None:
    """Its links are useless: a line is a word or two."""
    write_lines("tgt", [line] * len(SOURCE))
    error = call(align, f"model={model}", "src=src", "tgt=tgt").error
    warning = "warning: {}: a word ends at a space, but its lines have hardly any; split"
    assert (warning.format("target") in error) is named
    assert warning.format("source") not in error
    error = call(translate, f"model={model}", "alignments=links", "search=greedy", input := "input=tgt").error
    assert (warning.format("source") in error) is named
    assert warning.format("target") not in error
    assert "a word ends" not in call(translate, f"model={model}", input, "search=greedy").error


@pytest.mark.parametrize("settings", ["search.n_best=2", "scores=true", ""])
def test_translations_whose_words_are_not_split_are_named(
    model: Path, files: Path, call: Call, monkeypatch: pytest.MonkeyPatch, settings: str
) -> None:
    monkeypatch.setattr("nmt.text.tokenizer.Tokenizer.decode", lambda *_, **__: "小さな黒い犬が白い雪の中を走る。")
    error = call(translate, f"model={model}", "alignments=links", "input=src", *settings.split()).error
    assert error.count("warning: target: a word ends at a space, but its lines have hardly any; split") == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (b"the\tdog\tder Hund", "2 tabs; write a source, one tab and a translation"),
        (b"the dog ||| der Hund", r"0 tabs; .* on each line, as with sed 's/ \|\|\| /\\t/'"),
        (b"a cat eine Katze", "0 tabs; write"),
        (b"a\t\xff", "invalid UTF-8"),
    ],
)
def test_pairs_before_a_wrong_line_are_aligned(
    wrong: bytes, message: str, model: Path, call: Call, printed: Callable[[], Printed]
) -> None:
    text = b"the dog\tder Hund\n   \n" + wrong + b"\nthe cat\tdie Katze\n"
    expect_error(f"^<stdin>:3: {message}", call, align, f"model={model}", stdin=text)
    first, blank = printed().lines
    assert len(first.split()) == 2 and not blank


@pytest.mark.thorough
def test_pairs_of_stdin_are_aligned_as_they_arrive(model: Path) -> None:
    with start(MAIN.format("align"), [f"model={model}", "threads=1"]) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        for _ in range(2):
            process.stdin.write(b"the dog\tder Hund\n")
            process.stdin.flush()
            assert len(process.stdout.readline().split()) == 2
        process.stdin.close()
        assert (process.stdout.read(), process.stderr.read(), process.wait()) == (b"", b"", 0)
