"""Laws of training with two processes, which one spawn checks: gradients, shares, files, validation, resuming."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import (
    NO_REPORT,
    SMALL,
    joined_gradients,
    last_step,
    record_batches,
    same_weights,
    stop_at,
    stored_weights,
)
from torch.nn import functional
from two_ranks import train_on_two_ranks

from nmt.commands.train import train
from nmt.config.compose import train_config
from nmt.text.batches import collate
from nmt.text.corpus import Corpus
from nmt.text.prepare import open_prepared
from nmt.training.weights import new_model

WORDS = [*SMALL, "encoder.dropout=0.1", "batches.max_tokens=150", "guide=links", "training.clip_norm=null"]
EXACT = [*WORDS, "encoder.dropout=0", "decoder.dropout=0", "name=exact", "training.monitor=valid_loss"]
STOP_AT = 3


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The records of two ranks that train without dropout, with it, stop, and resume."""
    once = [*WORDS, "training.max_epochs=1"]
    jobs = [EXACT, [*once, "name=whole"], [*once, "name=stopped"], ["name=stopped", "resume=true"]]
    with chdir(folder := tmp_path_factory.mktemp("ranks")):
        ranks = train_on_two_ranks(jobs, stop_at={"name=stopped": STOP_AT}, rank_to_stop=1)
    return [{**record, "folder": folder} for record in ranks]


def job(records: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    return [record["jobs"][number] for record in records]


def test_gradients_are_those_of_the_joined_batch(records: list[dict[str, Any]], float64: None) -> None:
    first, second = job(records, 0)
    for update in (0, len(first["rows"]) - 1):
        rows = [*first["rows"][update][1], *second["rows"][update][1]]
        expected = joined_gradients(EXACT, records[0]["folder"] / "runs" / "exact", first["weights"][update], rows)
        for rank in (first, second):
            assert rank["gradients"][update].keys() == expected.keys()
            for name, gradient in rank["gradients"][update].items():
                torch.testing.assert_close(gradient, expected[name], rtol=1e-6, atol=1e-9, msg=name)


def test_ranks_have_equally_many_batches_and_each_pair_once_per_epoch(records: list[dict[str, Any]]) -> None:
    for index in (0, 1):
        first, second = (rank["rows"] for rank in job(records, index))
        assert [epoch for epoch, _ in first] == [epoch for epoch, _ in second]
        for epoch in {epoch for epoch, _ in first}:
            rows = [row for share in (first, second) for number, batch in share if number == epoch for row in batch]
            assert sorted(rows) == list(range(60))


def test_validation_and_best_checkpoint_agree(records: list[dict[str, Any]]) -> None:
    first, second = job(records, 0)
    assert len(first["validations"]) == 2
    assert [scores for scores, _ in first["validations"]] == [scores for scores, _ in second["validations"]]
    assert first["best"] == second["best"] != ""
    folder = records[0]["folder"] / "runs" / "exact"
    corpus = Corpus.open(folder / "data" / "valid.arrow")
    prepared = open_prepared(folder / "data")
    for scores, weights in first["validations"]:
        model = new_model(train_config(EXACT), prepared).model.double().eval()
        model.load_state_dict(weights, strict=False)
        batch = collate(corpus, list(range(len(corpus))))
        features = model.features(batch.source, batch.source_mask, batch.target_in)
        logits = model.decoder.output(features)[batch.target_mask]
        loss = functional.cross_entropy(logits, batch.target_out[batch.target_mask])
        assert scores["valid_loss"] == pytest.approx(loss.item(), rel=1e-6)


def test_only_the_first_rank_writes_and_prints(records: list[dict[str, Any]]) -> None:
    assert any("last.ckpt" in event or "metrics.csv" in event for event in records[0]["written"])
    assert records[1]["written"] == [] and records[1]["printed"] == ""
    assert "run: runs/exact" in records[0]["printed"] and "epoch 2  valid_loss" in records[0]["printed"]


def test_signal_to_one_rank_stops_both_and_the_resumed_run_is_the_same(records: list[dict[str, Any]]) -> None:
    runs = records[0]["folder"] / "runs"
    for uninterrupted, stopped, resumed in zip(*(job(records, number) for number in (1, 2, 3)), strict=True):
        assert stopped["rows"] + resumed["rows"] == uninterrupted["rows"]
        assert len(stopped["rows"]) == STOP_AT + 1
    assert job(records, 2)[0]["error"] == "Interrupted"
    assert same_weights(*(stored_weights(runs / name / "checkpoints" / "last.ckpt") for name in ("whole", "stopped")))
    assert same_weights(*(rank["weights"][-1] for rank in job(records, 1)))


def test_one_process_repeats_the_epoch_of_two(
    records: list[dict[str, Any]], float64: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is interrupted itself, and then continues its own epoch. Updates count on from those of the two."""
    monkeypatch.chdir(records[0]["folder"])
    monkeypatch.setattr("nmt.training.run.report", lambda *_: NO_REPORT)
    batches = record_batches(monkeypatch)
    words = ["name=alone", "resume=true"]
    stop_at(STOP_AT + 3, words)
    train(words)
    assert sorted(row for batch in batches for row in batch) == list(range(60))
    message = "epoch 1 starts again, because it was interrupted with 2 processes and continues with 1\n"
    assert capsys.readouterr().err.count(message) == 1
    assert last_step(Path("runs/alone")) == STOP_AT + 1 + len(batches)
