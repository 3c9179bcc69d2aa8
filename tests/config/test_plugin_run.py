"""A training run whose data, encoder, attention, optimizer and schedule come from packages outside nmt."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from builders import expect_error, refusal

from nmt import Translator
from nmt.commands.train import train

pytestmark = pytest.mark.thorough

SIZES = [
    *("tokenizer.vocab_size=272", "embeddings.size=8", "decoder.hidden_size=8", "batches.max_tokens=60"),
    *("training.max_epochs=1", "training.decode_sentences=5", "search.max_length=8", "device=cpu", "threads=1"),
    "export=false",
]


def test_data_source_refuses_its_settings_before_training(words: list[str], package: str, tmp_path: Path) -> None:
    expect_error("data.pairs", train, [*words, *SIZES, "data=letters_class", "data.pairs=0"])
    assert not (tmp_path / "runs").exists()
    assert sys.modules[package].calls == ["Letters"]  # constructed, and its pairs not requested


def one_cycle_rates(updates: int) -> list[float]:
    """Return the rates before each of torch's steps of a one-cycle schedule, and after the last one."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.25, momentum=0.5)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.25, total_steps=updates)
    rates = [schedule.get_last_lr()[0]]
    for _ in range(updates):
        optimizer.step()
        schedule.step()
        rates.append(schedule.get_last_lr()[0])
    return rates


@pytest.mark.parametrize(
    ("data", "optimizer", "schedule"),
    [
        ("letters", "sign", "halving"),
        ("letters_class", "sgd", "one_cycle"),
        ("letters", "sign", "torch_plateau"),
    ],
)
def test_run_with_plugins_everywhere(
    words: list[str], package: str, tmp_path: Path, data: str, optimizer: str, schedule: str
) -> None:
    choices = [f"data={data}", f"optimizer={optimizer}", f"schedule={schedule}"]
    train([*words, *SIZES, "encoder=scaled", "attention=scaled", *choices, "name=demo"])
    run, mine = tmp_path / "runs" / "demo", sys.modules[package]
    checkpoint = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    (optimizer_state,), (state,) = checkpoint["optimizer_states"], checkpoint["lr_schedulers"]
    (group,), updates = optimizer_state["param_groups"], checkpoint["global_step"]
    assert updates > 6

    assert {"ScaledAttention", "ScaledEncoder"} <= set(mine.calls)
    assert ("SignDescent" in mine.calls) is (optimizer == "sign")
    assert ("decay" in group, "momentum" in group) == ((optimizer == "sign"), (optimizer == "sgd"))
    assert ("Letters()" in mine.calls) is (data == "letters_class") and "letters" in mine.calls
    match schedule:
        case "halving":
            assert "Halving" in mine.calls
            assert (state["last_epoch"], group["lr"]) == (updates, 0.004 * 0.5 ** (updates // 3))
        case "one_cycle":  # total_steps is supplied; the last update has the lowest rate, the step after it is unused
            assert (state["total_steps"], state["last_epoch"]) == (updates, updates)
            rates = one_cycle_rates(updates)
            assert rates[-2] == min(rates) and group["lr"] == pytest.approx(rates[-1])
        case _:  # one validation, whatever the interval; valid_bleu: larger is better
            assert (state["last_epoch"], state["mode"], state["num_bad_epochs"]) == (1, "max", 0)
            assert group["lr"] == 0.004

    assert (run / "code" / "mine.py").read_text() == (tmp_path / "packages" / "mine.py").read_text()
    assert [*json.loads((run / "code.json").read_text())] == ["nmt", "mine"]
    assert "_target_=mine.ScaledEncoder" in refusal(Translator.load, run)
    translator = Translator.load(run, trust=[package])
    model = translator.trained.model
    assert isinstance(model.encoder, mine.ScaledEncoder) and model.encoder.scale == 2
    assert isinstance(model.attention, mine.ScaledAttention) and model.attention.scale == 0.5
    assert translator.lowercase is (data == "letters")
    (translation,) = translator.translate(["a b c"])
    assert translation.alignment is not None
    assert translation.alignment.shape == (len(translation.tokens), len(translation.source_tokens))
