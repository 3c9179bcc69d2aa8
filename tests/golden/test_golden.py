"""Files of the present formats give the recorded translations; files of other formats are refused by name."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from builders import expect_error
from safetensors.torch import load, save_file

from nmt.commands.train import train
from nmt.commands.translate import translate
from nmt.files.checksum import fingerprint
from nmt.text.corpus import Corpus
from nmt.text.prepare import open_prepared

pytestmark = pytest.mark.thorough

HERE = Path(__file__).resolve().parent
RUN = Path("runs/finished")


@pytest.fixture
def unpack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that unpacks an archive into the current folder."""
    monkeypatch.chdir(tmp_path)

    def extract(name: str) -> Path:
        with tarfile.open(HERE / f"{name}.tar.xz") as archive:
            archive.extractall(tmp_path, filter="data")
        return tmp_path

    return extract


def translation(*words: str) -> str:
    translate([f"model={RUN}", "output=out.txt", *words])
    return Path("out.txt").read_text()


def test_archives_are_small() -> None:
    assert sum(file.stat().st_size for file in HERE.glob("*.tar.xz")) < 300_000


@pytest.mark.parametrize("engine", ["torch", "onnx", "onnx-int8"])
def test_present_model_gives_the_recorded_translations(engine: str, unpack: Callable[[str], Path]) -> None:
    unpack("present")
    assert translation("input=in.txt", f"engine={engine}") == Path(f"translations.{engine}.txt").read_text()
    if engine != "torch":
        assert translation("input=in.txt", f"engine={engine}", "shortlist=true").count("\n") == 8


@pytest.mark.parametrize("archive", ["present", "older"])
def test_model_and_memories_of_format_1_give_the_recorded_translations(
    archive: str, unpack: Callable[[str], Path]
) -> None:
    unpack(archive)
    expected = Path("translations.torch.txt").read_text()
    assert translation("input=in.txt", "engine=torch") == expected
    assert translation("memory=memories") == expected


def test_present_corpus_holds_its_text(unpack: Callable[[str], Path]) -> None:
    folder = unpack("present")
    for place in ("prepared", "runs/stopped/data"):
        prepared = open_prepared(folder / place)
        for part in ("train", "valid"):
            corpus = prepared.corpora[part]
            sides = [corpus.sources(), corpus.targets()]
            assert sides == [Path(f"text.{side}").read_text().splitlines() for side in ("src", "tgt")]
            assert [prepared.source.decode(corpus.ids(row)[0]) for row in range(len(corpus))] == sides[0]


def test_key_that_a_stored_run_lacks_cannot_be_set_when_it_resumes(unpack: Callable[[str], Path]) -> None:
    unpack("present")
    config = Path("runs/stopped/config.yaml")
    config.write_text(re.sub("  accumulate: .*\n", "", config.read_text()))
    expect_error(
        "has no batches.accumulate: damaged or of another version",
        train,
        ["name=stopped", "resume=true", "batches.accumulate=2"],
    )


def test_present_run_resumes(unpack: Callable[[str], Path]) -> None:
    unpack("present")
    train(["name=stopped", "resume=true", "training.max_epochs=3", "export=false"])
    assert json.loads(Path("runs/stopped/summary.json").read_text())["epochs"] == 3


def test_older_formats_are_refused_by_name(unpack: Callable[[str], Path]) -> None:
    unpack("older")
    expect_error(
        r"onnx has graphs of format 3, but this version reads format \d+; write them",
        translate,
        [f"model={RUN}", "input=in.txt", "engine=onnx"],
    )
    expect_error(
        r"train\.arrow: format 1, but .* format \d+; prepare the corpus again with", Corpus.open, "prepared/train.arrow"
    )
    expect_error(
        r"prepared/settings\.json: no valid format version; prepare the text again", open_prepared, Path("prepared")
    )
    with pytest.warns(UserWarning, match=r"has graphs of format 3, .*; engine=auto uses torch"):
        assert translation("input=in.txt") == Path("translations.torch.txt").read_text()


OTHER = pytest.mark.parametrize(
    ("shift", "advice"),
    [(-1, "this version reads format"), (1, "update the toolkit"), (None, "no valid format version")],
)


@OTHER
def test_other_model_format_is_refused_by_name(shift: int | None, advice: str, unpack: Callable[[str], Path]) -> None:
    unpack("present")
    stored = torch.load(RUN / "model.pt")
    stored["format"] = None if shift is None else stored["format"] + shift
    torch.save(stored, RUN / "model.pt")
    expect_error(rf"model\.pt: .*{advice}", translate, [f"model={RUN}", "input=in.txt", "engine=torch"])


@pytest.mark.parametrize("shift", [-1, 1])
def test_other_export_format_is_refused_by_name(shift: int, unpack: Callable[[str], Path]) -> None:
    unpack("present")
    about = json.loads((RUN / "onnx/about.json").read_text())
    about["format"] += shift
    (RUN / "onnx/about.json").write_text(json.dumps(about))
    message = rf"has graphs of format {about['format']}, but this version reads format {about['format'] - shift}; write"
    expect_error(message, translate, [f"model={RUN}", "input=in.txt", "engine=onnx"])


@OTHER
def test_other_memory_format_is_refused_by_name(shift: int | None, advice: str, unpack: Callable[[str], Path]) -> None:
    unpack("present")
    file = Path("memories/00000001.safetensors")
    content = file.read_bytes()
    metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    metadata["format"] = "" if shift is None else str(int(metadata["format"]) + shift)
    del metadata["digest"]
    tensors = load(content)
    save_file(tensors, file, {**metadata, "digest": fingerprint(metadata, tensors)})
    expect_error(rf"00000001\.safetensors: .*{advice}", translate, [f"model={RUN}", "memory=memories"])
