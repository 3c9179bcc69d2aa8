"""How a run starts: its folder is announced, a start's text is kept, and a finished run can be trained further."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest.mock import Mock

import pytest
from tiny import SMALL, refuse, same_model, stop_at, summary

from nmt.commands.train import train
from nmt.config.compose import to_yaml, train_config
from nmt.config.overrides import read_yaml
from nmt.config.runs import START_FILE, launched_run
from nmt.files.atomic import lock_folder
from nmt.settings.build import plain
from nmt.training.distributed import Launch

pytestmark = pytest.mark.thorough


def test_restart_script_starts_resumes_and_ends(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*SMALL, "resume=true"]
    for place in ("nmt.training.run.CorpusBatches", "nmt.training.task.TranslationTask.losses"):
        with monkeypatch.context() as patch:  # an error before the first checkpoint leaves no folder
            patch.setattr(place, Mock(side_effect=ZeroDivisionError))
            with pytest.raises(ZeroDivisionError):
                train(words)
        assert not run.exists(), place
    with monkeypatch.context() as patch:  # killed before the first checkpoint
        patch.setattr("nmt.config.runs.shutil.rmtree", Mock())
        patch.setattr("nmt.training.run.CorpusBatches", Mock(side_effect=ZeroDivisionError))
        with pytest.raises(ZeroDivisionError):
            train(words)
    (run / "data" / "train.arrow").write_text("half")
    stop_at(0, words)
    assert "starts from its beginning" in capsys.readouterr().err
    train(words)
    assert "run: runs/demo, resumed\n" in capsys.readouterr().err
    refuse(words, "has finished; set training.max_epochs=4 to train further")
    assert [folder.name for folder in run.parent.iterdir()] == ["demo"]
    train([*SMALL, "name=straight"])
    assert same_model(run, run.parent / "straight")


@pytest.mark.parametrize(
    "words", [[], ["training.max_epochs=8"], ["device=cpu", "threads=1", "export=false"], ["--config-dir", "."]]
)
def test_mistyped_name_of_a_run_to_resume_starts_nothing(run: Path, words: list[str]) -> None:
    refuse(["name=dmeo", "resume=true", *words], "^resume=true: runs/dmeo does not exist")
    assert not (run.parent / "dmeo").exists()


def test_resuming_never_starts_in_a_folder_of_the_user(run: Path) -> None:
    run.mkdir(parents=True)
    (run / "notes.txt").write_text("mine")
    refuse([*SMALL, "resume=true"], "runs/demo has no checkpoint")
    assert (run / "notes.txt").is_file()


def test_run_that_another_process_trains_is_left_alone(finished: Path) -> None:
    with lock_folder(finished):
        refuse(["resume=true", "training.max_epochs=4"], "runs/demo: ")


def test_restarted_processes_find_the_newest_run_of_their_launcher(tmp_path: Path) -> None:
    launch = Launch("slurm 7", 1)
    for age, (name, launcher) in enumerate({"demo": "slurm 7", "demo-2": "other", "demo-long": "slurm 7"}.items()):
        (tmp_path / name).mkdir()
        (tmp_path / name / START_FILE).write_text(json.dumps({"launch": launcher}))
        os.utime(tmp_path / name / START_FILE, (age, age))
    assert launched_run(tmp_path / "demo", launch) == tmp_path / "demo"
    assert launched_run(tmp_path / "other", launch) is None


OTHER = ["data.train_pairs=30", "data.valid_pairs=4", "data.test_pairs=2"]
EXPERIMENT = "# @package _global_\ndefaults: [{override /data: generated}]\ndata: {train_pairs: 30, valid_pairs: 4}\n"


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ([], {}),
        (["data.train_pairs=50"], {"train_pairs": 50}),
        (["data=generated", *OTHER], None),
        (["data=generated", "--config-dir=mine", "experiment=generated"], None),
    ],
)
def test_start_keeps_its_text_unless_other_text_is_chosen(
    finished: Path, words: list[str], changes: dict[str, int] | None
) -> None:
    (Path("mine") / "experiment").mkdir(parents=True)
    (Path("mine") / "experiment" / "generated.yaml").write_text(EXPERIMENT)
    before = read_yaml(finished / "config.yaml")["data"]
    after = plain(train_config([f"init_from={finished}", "name=next", *words]).data)
    expected = {**before, **changes} if changes is not None else {**after, "_target_": "nmt.data.generated.generated"}
    assert after == expected


def test_start_keeps_its_prepared_text(finished: Path) -> None:
    stored = read_yaml(finished / "config.yaml")
    changes = {"lowercase": True, "remove_invisible": "bom"}  # of the text, which the run has added
    data = plain(train_config(["data=prepared", "data.folder=mine"]).data)
    (finished / "config.yaml").write_text(to_yaml({**stored, "data": {**data, **changes}}))
    assert plain(train_config([f"init_from={finished}"]).data) == data


def test_finished_run_trains_further_as_an_uninterrupted_one(finished: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in finished.rglob("*")}
    for words in ([], ["training.max_epochs=2"], ["training.max_epochs=1"], ["training.patience=5"]):
        refuse(["resume=true", *words], "runs/demo has finished")
    for changed in ("optimizer.lr=1", "training.decode_sentences=3"):  # scores of other sentences are not comparable
        refuse(["resume=true", "training.max_epochs=4", changed], f"^resume=true: {changed}")
    assert {file: file.stat().st_mtime_ns for file in finished.rglob("*")} == before
    train(["resume=true", "training.max_epochs=4"])
    assert summary(finished)["epochs"] == 4
    train([*SMALL, "name=uninterrupted", "training.max_epochs=4"])
    assert same_model(finished, finished.parent / "uninterrupted")
