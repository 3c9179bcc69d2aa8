"""nmt-heatmap: draws given pairs and the model's own translations, as pictures or as one page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nmt.commands.heatmap import heatmap
from nmt.errors import UserError
from nmt.inference.forced_decoding import force_decode, word_weights
from nmt.inference.translator import Translator

SOURCE = ["the dog sees a cat", "", "a red house", "the cat sleeps"]
TARGET = ["der Hund sieht eine Katze", "nichts", "ein rotes Haus", "die Katze schläft"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the files src, tgt and links."""
    for name, lines in {"src": SOURCE, "tgt": TARGET}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "links").write_text("0-0 1p1\n\n0-0\n0-0\n")
    return tmp_path


def printed_files(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[Path]:
    """Run the command and return the files that it lists on stdout."""
    heatmap(arguments)
    return [Path(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.thorough
@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
@pytest.mark.parametrize("granularity", ["word", "piece"])
def test_own_translations_are_drawn_as_pictures(
    suffix: str, start: bytes, granularity: str, model: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [f"model={model}", f"src={files}/src", f"output={files}/a/b", "limit=3", "search.max_length=9"]
    pictures = printed_files([*arguments, f"format={suffix}", f"granularity={granularity}"], capsys)
    assert [file.name for file in pictures] == [f"0001.{suffix}", f"0003.{suffix}"]  # blank lines are not drawn
    assert sorted((files / "a" / "b").iterdir()) == [files / "a" / "b" / ".lock", *pictures]
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
    model: Path, files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    titles: list[str] = []
    monkeypatch.setattr("nmt.alignment.heatmap.save_heatmap", lambda *_, title, **__: titles.append(title))
    monkeypatch.chdir(model)
    for target, origin in ([f"tgt={files}/tgt"], "force-decoded"), ([], "own translation"):
        heatmap(["model=.", f"src={files}/src", f"output={files}/o", "limit=1", "search.max_length=9", *target])
        assert titles.pop() == f"{model.name}, Bahdanau attention\nsrc, line 1, {origin}"
    arguments = ["model=.", f"src={files}/src", f"tgt={files}/tgt", f"output={files}/o", "limit=1", "title=false"]
    heatmap(arguments)
    assert titles == [""]
    capsys.readouterr()
    (page,) = printed_files([*arguments, "format=html"], capsys)
    assert "<h1>" not in page.read_text(encoding="utf-8")


GOLD = ["0-0 1p1", "", "0-0", "0-0 7-7"]  # the last link points outside its sentence
NAACL = ["1 0 0 S", "1 1 1 P", "3 0 0 S", "4 0 0 S", "4 7 7 S"]


@pytest.mark.parametrize("lines", [GOLD, GOLD[:3], NAACL, NAACL[:3], [*NAACL[3:], *NAACL[:3]]])
def test_links_are_needed_for_the_drawn_lines_only(
    lines: list[str], model: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "links").write_text("".join(f"{line}\n" for line in lines))
    arguments = [f"model={model}", f"src={files}/src", f"tgt={files}/tgt", f"output={files}/o", f"links={files}/links"]
    (page,) = printed_files([*arguments, "format=html", "limit=3"], capsys)
    assert page.read_text(encoding="utf-8").count('class="gold"') == 3
    if lines not in (NAACL[:3],):  # NAACL lists no sentence without links
        with pytest.raises(UserError, match=r"links:\d: .*points outside|links has 3 lines of links for 4 sentences"):
            heatmap([*arguments, "limit=4"])


@pytest.mark.parametrize("lines", [GOLD[:2], [*GOLD, ""], ["0-0", "", "5-0"]])
def test_links_must_be_parallel_to_the_drawn_lines(lines: list[str], model: Path, files: Path) -> None:
    (files / "links").write_text("".join(f"{line}\n" for line in lines))
    arguments = [f"model={model}", f"src={files}/src", f"tgt={files}/tgt", f"output={files}/o", f"links={files}/links"]
    limit = 4 if len(lines) > 4 else 3
    with pytest.raises(UserError, match=r"must be parallel|links:3: 5-0 points outside the sentences of 3 and 3 words"):
        heatmap([*arguments, f"limit={limit}"])


def test_pictures_of_an_earlier_command_are_named(model: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [f"model={model}", f"src={files}/src", f"tgt={files}/tgt", f"output={files}/o"]
    for name in ("notes.png", "1.png"):
        (files / "o").mkdir(exist_ok=True)
        (files / "o" / name).write_text("mine")
    for limit, warning in (4, ""), (4, ""), (1, "2 pictures of an earlier command left, such as 0003.png; remove"):
        heatmap([*arguments, f"limit={limit}"])
        assert capsys.readouterr().err.partition(f"warning: output={files}/o: ")[2].startswith(warning)
    assert len(list((files / "o").iterdir())) == 6  # with .lock: nothing is deleted


def test_own_translations_read_no_line_beyond_the_limit(
    model: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "src").write_bytes(b"the dog\n\xff\n")
    arguments = [f"model={model}", f"src={files}/src", f"output={files}/o", "search.max_length=9"]
    assert len(printed_files([*arguments, "limit=1"], capsys)) == 1


def test_bytes_of_unknown_characters_are_labelled_as_bytes(
    model: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (files / "src").write_text("the ❤ dog\n", encoding="utf-8")
    arguments = [f"model={model}", f"src={files}/src", f"output={files}/o", "granularity=piece", "search.max_length=9"]
    ((_, source, _),) = drawn_weights(arguments, monkeypatch)
    assert [label for label in source if "❤" in label] == ["<0xE2> ❤ 1/3", "<0x9D> ❤ 2/3", "<0xA4> ❤ 3/3"]


def test_chinese_sentence_is_split_into_pieces(model: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (files / "src").write_text("我喜欢猫 dog\n", encoding="utf-8")
    (files / "tgt").write_text("Hund\n", encoding="utf-8")
    arguments = [f"model={model}", f"src={files}/src", f"tgt={files}/tgt", f"output={files}/o"]
    ((weights, source, target),) = drawn_weights(arguments, monkeypatch)
    assert (source, target) == (["我", "喜", "欢", "猫", "dog"], ["Hund"])  # the tokenizer knows no Chinese pieces
    np.testing.assert_allclose(weights.sum(), 1)
    (files / "links").write_text("1-0\n")
    ((weights, source, _),) = drawn_weights([*arguments, f"links={files}/links"], monkeypatch)
    assert source == ["我喜欢猫", "dog"] and weights.shape == (1, 2)  # gold links count words


def test_word_weights_of_given_pairs_are_force_decoded(
    model: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [f"model={model}", f"src={files}/src", f"tgt={files}/tgt", f"output={files}/o"]
    pictures = drawn_weights(arguments, monkeypatch)
    translator = Translator.load(model)
    for row, (weights, source, target) in zip((0, 2, 3), pictures, strict=True):
        (decoding,) = force_decode(translator, [SOURCE[row]], [TARGET[row]])
        np.testing.assert_allclose(weights, word_weights(decoding), atol=1e-6)
        assert (source, target) == (SOURCE[row].split(), TARGET[row].split())


def test_piece_weights_of_own_translations_are_those_of_the_search(
    model: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [f"model={model}", f"src={files}/src", f"output={files}/o", "granularity=piece", "limit=1"]
    ((weights, source, target),) = drawn_weights(arguments, monkeypatch)
    translation = Translator.load(model).translate(SOURCE[:1])[0]
    assert (source, target) == (translation.source_tokens, translation.tokens) and source[-1] == "</s>"
    np.testing.assert_allclose(weights, translation.alignment, atol=1e-5)  # Bahdanau weights already sum to 1
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)


def test_page_outlines_gold_links(model: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [f"model={model}", f"src={files}/src", f"tgt={files}/tgt", f"output={files}/o", f"links={files}/links"]
    (page,) = printed_files([*arguments, "format=html", "limit=null"], capsys)
    text = page.read_text(encoding="utf-8")
    assert page.name == "alignments.html" and text.count('class="gold"') == 4
    assert re.findall(r"<h2>(\d+)</h2>", text) == ["1", "3", "4"]  # line numbers; line 2 is blank
    assert "schläft" in text and "Bahdanau" in text


def test_pair_too_large_for_a_page_is_skipped(
    model: Path, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.commands.heatmap.MAX_PAGE_CELLS", 9)
    (files / "src").write_text("".join(f"{line or 'nothing'}\n" for line in SOURCE), encoding="utf-8")
    heatmap([f"model={model}", f"src={files}/src", f"tgt={files}/tgt", f"output={files}/o", "format=html"])
    out, error = capsys.readouterr()
    assert re.findall(r"<h2>(\d+)</h2>", Path(out.strip()).read_text(encoding="utf-8")) == ["2", "3", "4"]
    assert error.startswith(f"warning: {files}/src:1: 5 × 5 words are too many for a page, skipped")


def test_pairs_with_an_empty_side_are_counted(
    short_model: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "src").write_text(
        "".join(f"{line}\n" for line in [*SOURCE, "cat " * 30])
    )  # the last is too long for the model
    (files / "tgt").write_text("".join(f"{line}\n" for line in [*TARGET[:3], " ", "Katze"]))
    arguments = [f"model={short_model}", f"src={files}/src", f"output={files}/o", "search.max_length=9"]
    for target, empty, names in ([f"tgt={files}/tgt"], 2, ["0001", "0003"]), ([], 1, ["0001", "0003", "0004"]):
        heatmap([*arguments, *target])
        out, error = capsys.readouterr()
        assert [Path(line).stem for line in out.splitlines()] == names
        first, last = error.splitlines()
        assert first.startswith(f"warning: {files}/src:5: a source of ")
        assert first.endswith("it is not aligned" if target else "its translation is empty")
        assert last == f"warning: {files}/src: {empty} of 5 pairs not drawn: the line or its translation is empty"


def test_page_of_signed_pieces_shows_both_signs(
    make_model: Callable[..., Path], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = make_model({"_target_": "nmt.attention.CovarianceAttention"})
    arguments = [f"model={model}", f"src={files}/src", f"output={files}/o", "format=html", "granularity=piece"]
    (page,) = printed_files([*arguments, "search.max_length=9"], capsys)
    cells = re.findall(r'<td title="(\S+)" style="background:#(..)..(..);', page.read_text("utf-8"))
    largest = max(abs(float(weight)) for weight, _, _ in cells)
    clear = [cell for cell in cells if abs(float(cell[0])) > largest / 10]
    signs = {(float(weight) > 0, int(blue, 16) > int(red, 16)) for weight, red, blue in clear}
    assert signs == {(True, True), (False, False)}  # blue is positive, red negative


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["src=src"], "output: must be given"),
        (["src=src", "output=o", "model=NONE"], "no attention"),
        (["src=nowhere", "output=o"], "nowhere: No such file"),
        (["src=src", "output=src"], "src: cannot be used: Not a directory; choose another output="),
        (["src=src", "output=o", "format=pgn"], "did you mean png"),
        (["src=src", "output=o", "limit=0"], "limit=0: must be at least 1"),
        (["src=src", "output=o", "links=links"], "add tgt=FILE"),
        (["src=src", "tgt=tgt", "output=o", "links=links", "granularity=piece"], "use granularity=word"),
        (["src=src", "tgt=links", "output=o", "links=short"], "short has 1 line of links for 4 sentences"),
    ],
)
def test_bad_input_gives_one_error_line(
    arguments: list[str], message: str, model: Path, model_without_attention: Path, files: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(files)
    (files / "short").write_text("0-0\n")
    folder = model_without_attention if "model=NONE" in arguments else model
    with pytest.raises(UserError) as caught:
        heatmap([f"model={folder}", *(argument for argument in arguments if argument != "model=NONE")])
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert not (files / "o").exists()


@pytest.mark.parametrize("given", [True, False], ids=["given", "translated"])
def test_slots_are_drawn_for_each_pair(
    given: bool, nested: Path, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[np.ndarray, np.ndarray, list[str], list[str]]] = []
    monkeypatch.setattr("nmt.alignment.heatmap.save_slots", lambda *pair, title: drawn.append(pair[:4]))
    words = [f"model={nested}", f"src={files}/src", f"output={files}/a", "slots=true", "limit=1"]
    printed_files([*words, f"tgt={files}/tgt" if given else "search.max_length=9"], capsys)
    ((write, read, source, target),) = drawn
    assert (read.shape, write.shape) == ((len(target), 6), (6, len(source)))
    if given:
        (pair,) = force_decode(Translator.load(nested, engine="torch"), SOURCE[:1], TARGET[:1])
        np.testing.assert_allclose(read @ write, pair.alignment, rtol=1e-4, atol=1e-6)


def test_lines_without_words_have_no_picture_of_slots(
    nested: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heatmap([f"model={nested}", f"src={files}/src", f"tgt={files}/tgt", f"output={files}/a", "slots=true", "limit=3"])
    printed = capsys.readouterr()
    assert [Path(line).name for line in printed.out.splitlines()] == ["0001.png", "0003.png"]
    assert f"warning: {files}/src: 1 of 3 pairs not drawn: the line or its translation is empty" in printed.err


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("attention", "drawn"),
    [
        ({"_target_": "nmt.attention.KernelAttention", "feature_map": "softmax"}, True),
        ({"_target_": "nmt.attention.KernelAttention", "feature_map": "taylor"}, False),  # only their sums are positive
        ({"_target_": "nmt.attention.CovarianceAttention"}, False),
    ],
)
def test_slots_of_other_attentions_are_drawn_unless_negative(
    attention: dict[str, str],
    drawn: bool,
    make_model: Callable[..., Path],
    files: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [f"model={make_model(attention)}", f"src={files}/src", f"tgt={files}/tgt", f"output={files}/a"]
    if drawn:
        assert [file.name for file in printed_files([*words, "slots=true", "limit=1"], capsys)] == ["0001.png"]
    else:
        with pytest.raises(UserError, match="slots=true: .* attention has negative weights; use a model with slots"):
            heatmap([*words, "slots=true"])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["format=html"], "format=html: slots=true draws pictures; use format=png, svg or pdf"),
        (["engine=onnx"], "engine=onnx: slots=true needs engine=torch; remove engine=onnx"),
        (["tgt={files}/tgt", "links={files}/links"], "slots=true draws pieces, and links connect words; remove links="),
        ([], "slots=true: Bahdanau attention keeps every source state; use a model with slots"),
    ],
)
def test_impossible_pictures_of_slots_are_refused(words: list[str], problem: str, model: Path, files: Path) -> None:
    words = [word.format(files=files) for word in words]
    with pytest.raises(UserError, match=re.escape(problem)):
        heatmap([f"model={model}", f"src={files}/src", f"output={files}/a", "slots=true", *words])
