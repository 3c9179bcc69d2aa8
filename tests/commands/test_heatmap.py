"""nmt-heatmap: draws given pairs and the model's own translations, as pictures or as one page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from builders import expect_error, write_lines
from commands.texts import SOURCE, TARGET, Call

from nmt.commands.heatmap import heatmap
from nmt.inference.forced_decoding import force_decode, word_weights
from nmt.inference.translator import Translator

LINKED = ["src=src", "tgt=tgt", "links=links", "output=o"]


@pytest.fixture
def words(model: Path, files: Path) -> list[str]:
    """The arguments that name the model and the source, and write into the folder o."""
    write_lines("links", ["0-0 1p1", "", "0-0", "0-0"])
    return [f"model={model}", "src=src", "output=o"]


@pytest.mark.thorough
@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
@pytest.mark.parametrize("granularity", ["word", "piece"])
def test_own_translations_are_drawn_as_pictures(
    suffix: str, start: bytes, granularity: str, words: list[str], call: Call
) -> None:
    settings = ["output=a/b", "limit=3", f"format={suffix}", f"granularity={granularity}"]
    pictures = [Path(line) for line in call(heatmap, *words, *settings).lines]
    assert [file.name for file in pictures] == [f"0001.{suffix}", f"0003.{suffix}"]  # blank lines are not drawn
    assert sorted(Path("a/b").iterdir()) == [Path("a/b/.lock"), *pictures]
    assert all(file.read_bytes().startswith(start) for file in pictures)


def drawn_weights(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> list[tuple[np.ndarray, list[str], list[str]]]:
    """Run the command and return the weights of each picture with the labels of its columns and rows."""
    pictures: list[tuple[np.ndarray, list[str], list[str]]] = []

    def record(weights: np.ndarray, source: list[str], target: list[str], *_: object, **__: object) -> None:
        pictures.append((weights, source, target))

    monkeypatch.setattr("nmt.alignment.heatmap.save_heatmap", record)
    heatmap(arguments)
    return pictures


def test_titles_name_model_and_attention_or_are_left_out(
    model: Path, files: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    titles: list[str] = []
    monkeypatch.setattr("nmt.alignment.heatmap.save_heatmap", lambda *_, title, **__: titles.append(title))
    monkeypatch.chdir(model)
    words = ["model=.", f"src={files}/src", f"output={files}/o", "limit=1"]
    given = f"tgt={files}/tgt"
    for target, origin in ([given], "force-decoded"), ([], "own translation"):
        call(heatmap, *words, *target)
        assert titles.pop() == f"{model.name}, Bahdanau attention\nsrc, line 1, {origin}"
    call(heatmap, *words, given, "title=false")
    assert titles == [""]
    (page,) = call(heatmap, *words, given, "title=false", "format=html").lines
    assert "<h1>" not in Path(page).read_text("utf-8")


GOLD = ["0-0 1p1", "", "0-0", "0-0 7-7"]  # the last link points outside its sentence
NAACL = ["1 0 0 S", "1 1 1 P", "3 0 0 S", "4 0 0 S", "4 7 7 S"]


@pytest.mark.parametrize("lines", [GOLD, GOLD[:3], NAACL, NAACL[:3], [*NAACL[3:], *NAACL[:3]]])
def test_links_are_needed_for_the_drawn_lines_only(lines: list[str], words: list[str], call: Call) -> None:
    write_lines("links", lines)
    (page,) = call(heatmap, *words, *LINKED, "format=html", "limit=3").lines
    assert Path(page).read_text("utf-8").count('class="gold"') == 3
    if lines not in (NAACL[:3],):  # NAACL lists no sentence without links
        expect_error(
            r"links:\d: .*points outside|links has 3 lines of links for 4 sentences",
            heatmap,
            [*words, *LINKED, "limit=4"],
        )


def test_pictures_of_an_earlier_command_are_named(words: list[str], call: Call) -> None:
    for limit, warning in (4, ""), (4, ""), (1, "also holds 2 pictures of an earlier command, such as 0003.png; "):
        _, error = call(heatmap, *words, "tgt=tgt", f"limit={limit}")
        assert error.partition("warning: output=o: ")[2].startswith(warning)
    assert len(list(Path("o").iterdir())) == 4  # with .lock: nothing is deleted


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "html"])
def test_pictures_of_the_user_are_not_replaced(suffix: str, words: list[str]) -> None:
    mine = Path("o") / ("alignments.html" if suffix == "html" else f"0001.{suffix}")
    mine.parent.mkdir()
    mine.write_text("mine")
    expect_error(
        f"^o: holds {mine.name}, which this command has not written; choose another",
        heatmap,
        [*words, f"format={suffix}", "limit=1"],
    )
    assert mine.read_text() == "mine"


def test_own_translations_read_no_line_beyond_the_limit(words: list[str], call: Call) -> None:
    Path("src").write_bytes(b"the dog\n\xff\n")
    assert len(call(heatmap, *words, "limit=1").lines) == 1


def test_bytes_of_unknown_characters_are_labelled_as_bytes(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write_lines("src", ["the ❤ dog"])
    ((_, source, _),) = drawn_weights([*words, "granularity=piece"], monkeypatch)
    assert [label for label in source if "❤" in label] == ["<0xE2> ❤ 1/3", "<0x9D> ❤ 2/3", "<0xA4> ❤ 3/3"]


def test_chinese_sentence_is_split_into_pieces(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write_lines("src", ["我喜欢猫 dog"])
    write_lines("tgt", ["Hund"])
    ((weights, source, target),) = drawn_weights([*words, "tgt=tgt"], monkeypatch)
    assert (source, target) == (["我", "喜", "欢", "猫", "dog"], ["Hund"])  # the tokenizer knows no Chinese pieces
    np.testing.assert_allclose(weights.sum(), 1)
    write_lines("links", ["1-0"])
    ((weights, source, _),) = drawn_weights([*words, *LINKED], monkeypatch)
    assert source == ["我喜欢猫", "dog"] and weights.shape == (1, 2)  # gold links count words


def test_word_weights_of_given_pairs_are_force_decoded(
    model: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = drawn_weights([*words, "tgt=tgt"], monkeypatch)
    translator = Translator.load(model)
    for row, (weights, source, target) in zip((0, 2, 3), pictures, strict=True):
        (decoding,) = force_decode(translator, [SOURCE[row]], [TARGET[row]])
        np.testing.assert_allclose(weights, word_weights(decoding), atol=1e-6)
        assert (source, target) == (SOURCE[row].split(), TARGET[row].split())


def test_piece_weights_of_own_translations_are_those_of_the_search(
    model: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ((weights, source, target),) = drawn_weights([*words, "granularity=piece", "limit=1"], monkeypatch)
    translation = Translator.load(model).translate(SOURCE[:1])[0]
    assert (source, target) == (translation.source_tokens, translation.tokens) and source[-1] == "</s>"
    np.testing.assert_allclose(weights, translation.alignment, atol=1e-5)  # Bahdanau weights already sum to 1
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)


def test_pair_too_large_for_a_page_is_skipped(words: list[str], call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.commands.heatmap.MAX_PAGE_CELLS", 9)
    write_lines("src", [line or "nothing" for line in SOURCE])
    (page,), error = call(heatmap, *words, "tgt=tgt", "format=html")
    assert re.findall(r"<h2>(\d+)</h2>", Path(page).read_text("utf-8")) == ["2", "3", "4"]
    assert error.startswith("warning: src:1: 5 × 5 words are too many for a page, skipped")


def test_pairs_with_an_empty_side_are_counted(short_model: Path, files: Path, call: Call) -> None:
    write_lines("src", [*SOURCE, "cat " * 30])  # the last is too long for the model
    write_lines("tgt", [*TARGET[:3], " ", "Katze"])
    words = [f"model={short_model}", "src=src", "output=o"]
    for target, empty, names in (["tgt=tgt"], 2, ["0001", "0003"]), ([], 1, ["0001", "0003", "0004"]):
        lines, error = call(heatmap, *words, *target)
        assert [Path(line).stem for line in lines] == names
        first, last = error.splitlines()
        assert first.startswith("warning: src:5: a source of ")
        assert first.endswith("it is not aligned" if target else "its translation is empty")
        assert last == f"warning: src: {empty} of 5 pairs not drawn: the line or its translation is empty"


def test_page_of_signed_pieces_shows_both_signs(make_model: Callable[..., Path], words: list[str], call: Call) -> None:
    model = make_model("CovarianceAttention")
    (page,) = call(heatmap, *words, f"model={model}", "format=html", "granularity=piece").lines
    cells = re.findall(r'<td title="(\S+)" style="background:#(..)..(..);', Path(page).read_text("utf-8"))
    largest = max(abs(float(weight)) for weight, _, _ in cells)
    clear = [cell for cell in cells if abs(float(cell[0])) > largest / 10]
    signs = {(float(weight) > 0, int(blue, 16) > int(red, 16)) for weight, red, blue in clear}
    assert signs == {(True, True), (False, False)}  # blue is positive, red negative


@pytest.mark.parametrize("given", [["tgt=tgt"], []], ids=["given", "translated"])
def test_slots_are_drawn_for_each_pair(
    given: list[str], nested: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[np.ndarray, np.ndarray, list[str], list[str]]] = []
    monkeypatch.setattr("nmt.alignment.heatmap.save_slots", lambda *pair, title: drawn.append(pair[:4]))
    heatmap([*words, f"model={nested}", "slots=true", "limit=1", *given])
    ((write, read, source, target),) = drawn
    assert (read.shape, write.shape) == ((len(target), 6), (6, len(source)))
    if given:
        (pair,) = force_decode(Translator.load(nested, engine="torch"), SOURCE[:1], TARGET[:1])
        np.testing.assert_allclose(read @ write, pair.alignment, rtol=1e-4, atol=1e-6)


def test_lines_without_words_have_no_picture_of_slots(nested: Path, words: list[str], call: Call) -> None:
    lines, error = call(heatmap, *words, "tgt=tgt", f"model={nested}", "slots=true", "limit=3")
    assert [Path(line).name for line in lines] == ["0001.png", "0003.png"]
    assert "warning: src: 1 of 3 pairs not drawn: the line or its translation is empty" in error


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("attention", "options", "problem"),
    [
        ("KernelAttention", {"feature_map": "softmax"}, None),
        ("KernelAttention", {"feature_map": "taylor"}, "has negative weights"),  # only their sums are positive
        ("CovarianceAttention", {}, "has negative weights"),
        ("LuongAttention", {}, "keeps every source state"),
    ],
)
def test_slots_are_drawn_where_the_attention_has_them_and_no_weight_is_negative(
    attention: str,
    options: dict[str, str],
    problem: str | None,
    make_model: Callable[..., Path],
    words: list[str],
    call: Call,
) -> None:
    words = [*words, f"model={make_model(attention, **options)}", "tgt=tgt", "slots=true", "limit=1"]
    if problem is None:
        assert [Path(line).name for line in call(heatmap, *words).lines] == ["0001.png"]
    else:
        expect_error(f"slots=true: .* attention {problem}; use a model with slots", heatmap, words)
        assert not Path("o").exists()
