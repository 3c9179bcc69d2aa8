"""How a run starts: its folder is announced, a start's text is kept, and a finished run can be trained further."""

from __future__ import annotations

import shlex
from pathlib import Path
from unittest.mock import Mock

import pytest
from tiny import SMALL, on_prepared, refuse, same_model, stop_at, summary

from nmt.commands.train import train
from nmt.config.init_from import read_yaml
from nmt.errors import UserError
from nmt.files.atomic import lock_folder
from nmt.text.corpus import Corpus

pytestmark = pytest.mark.thorough

FURTHER = ["training.max_epochs=1", "training.decode_sentences=2", "search.max_length=4"]
FURTHER += ["device=cpu", "threads=1", "export=false"]


def training_text(folder: Path) -> list[str]:
    return Corpus(folder / "train.arrow").sources()


def printed_commands(message: str) -> list[list[str]]:
    """Return the arguments of each nmt-train command in the message."""
    return [shlex.split(line.partition("nmt-train ")[2]) for line in message.splitlines() if "nmt-train " in line]


def test_same_command_after_a_stop_names_the_unfinished_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def first_lines(*words: str) -> list[str]:
        capsys.readouterr()
        train([*words])
        return capsys.readouterr().err.splitlines()[:2]

    words = [*SMALL, "name=surv"]
    for _ in range(2):
        stop_at(0, words)
    advice = "{} is unfinished; to continue it instead, stop this run and use: nmt-train name={} resume=true"
    newest = advice.format("runs/surv-2", "surv-2")
    assert first_lines(*words) == ["run: runs/surv-3, because runs/surv exists", newest]
    assert first_lines("name=surv-2", "resume=true")[0] == "run: runs/surv-2, resumed"
    with lock_folder(run.parent / "surv"):  # it is training: nobody should resume it
        assert "unfinished" not in first_lines(*words)[1]


def test_restart_script_starts_resumes_and_ends(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*SMALL, "resume=true"]
    start = "run: runs/demo, from its beginning, because resume=true finds no checkpoint"
    with monkeypatch.context() as patch:  # killed before the first checkpoint
        patch.setattr("nmt.training.fit.CorpusBatches", Mock(side_effect=ZeroDivisionError))
        with pytest.raises(ZeroDivisionError):
            train(words)
    assert capsys.readouterr().err.splitlines()[0] == start and not run.exists()
    (run / "data").mkdir(parents=True)  # a preparation that was killed
    (run / "data" / "train.arrow").write_text("half")
    stop_at(0, words)
    assert capsys.readouterr().err.splitlines()[0] == start
    train(words)
    assert capsys.readouterr().err.splitlines()[0] == "run: runs/demo, resumed"
    refuse(words, "has finished after 2 epochs")
    assert [folder.name for folder in run.parent.iterdir()] == ["demo"]

    train([*SMALL, "name=straight"])
    assert same_model(run, run.parent / "straight")


@pytest.mark.parametrize("words", [[], ["training.max_epochs=8"], ["device=cpu", "threads=1", "export=false"]])
def test_mistyped_name_of_a_run_to_resume_starts_nothing(run: Path, words: list[str]) -> None:
    message = "^resume=true: runs/dmeo does not exist; set name=RUN to the run to resume, or add the settings of a new"
    refuse(["name=dmeo", "resume=true", *words], message)
    assert not (run.parent / "dmeo").exists()


def test_resuming_never_starts_in_a_folder_of_the_user(run: Path) -> None:
    run.mkdir(parents=True)
    with lock_folder(run):  # by a second process of a restart script
        refuse([*SMALL, "resume=true"], "is training into it")
    (run / "notes.txt").write_text("mine")
    refuse([*SMALL, "resume=true"], "stopped before its first checkpoint")
    assert (run / "notes.txt").is_file()


OTHER = ["data.train_pairs=30", "data.valid_pairs=4", "data.test_pairs=2"]
EXPERIMENT = "# @package _global_\ndata: {train_pairs: 30, valid_pairs: 4, test_pairs: 2}\n"


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ([], {}),
        (["data.train_pairs=50"], {"train_pairs": 50}),
        (["data=generated", *OTHER], None),
        (["data=generated", "--config-dir=mine", "+experiment=generated"], None),
    ],
)
def test_start_keeps_its_text_unless_other_text_is_chosen(
    finished: Path, words: list[str], changes: dict[str, int] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    (Path("mine") / "experiment").mkdir(parents=True)
    (Path("mine") / "experiment" / "generated.yaml").write_text(EXPERIMENT)
    train([f"init_from={finished}", "name=next", *FURTHER, *words])
    following = finished.parent / "next"
    before, after = (read_yaml(folder / "config.yaml")["data"] for folder in (finished, following))
    note = f"text: that of init_from={finished}; data= chooses other text"
    assert (note in capsys.readouterr().err) is (not words)
    expected = {**before, **changes} if changes is not None else {**after, "_target_": "nmt.data.generated.generated"}
    assert after == expected
    if not words:
        assert training_text(following / "data") == training_text(finished / "data")


def test_start_keeps_its_prepared_text_also_when_resumed(run: Path) -> None:
    train([*on_prepared("mine", "data.lowercase=true"), "training.max_epochs=1"])
    stop_at(0, [f"init_from={run}", "name=next", *FURTHER])
    train(["name=next", "resume=true"])
    before, after = (read_yaml(run.parent / name / "config.yaml") for name in ("demo", "next"))
    changes = {"lowercase": True, "remove_invisible": "bom"}
    assert after["data"] == before["data"] == {"_target_": after["data"]["_target_"], "folder": "mine", **changes}


def test_start_without_text_is_refused(finished: Path) -> None:
    lines = (finished / "config.yaml").read_text().splitlines()
    first, last = lines.index("data:"), lines.index("tokenizer:")
    (finished / "config.yaml").write_text("\n".join([*lines[:first], *lines[last:]]))
    message = r"init_from=\S*demo: its config\.yaml names no text; choose one with data="
    refuse([f"init_from={finished}", "name=next"], message)
    assert not (finished.parent / "next").exists()


def test_printed_commands_train_a_finished_run_further(finished: Path) -> None:
    with pytest.raises(UserError, match="runs/demo has finished after 2 epochs; for 2 more: ") as error:
        train(["resume=true"])
    more, new = printed_commands(str(error.value))
    train(more)  # exactly as printed
    assert summary(finished)["epochs"] == 4
    train([*SMALL, "name=uninterrupted", "training.max_epochs=4"])
    assert same_model(finished, finished.parent / "uninterrupted")
    train([*new, "export=false"])
    assert (finished.parent / "demo-2" / "summary.json").is_file()


@pytest.mark.parametrize("words", [["training.max_epochs=2"], ["training.max_epochs=1"], ["training.keep_best=1"]])
def test_finished_run_is_not_resumed_for_no_more_epochs(finished: Path, words: list[str]) -> None:
    before = {file: file.stat().st_mtime_ns for file in finished.rglob("*")}
    refuse(["resume=true", *words], "has finished after 2 epochs")
    assert {file: file.stat().st_mtime_ns for file in finished.rglob("*")} == before


def test_run_that_stopped_early_names_a_new_run_only(run: Path) -> None:
    words = ["optimizer.lr=1e-30", "training.monitor=valid_loss", "training.patience=1", "training.max_epochs=9"]
    train([*SMALL, *words, "runs=elsewhere", "name=it's mine"])
    with pytest.raises(UserError, match="has finished; for a new run from its model: nmt-train") as error:
        train(["runs=elsewhere", "name=it's mine", "resume=true", "training.max_epochs=12"])
    (new,) = printed_commands(str(error.value))
    train([*new, "export=false"])
    assert Path("elsewhere/it's mine-2/summary.json").is_file()
