"""nmt-heatmap draws given pairs and the model's own translations, as pictures or as one page."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nmt.commands.heatmap import heatmap
from nmt.errors import UserError
from nmt.inference.forced import force, word_weights
from nmt.inference.translator import Translator

SOURCE = ["the dog sees a cat", "", "a red house", "the cat sleeps"]
TARGET = ["der Hund sieht eine Katze", "nichts", "ein rotes Haus", "die Katze schläft"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, lines in {"src": SOURCE, "tgt": TARGET}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "links").write_text("0-0 1p1\n\n0-0\n0-0\n")
    return tmp_path


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[Path]:
    heatmap(arguments)
    return [Path(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
@pytest.mark.parametrize("granularity", ["word", "piece"])
def test_pictures_of_its_own_translations(
    suffix: str, start: bytes, granularity: str, model: Path, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [f"model={model}", f"src={files}/src", f"output={files}/a/b", "limit=3", "search.max_length=9"]
    found = printed([*given, f"format={suffix}", f"granularity={granularity}"], capsys)
    assert [file.name for file in found] == [f"0001.{suffix}", f"0003.{suffix}"]  # a blank line has nothing to show
    assert sorted((files / "a" / "b").iterdir()) == found
    assert all(file.read_bytes().startswith(start) for file in found)


def drawn(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> list[tuple[np.ndarray, list[str], list[str]]]:
    """What would be drawn: weights with the names of columns and rows."""
    seen: list[tuple[np.ndarray, list[str], list[str]]] = []

    def note(weights: np.ndarray, source: list[str], target: list[str], *_: object, **__: object) -> None:
        seen.append((weights, source, target))

    monkeypatch.setattr("nmt.alignment.heatmap.save_heatmap", note)
    heatmap(arguments)
    return seen


def test_words_of_given_pairs_are_force_decoded(model: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = drawn([f"model={model}", f"src={files}/src", f"tgt={files}/tgt", f"output={files}/o"], monkeypatch)
    translator = Translator.load(model)
    for row, (weights, source, target) in zip((0, 2, 3), seen, strict=True):
        (alone,) = force(translator, [SOURCE[row]], [TARGET[row]])
        np.testing.assert_allclose(weights, word_weights(alone), atol=1e-6)
        assert (source, target) == (SOURCE[row].split(), TARGET[row].split())


def test_pieces_of_its_own_translations_are_what_the_beam_looked_at(
    model: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [f"model={model}", f"src={files}/src", f"output={files}/o", "granularity=piece", "limit=1"]
    ((weights, source, target),) = drawn(given, monkeypatch)
    one = Translator.load(model).translate(SOURCE[:1])[0]
    assert (source, target) == (one.source_tokens, one.tokens) and source[-1] == "</s>"
    np.testing.assert_allclose(weights, one.alignment.T, atol=1e-5)  # Bahdanau's rows sum to 1 already
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)


def test_one_page_with_gold_links(model: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [f"model={model}", f"src={files}/src", f"tgt={files}/tgt", f"output={files}/o", "format=html", "limit=null"]
    (page,) = printed([*given, f"links={files}/links"], capsys)
    text = page.read_text(encoding="utf-8")
    assert page.name == "alignments.html" and text.count('class="gold"') == 4
    assert re.findall(r"<h2>(\d+)</h2>", text) == ["1", "3", "4"]  # their lines; the second has nothing to show
    assert "schläft" in text and "Bahdanau" in text


def test_a_pair_too_large_for_a_page_is_left_out(
    model: Path, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.commands.heatmap.ON_A_PAGE", 9)
    (files / "src").write_text("".join(f"{line or 'nothing'}\n" for line in SOURCE), encoding="utf-8")
    heatmap([f"model={model}", f"src={files}/src", f"tgt={files}/tgt", f"output={files}/o", "format=html"])
    out, error = capsys.readouterr()
    assert re.findall(r"<h2>(\d+)</h2>", Path(out.strip()).read_text(encoding="utf-8")) == ["2", "3", "4"]
    assert error.startswith(f"warning: {files}/src:1: 5 × 5 words are too many for a page; it is left out")


def test_pairs_with_an_empty_side_are_counted(
    model_of: Callable[..., Path], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = model_of({"_target_": "nmt.attention.LowRankAttention", "slots": 3})
    (files / "src").write_text("".join(f"{line}\n" for line in [*SOURCE, "cat " * 30]))  # one that does not fit
    (files / "tgt").write_text("".join(f"{line}\n" for line in [*TARGET[:3], " ", "Katze"]))
    given = [f"model={model}", f"src={files}/src", f"output={files}/o", "search.max_length=9"]
    for words, empty, names in ([f"tgt={files}/tgt"], 2, ["0001", "0003"]), ([], 1, ["0001", "0003", "0004"]):
        heatmap([*given, *words])
        out, error = capsys.readouterr()
        assert [Path(line).stem for line in out.splitlines()] == names
        first, last = error.splitlines()
        assert first.startswith(f"warning: {files}/src:5: a source of ")
        assert last == f"warning: {files}/src: {empty} of 5 pairs have an empty side: not drawn"


def test_a_given_pair_longer_than_the_attention_holds_is_left_out(
    model_of: Callable[..., Path], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = model_of({"_target_": "nmt.attention.LowRankAttention", "slots": 3})
    (files / "src").write_text("".join(f"{line}\n" for line in [SOURCE[0], "cat " * 30, *SOURCE[2:]]))
    heatmap([f"model={model}", f"src={files}/src", f"tgt={files}/tgt", f"output={files}/o"])
    out, error = capsys.readouterr()
    assert [Path(line).name for line in out.splitlines()] == ["0001.png", "0003.png", "0004.png"]
    assert error.startswith(f"warning: {files}/src:2: a source of ") and error.endswith("it is not aligned\n")


def test_a_page_of_signed_pieces_shows_both_signs(
    model_of: Callable[..., Path], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = model_of({"_target_": "nmt.attention.CovarianceAttention"})
    given = [f"model={model}", f"src={files}/src", f"output={files}/o", "format=html", "granularity=piece"]
    (page,) = printed([*given, "search.max_length=9"], capsys)
    cells = re.findall(r'title="(-?)\S+" style="background:hsl\((\d+) 75% 50% / (\S+)\)"', page.read_text("utf-8"))
    assert {(sign, hue) for sign, hue, share in cells if float(share) > 0} == {("-", "211"), ("", "8")}
    assert max(float(share) for _, _, share in cells) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["src=src"], "output: must be given"),
        (["src=src", "output=o", "model=BLIND"], "no attention"),
        (["src=nowhere", "output=o"], "nowhere: No such file"),
        (["src=src", "output=src"], "output=src: no folder can be made there"),
        (["src=src", "output=o", "format=pgn"], "did you mean png"),
        (["src=src", "output=o", "limit=0"], "limit=0: must be at least 1"),
        (["src=src", "output=o", "links=links"], "add tgt=FILE"),
        (["src=src", "tgt=tgt", "output=o", "links=links", "granularity=piece"], "use granularity=word"),
        (["src=src", "tgt=links", "output=o", "links=short"], "src has 4 lines, short has 1 lines"),
    ],
)
def test_bad_input_gets_one_clear_line(
    arguments: list[str], message: str, model: Path, blind_model: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    (files / "short").write_text("0-0\n")
    given = [word.replace("BLIND", str(blind_model)) for word in arguments]
    with pytest.raises(UserError) as caught:
        heatmap(given if "model" in str(given) else [f"model={model}", *given])
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert not (files / "o").exists()


def test_help_shows_every_key_and_needs_no_torch() -> None:
    code = (
        "import sys; from nmt.commands.heatmap import heatmap; heatmap(['--help']); assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "granularity: word" in done.stdout and "nmt-heatmap model=runs/demo" in done.stdout
