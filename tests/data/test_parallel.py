"""Mixed files occur as often as their weights say, evenly interleaved, and equally in each reading."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest
from builders import refusal

from nmt.commands.prepare import prepare
from nmt.data.pair import Pair
from nmt.data.parallel import FilePairs, ParallelFiles
from nmt.files.atomic import write_lines

SIZES = {"a": 400, "b": 90, "c": 1000}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, size in SIZES.items():
        for side in ("en", "de"):
            (tmp_path / f"{name}.{side}").write_text("".join(f"{name} {row} {side}\n" for row in range(size)))
    (tmp_path / "b.en.gz").write_bytes(gzip.compress((tmp_path / "b.en").read_bytes()))
    return tmp_path


def mixture(folder: Path, weights: dict[str, float]) -> FilePairs:
    sources, targets = ([folder / f"{name}.{side}" for name in weights] for side in ("en", "de"))
    return FilePairs(sources, targets, list(weights.values()))


@pytest.mark.parametrize("weights", [{"a": 1.0, "b": 3.0, "c": 0.25}, {"b": 0.5}, {"a": 1.0}, {"a": 2.5, "c": 1.0}])
def test_pairs_occur_as_often_as_the_weights_say(folder: Path, weights: dict[str, float]) -> None:
    pairs = list(mixture(folder, weights))
    assert pairs == list(mixture(folder, weights))
    counts = Counter(pairs)
    for name, weight in weights.items():
        of_file = [counts[Pair(f"{name} {row} en", f"{name} {row} de")] for row in range(SIZES[name])]
        assert set(of_file) <= {int(weight), int(weight) + (weight % 1 > 0)}
        spread = 4 * (SIZES[name] * (weight % 1) * (1 - weight % 1)) ** 0.5
        assert abs(sum(of_file) - weight * SIZES[name]) <= spread
    assert sum(counts.values()) == sum(count for pair, count in counts.items() if pair.source[0] in weights)


def test_every_stretch_has_the_same_mixture(folder: Path) -> None:
    weights = {"a": 1.0, "b": 3.0, "c": 0.25}
    pairs = list(mixture(folder, weights))
    total = {name: weight * SIZES[name] for name, weight in weights.items()}
    for at in range(0, len(pairs) - 100, 100):
        stretch = Counter(pair.source[0] for pair in pairs[at : at + 100])
        for name in weights:
            assert abs(stretch[name] - 100 * total[name] / sum(total.values())) < 12


def test_several_files_are_prepared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["data.train.src=[a.en,b.en.gz]", "data.train.tgt=[a.de,b.de]", "data.train.weights=[1,2]"]
    prepare([*files, "tokenizer.vocab_size=290", "output=out"])
    assert capsys.readouterr().out.startswith("train: 580 of 580 pairs kept")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data.train.tgt=a.de"], "data.train.tgt: 1 file, data.train.src has 2; give equally many"),
        (["data.train.tgt=[a.de,x.de]"], "data.train.tgt=x.de: no such file"),
        (["data.train.tgt=[a.en,./b.en]"], "data.train.tgt=['a.en', './b.en']: is the source too; give the file"),
        (
            ["data.train.weights=[1]"],
            "data.train.weights=[1]: must be one weight per file of data.train.src, which has 2",
        ),
        (["data.train.weights=[1,0]"], "data.train.weights[1]=0: must be greater than 0"),
        (["data.train.weights=two"], "data.train.weights=two: must be a list"),
        (["data.train.links_base=1"], "data.train.links_base=1: has an effect only with data.train.links=; add it, or"),
        (["data.train.links=a.en"], "data.train.links=a.en: needs one file per side without weights; remove it"),
        (
            ["data.train.weights=[1,2]", "data.duplicates=near"],
            "data.duplicates=near: drops the copies of data.train.weights=[1, 2]; remove one of them",
        ),
        (["data.train.tgt=[a.de,c.de]"], "b.en has 90 lines, c.de has 1,000 lines"),
    ],
)
def test_wrong_mixtures_are_named(folder: Path, words: list[str], message: str) -> None:
    others = [word for word in ("data.train.tgt=[a.de,b.de]",) if not words[0].startswith("data.train.tgt")]
    assert message in refusal(prepare, ["data.train.src=[a.en,b.en]", *others, *words, "output=out"])
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("name", "fix"),
    [("a.XML", "give a file with its sentences only"), ("a.json.gz", "give a"), ("a.jsonl", "use data=")],
)
def test_a_format_that_is_read_as_text_is_named(
    name: str, fix: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (name, "a.de"):
        write_lines(folder / file, ["a"])
    ParallelFiles(train={"src": name, "tgt": "a.de"}, folder=str(folder))()
    printed = "".join(capsys.readouterr())
    assert printed.startswith(f"warning: data.train.src={name}: read as plain text, with its markup; {fix}")
    assert printed.count("warning") == 1
