"""Several files are interleaved evenly, and equally in each reading."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest
from builders import refusal

from nmt.commands.prepare import prepare
from nmt.data.links import Pair
from nmt.data.parallel import FilePairs

SIZES = {"a": 400, "b": 90, "c": 1000}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, size in SIZES.items():
        for side in ("en", "de"):
            (tmp_path / f"{name}.{side}").write_text("".join(f"{name} {row} {side}\n" for row in range(size)))
    (tmp_path / "b.en.gz").write_bytes(gzip.compress((tmp_path / "b.en").read_bytes()))
    return tmp_path


def test_every_stretch_has_the_same_mixture(folder: Path) -> None:
    names = ["a", "b", "b", "c"]
    mixture = FilePairs(*([folder / f"{name}.{side}" for name in names] for side in ("en", "de")))
    pairs = list(mixture)
    assert pairs == list(mixture)
    expected = [Pair(f"{name} {row} en", f"{name} {row} de") for name in names for row in range(SIZES[name])]
    assert Counter(pairs) == Counter(expected)
    for at in range(0, len(pairs) - 100, 100):
        stretch = Counter(pair.source[0] for pair in pairs[at : at + 100])
        for name, count in Counter(pair.source[0] for pair in expected).items():
            assert abs(stretch[name] - 100 * count / len(expected)) < 5


def test_several_files_are_prepared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["data.train.src=[a.en,b.en.gz]", "data.train.tgt=[a.de,b.de]"]
    prepare([*files, "tokenizer.vocab_size=290", "output=out"])
    assert capsys.readouterr().out.startswith("train: 490 of 490 pairs kept")


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["data.train.tgt=a.de"], "data.train.tgt: 1 file"),
        (["data.train.tgt=[a.de,x.de]"], "data.train.tgt=x.de: no such file"),
        (["data.train.tgt=[a.en,./b.en]"], "data.train.tgt=['a.en', './b.en']: is the source too"),
        (["data.train.tgt=[a.de,b.de]", "data.train.links=a.en"], "data.train.links=a.en: "),
        (["data.train.tgt=[a.de,c.de]"], "b.en has 90 lines, c.de has 1,000 lines"),
    ],
)
def test_wrong_mixtures_are_named(folder: Path, words: list[str], key: str) -> None:
    assert refusal(prepare, ["data.train.src=[a.en,b.en]", *words, "output=out"]).startswith(key)
    assert not Path("out").exists()
