"""The gradient of an update is that of its joined batches, for accumulated batches and for two processes."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import call_before, write_parts
from tiny import (
    MODEL,
    NO_REPORT,
    SMALL,
    joined_gradients,
    on_prepared,
    refuse,
    same_weights,
    stored_weights,
    weights_of,
)
from torch.nn import functional
from two_ranks import torchrun_environment, train_on_two_ranks

from nmt.commands.train import train
from nmt.config.compose import train_config
from nmt.errors import UserError
from nmt.text.batches import collate
from nmt.text.corpus import Corpus
from nmt.text.prepare import open_prepared
from nmt.training.distributed import connected_processes, detect_launch, environment, from_first, require_device
from nmt.training.task import TranslationTask
from nmt.training.weights import new_model

SMOOTH = ["encoder.dropout=0", "decoder.dropout=0", "training.label_smoothing=0"]
LINKED = ["data=generated", "guide=links", "tokenizer.vocab_size=400"]  # some pieces have no links


@pytest.mark.parametrize(
    ("clip_norm", "guide", "count"), [("0.01", [], 4), pytest.param("null", LINKED, 3, marks=pytest.mark.thorough)]
)
def test_gradients_of_accumulated_batches_are_those_of_the_joined_batch(
    run: Path, clip_norm: str, guide: list[str], count: int, float64: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*SMALL, *SMOOTH, "batches.max_tokens=150", f"batches.accumulate={count}", "training.max_epochs=1", *guide]
    rows: list[list[int]] = [[]]
    sizes: list[int] = []
    updates: list[tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]] = []
    optimizer_step = TranslationTask.optimizer_step

    def record_rows(task: TranslationTask, batch: Any, index: int) -> None:
        rows[-1] += batch.index.tolist()
        sizes.append(len(batch.index))

    def keep(self: TranslationTask, epoch: int, index: int, optimizer: Any, closure: Any) -> None:
        weights = weights_of(self)
        optimizer_step(self, epoch, index, optimizer, closure)
        updates.append((weights, {name: weight.grad.clone() for name, weight in self.model.named_parameters()}))  # type: ignore[union-attr]
        rows.append([])

    call_before(monkeypatch, TranslationTask, "training_step", record_rows)
    monkeypatch.setattr(TranslationTask, "optimizer_step", keep)
    monkeypatch.setattr("nmt.training.run.report", lambda *_: NO_REPORT)
    train([*words, f"training.clip_norm={clip_norm}"])

    text = open_prepared(run / "data").corpora["train"]
    assert sorted(row for batches in rows for row in batches) == list(range(len(text)))
    assert len(updates) >= 2 and len(sizes) % count  # the last update has fewer batches
    for batch_rows, (weights, gradients) in zip(rows, updates, strict=False):
        expected = joined_gradients(words, run / "data", weights, batch_rows)
        assert gradients.keys() == expected.keys()
        norm = torch.stack([gradient.norm() for gradient in expected.values()]).norm()
        scale = 1.0 if clip_norm == "null" else min(1.0, float(clip_norm) / float(norm))
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, scale * expected[name], rtol=1e-5, atol=1e-9, msg=name)


# Two processes, which one spawn checks.

STOP_AT = 3
thorough = pytest.mark.thorough


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The records of two ranks that train without dropout, with it, stop, and resume."""
    with chdir(folder := tmp_path_factory.mktemp("ranks")):
        Path("train.links").write_text("".join(f"0-0 {n + 1}-{n + 1}\n" for n in range(30)))
        words = [*on_prepared("mine", "data.train.links=train.links"), "training.clip_norm=null", "guide=links"]
        words += ["batches.max_tokens=60", "encoder.dropout=0.1", "training.monitor=valid_loss"]
        once = [*words, "training.max_epochs=1"]
        jobs = [[*words, *SMOOTH, "name=exact"], [*once, "name=whole"], [*once, "name=stopped"]]
        jobs += [["name=stopped", "resume=true"]]
        ranks = train_on_two_ranks(jobs, stop_at={"name=stopped": STOP_AT}, rank_to_stop=1)
    return [{**record, "folder": folder, "words": jobs[0]} for record in ranks]


def job(records: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    return [record["jobs"][number] for record in records]


@thorough
def test_gradients_of_two_ranks_are_those_of_the_joined_batch(records: list[dict[str, Any]], float64: None) -> None:
    first, second = job(records, 0)
    for update in (0, len(first["rows"]) - 1):
        rows = [*first["rows"][update][1], *second["rows"][update][1]]
        with chdir(records[0]["folder"]):
            expected = joined_gradients(records[0]["words"], Path("mine"), first["weights"][update], rows)
        for rank in (first, second):
            assert rank["gradients"][update].keys() == expected.keys()
            for name, gradient in rank["gradients"][update].items():
                torch.testing.assert_close(gradient, expected[name], rtol=1e-6, atol=1e-9, msg=name)


@thorough
def test_ranks_have_equally_many_batches_and_share_the_pairs(records: list[dict[str, Any]]) -> None:
    for index in (0, 1):
        first, second = (rank["rows"] for rank in job(records, index))
        assert [epoch for epoch, _ in first] == [epoch for epoch, _ in second]
        for epoch in {epoch for epoch, _ in first}:
            rows = [row for share in (first, second) for number, batch in share if number == epoch for row in batch]
            assert len(rows) == len(set(rows)) > 20


@thorough
def test_validation_and_best_checkpoint_agree(records: list[dict[str, Any]], float64: None) -> None:
    first, second = job(records, 0)
    assert [scores for scores, _ in first["validations"]] == [scores for scores, _ in second["validations"]]
    assert first["best"] == second["best"] != ""
    with chdir(records[0]["folder"]):
        prepared, corpus = open_prepared(Path("mine")), Corpus(Path("mine/valid.arrow"))
        model = new_model(train_config(records[0]["words"]), prepared).model.double().eval()
    for scores, weights in first["validations"]:
        model.load_state_dict(weights, strict=False)
        batch = collate(corpus, list(range(len(corpus))))
        features = model.features(batch.source, batch.source_mask, batch.target_in)
        logits = model.decoder.output(features)[batch.target_mask]
        loss = functional.cross_entropy(logits, batch.target_out[batch.target_mask])
        assert scores["valid_loss"] == pytest.approx(loss.item(), rel=1e-6)


@thorough
def test_only_the_first_rank_writes_and_prints(records: list[dict[str, Any]]) -> None:
    assert any("last.ckpt" in event or "metrics.csv" in event for event in records[0]["written"])
    assert records[1]["written"] == [] and records[1]["printed"] == ""
    assert "run: runs/exact" in records[0]["printed"]


@thorough
def test_signal_to_one_rank_stops_both_and_the_resumed_run_is_the_same(records: list[dict[str, Any]]) -> None:
    runs = records[0]["folder"] / "runs"
    for uninterrupted, stopped, resumed in zip(*(job(records, number) for number in (1, 2, 3)), strict=True):
        assert stopped["rows"] + resumed["rows"] == uninterrupted["rows"]
        assert len(stopped["rows"]) == STOP_AT + 1
    assert job(records, 2)[0]["error"] == "Interrupted"
    assert same_weights(*(stored_weights(runs / name / "checkpoints" / "last.ckpt") for name in ("whole", "stopped")))
    assert same_weights(*(rank["weights"][-1] for rank in job(records, 1)))


@thorough
def test_stopped_epoch_of_two_processes_needs_two(
    records: list[dict[str, Any]], float64: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(records[0]["folder"])
    refuse(["name=alone", "resume=true"], "^resume=true: .* 2 processes")


# What starts the processes.

SRUN = {"SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS": "8", "SLURM_NTASKS_PER_NODE": "4", "SLURM_JOB_ID": "7"}
SRUN |= {"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_RESTART_COUNT": "2", "SLURM_JOB_NAME": "translate"}


@pytest.mark.parametrize(
    ("variables", "launch"),
    [
        ({}, None),
        ({name: value for name, value in SRUN.items() if name != "SLURM_STEP_NUM_TASKS"}, None),  # of a batch script
        ({**SRUN, "SLURM_JOB_NAME": "interactive"}, None),
        (SRUN, ("slurm 7", 2, 5, 8, 1)),
        (torchrun_environment(1, 2, 29500), ("torchrun test", 0, 1, 2, 1)),
    ],
)
def test_launchers_are_recognised(
    variables: dict[str, str], launch: tuple[str | int, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    detected, found = detect_launch(), environment()
    if launch is None or found is None:
        assert detected is found is launch is None
        return
    assert detected is not None
    assert (*detected, found.global_rank(), found.world_size(), found.local_rank()) == launch
    with pytest.raises(UserError, match="^device=cuda:1: "):
        require_device(train_config(["device=cuda:1"]), detected)


def test_one_process_under_torchrun_needs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in torchrun_environment(0, 1, 29500).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_PORT", "0")
    with connected_processes():
        assert from_first(lambda: "result") == "result"
        monkeypatch.setattr("nmt.training.distributed.rank", lambda: 1)
        with pytest.raises(SystemExit, match="^2$"):  # as if rank 0 had failed: it sends no result
            from_first(lambda: "result")


def test_several_processes_need_prepared_text(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.training.data.world_size", lambda: 2)
    files = write_parts(Path(), {part: [("ban des", "gin kor")] * 30 for part in ("train", "valid")})
    refuse([*MODEL, "data=text", *files, "tokenizer.vocab_size=276"], "^data: ")
