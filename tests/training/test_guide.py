"""A guide adds a loss on alignments or contexts: its value, gradients and targets equal naive ones, and 0 is off."""

from __future__ import annotations

import math
import shutil
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from builders import BAHDANAU, LUONG, MEMORY, expect_error, random_model, random_trained, tiny_config, write_parts
from sharded import SETTINGS
from tiny import MODEL, TINY, refuse, same_model, same_weights, stop_at, stored_weights

from nmt.commands.train import train
from nmt.data.filters import Filters
from nmt.data.pair import Pair
from nmt.errors import UserError
from nmt.inference.model_folder import load_folder, save_folder
from nmt.model import Seq2Seq
from nmt.text.batches import Batch, collate
from nmt.text.corpus import Corpus
from nmt.text.prepare import Prepared, open_prepared, prepare
from nmt.training.guide import SMALLEST, Guide, alignment_loss
from nmt.training.teacher import Contexts, Teacher

LINKED = [*TINY, "data=generated", "data.train_pairs=120", "data.test_pairs=2", "tokenizer.vocab_size=400"]
TOKENIZER = replace(SETTINGS, vocab_size=290, joint=False)
PAIRS = [
    Pair("die alte Katze schläft", "the old cat is asleep", ((0, 0), (1, 1), (2, 2), (3, 3), (3, 4)), ((0, 2),)),
    Pair("gestern schlief sie", "she slept yesterday", ((0, 2), (1, 1))),
    Pair("ach", "well then", ()),
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    pairs = {"train": PAIRS * 8, "valid": PAIRS}
    return prepare(pairs, Filters(), TOKENIZER, tmp_path_factory.mktemp("text") / "data")


def batch_of(prepared: Prepared) -> Batch:
    return collate(prepared.corpora["train"], [2, 0, 1])


def naive_loss(alignment: np.ndarray, targets: np.ndarray) -> float:
    losses = []
    rows = (array.reshape(-1, array.shape[2]) for array in (alignment, targets))
    for row, target in zip(*rows, strict=True):
        if target.any():
            total = sum(abs(weight) for weight in row)
            losses.append(-sum(y * math.log(abs(a) / total + SMALLEST) for a, y in zip(row, target, strict=True)))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("signed", [False, True])
def test_loss_equals_a_naive_loop(signed: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    alignment = torch.randn(3, 4, 5, generator=generator)
    alignment = alignment if signed else alignment.abs()
    targets = torch.rand(3, 4, 5, generator=generator)
    targets[0, 2:] = 0
    targets /= targets.sum(2, keepdim=True).clamp(min=1e-9)
    assert alignment_loss(alignment, targets).item() == pytest.approx(naive_loss(alignment.numpy(), targets.numpy()))
    assert alignment_loss(3 * alignment, targets).item() == pytest.approx(alignment_loss(alignment, targets).item())


def test_loss_without_targets_is_zero_and_finite_for_an_alignment_of_zeros() -> None:
    alignment = torch.zeros(1, 2, 3, requires_grad=True)
    assert alignment_loss(alignment, torch.zeros(1, 2, 3)) == 0
    loss = alignment_loss(alignment, torch.eye(3)[None, :2])
    loss.backward()
    assert loss.isfinite() and alignment.grad is not None and alignment.grad.isfinite().all()


def test_weight_falls_linearly_to_zero() -> None:
    class Still(Guide):
        def targets(self, batch: Batch) -> torch.Tensor:
            raise NotImplementedError

    assert [Still(weight=2.0, decay_steps=4).weight_at(update) for update in (0, 1, 3, 4, 9)] == [2, 1.5, 0.5, 0, 0]
    assert {Still(weight=0.5).weight_at(update) for update in (0, 10**6)} == {0.5}


def test_targets_of_a_teacher_are_the_alignment_that_it_used(prepared: Prepared, tmp_path: Path) -> None:
    folder = save_teacher(prepared, tmp_path / "teacher", {"_target_": "nmt.attention.CovarianceAttention"})
    batch = batch_of(prepared)
    teacher = Teacher(prepared=prepared, model=str(folder))
    before = deepcopy(teacher.model.state_dict())
    targets = teacher.targets(batch)
    model = load_folder(folder).model
    for row in range(3):
        source, target = batch.source[row, batch.source_mask[row]], batch.target_in[row, batch.target_mask[row]]
        memory, final = model.encode(source[None], source[None] > -1, trace=True)
        weights = model.decoder(target[None], model.decoder.init(final, memory), memory)[1]
        used = model.attention.align(weights, memory)[0].abs()
        shares = targets[row, : len(target), : len(source)]
        torch.testing.assert_close(shares, used / used.sum(1, keepdim=True))
        assert targets[row].sum().item() == pytest.approx(len(target))  # nothing at padding
    student = random_model(tiny_config(MEMORY)).train()
    _, alignment = student.aligned_features(batch.source, batch.source_mask, batch.target_in)
    alignment_loss(alignment, targets).backward()
    assert any(weight.grad is not None and weight.grad.any() for weight in student.attention.parameters())
    assert all(weight.grad is None for weight in teacher.model.parameters())
    assert same_weights(teacher.model.state_dict(), before)


def save_teacher(prepared: Prepared, folder: Path, attention: dict[str, Any], **settings: Any) -> Path:
    config = tiny_config(attention, shared=False, **settings)
    folder.mkdir()
    save_folder(folder, random_trained(config, prepared.source, prepared.target))
    return folder


def make_student(prepared: Prepared, attention: dict[str, Any], **settings: Any) -> Seq2Seq:
    config = tiny_config(attention, shared=False, **settings)
    return random_model(config, vocabulary=(len(prepared.source), len(prepared.target)), seed=5)


@pytest.mark.parametrize("slots", [3, 40])
@pytest.mark.parametrize("feeding", [False, True])
def test_distance_of_contexts_equals_a_naive_loop(
    slots: int, feeding: bool, prepared: Prepared, tmp_path: Path
) -> None:
    decoder = {"input_feeding": feeding}
    folder = save_teacher(prepared, tmp_path / "teacher", BAHDANAU, decoder=decoder)
    guide = Contexts(prepared=prepared, model=str(folder))
    student = make_student(prepared, {**MEMORY, "slots": slots}, decoder=decoder)
    guide.start(student)
    batch = batch_of(prepared)
    guided = guide.loss(student, batch)
    model = load_folder(folder).model
    distances = []
    for row in range(3):
        source, target = batch.source[row, batch.source_mask[row]][None], batch.target_in[row, batch.target_mask[row]]
        states, final = model.encoder(model.embedding(source), source > -1)
        memory = model.attention.write(states, source > -1)
        state = model.decoder.init(final, memory)
        own = student.encode(source, source > -1)[0].slots[0]
        for t, piece in enumerate(target.tolist()):
            _, state, weights = model.decoder.step(torch.tensor([[piece]]), state, memory)
            if t < slots:
                context = sum(weights[0, 0, s] * states[0, s] for s in range(source.shape[1]))
                distances.append(sum((own[t, d] - context[d]).item() ** 2 for d in range(len(context))))
    assert guided.pieces == len(distances)
    assert guided.loss.item() == pytest.approx(sum(distances) / len(distances), rel=1e-4)
    inputs = (batch.source, batch.source_mask, batch.target_in)
    torch.testing.assert_close(guided.features, student.features(*inputs))
    guided.loss.backward()
    assert student.attention.W_alpha.weight.grad.any() and student.attention.W_beta.weight.grad is None


@pytest.mark.parametrize("size", [8, 12])
def test_student_starts_with_the_weights_of_the_teacher_that_fit(size: int, prepared: Prepared, tmp_path: Path) -> None:
    folder = save_teacher(prepared, tmp_path / "teacher", LUONG)
    student = make_student(prepared, MEMORY, decoder={"hidden_size": size})
    before = deepcopy(student.state_dict())
    Contexts(prepared=prepared, model=str(folder)).start(student)
    teacher = load_folder(folder).model.state_dict()
    kept = [name for name in before if "attention." in name or before[name].shape != teacher[name].shape]
    assert size == 12 or all("attention." in name for name in kept)
    expected = {name: before[name] if name in kept else teacher[name] for name in before}
    assert same_weights(student.state_dict(), expected)


@pytest.mark.parametrize(
    ("teacher", "attention", "settings", "problem"),
    [
        (MEMORY, MEMORY, {}, r"^guide\.model=.*: its attention compares no source states; train it with attention=bah"),
        (BAHDANAU, BAHDANAU, {}, r"^guide=contexts: BahdanauAttention keeps no contexts; choose attention=memory, or"),
        (BAHDANAU, MEMORY, {"encoder": {"layers": 2}}, r"^guide\.model=.*: encoder\S* does not fit this model; give"),
        (BAHDANAU, MEMORY, {"size": 12}, r"^guide\.model=.*: encoder\S* does not fit this model; give both"),
        (
            *(BAHDANAU, {"_target_": "nmt.attention.MultiHeadAttention", "heads": 2, "inner": MEMORY}, {}),
            r"its contexts have 8 numbers, and the slots of this model's attention 4; choose attention=memory",
        ),
    ],
)
def test_models_whose_contexts_cannot_be_compared_are_refused(
    teacher: dict[str, Any], attention: dict[str, Any], settings: dict[str, Any], problem: str,
    prepared: Prepared, tmp_path: Path,
) -> None:  # fmt: skip
    guide = Contexts(prepared=prepared, model=str(save_teacher(prepared, tmp_path / "teacher", teacher)))
    with pytest.raises(UserError, match=problem):
        guide.start(make_student(prepared, attention, **settings))


# Whole runs.


@pytest.mark.thorough
def test_runs_guided_by_contexts_start_with_the_teacher_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = run.parent
    plain = [word for word in LINKED if "slots" not in word]
    train([*plain, "attention=bahdanau", "name=teacher"])
    guide = ["guide=contexts", "guide.model=runs/teacher", "guide.decay_steps=20"]
    words = [*plain, *guide, "init_from=runs/teacher", "name=twice"]
    refuse(words, "init_from=runs/teacher: guide=contexts starts with the teacher's weights")
    guided = [*LINKED, *guide]
    train([*guided, "name=uninterrupted"])
    stop_at(8, guided)
    monkeypatch.setattr(Contexts, "start", Mock(side_effect=AssertionError))
    train(["resume=true"])
    assert same_model(run, runs / "uninterrupted")


@pytest.mark.thorough
def test_guided_runs(run: Path) -> None:
    runs = run.parent
    train([*LINKED, "name=plain"])
    train([*LINKED, "guide=links", "guide.weight=0", "name=zero"])
    assert same_model(runs / "plain", runs / "zero")

    guided = [*LINKED, "guide=teacher", "guide.model=runs/plain", "guide.decay_steps=20"]
    train([*guided, "name=uninterrupted"])
    first, second = (stored_weights(runs / name / "model.pt") for name in ("uninterrupted", "plain"))
    assert first.keys() == second.keys()  # the teacher is not stored
    assert not same_weights(first, second)
    stop_at(8, guided)
    changed = "guide: not the same as when runs/demo was started"
    refuse(["resume=true", "guide=teacher", "guide.model=runs/plain", "guide.weight=9"], changed)
    changed = "^guide.model: this model has changed since the run started; start a new run$"
    refuse(["resume=true", "guide=teacher", "guide.model=runs/zero"], changed)
    teacher = runs / "plain" / "model.pt"
    shutil.copy(teacher, "kept.pt")
    shutil.copy(runs / "uninterrupted" / "model.pt", teacher)
    refuse(["resume=true"], changed)
    shutil.copy("kept.pt", teacher)
    shutil.move(runs / "plain", runs / "moved")
    train(["resume=true", "guide=teacher", "guide.model=runs/moved"])
    assert same_model(run, runs / "uninterrupted")
    refuse([*guided, "name=other"], r"guide\.model=runs/plain: has no model; name a folder")
    assert not (runs / "other").exists()


def test_texts_and_models_that_do_not_fit_are_refused(run: Path, prepared: Prepared, tmp_path: Path) -> None:
    words = [word for word in LINKED if "slots" not in word]
    refuse([*words, "guide=links", "attention=none"], "GoldLinks: without attention there are no alignments; remove it")
    folder = save_teacher(prepared, tmp_path / "none", {"_target_": "nmt.attention.NoAttention"})
    words = [*TINY, "guide=teacher", f"guide.model={folder}"]
    refuse(words, r"none: its source tokenizer is not that of the training text")
    expect_error(
        r"none: has no attention, so it has no alignments; name another model",
        Teacher,
        prepared=prepared,
        model=str(folder),
    )
    low_rank = {"_target_": "nmt.attention.LowRankAttention", "slots": 2}
    folder = save_teacher(prepared, tmp_path / "low_rank", low_rank)
    corpus = Mock(longest_source=lambda: (70, 1))
    with pytest.raises(UserError, match=r"guide\.model=.*LowRankAttention holds at most 40; split"):
        Teacher(prepared=replace(prepared, corpora={"train": corpus}), model=str(folder))


def test_links_of_files_guide_training(run: Path) -> None:
    pairs = [("die Katze schläft", "the cat sleeps")] * 20
    Path("a.links").write_text("1-1 2-2 3-3\n" * 20)
    files = write_parts(Path(), {"train": pairs, "valid": pairs})
    words = [*MODEL, "data=text", "tokenizer.vocab_size=276", *files, "guide=links"]
    refuse(words, r"guide=links: the training text has pairs without gold links; give data")
    assert not run.exists()
    train([*words, "data.train.links=a.links", "data.train.links_base=1"])
    corpus: Corpus = open_prepared(run / "data").corpora["train"]
    assert corpus.has_links and corpus.sure_links(0).tolist() == [[0, 0], [1, 1], [2, 2]]
