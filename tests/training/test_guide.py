"""The losses of guides equal naive loops, a student starts with its teacher's weights, and misfits are refused."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from builders import BAHDANAU, LUONG, MEMORY, random_model, random_trained, tiny_config
from small_text import SETTINGS
from tiny import same_weights

from nmt.config.compose import train_config
from nmt.data.filters import Filters
from nmt.data.links import Pair
from nmt.errors import UserError
from nmt.inference.model_folder import load_folder, save_folder
from nmt.model import Seq2Seq
from nmt.text.batches import Batch, collate
from nmt.text.prepare import Prepared, prepare
from nmt.training.guide import SMALLEST, Contexts, GoldLinks, alignment_loss
from nmt.training.task import TranslationTask

TOKENIZER = replace(SETTINGS, vocab_size=(290, 290))
PAIRS = [
    Pair("die alte Katze schläft", "the old cat is asleep", ((0, 0), (1, 1), (2, 2), (3, 3), (3, 4)), ((0, 2),)),
    Pair("gestern schlief sie", "she slept yesterday", ((0, 2), (1, 1))),
    Pair("ach", "well then", ()),
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    pairs = {"train": PAIRS * 8, "valid": PAIRS}
    return prepare(pairs, Filters(), TOKENIZER, tmp_path_factory.mktemp("text") / "data")


@pytest.fixture
def batch(prepared: Prepared) -> Batch:
    return collate(prepared.corpora["train"], [2, 0, 1])


def teacher(prepared: Prepared, folder: Path, attention: dict[str, Any], **settings: Any) -> Contexts:
    folder.mkdir()
    save_folder(
        folder, random_trained(tiny_config(attention, shared=False, **settings), prepared.source, prepared.target)
    )
    return Contexts(prepared=prepared, model=str(folder))


def student(prepared: Prepared, attention: dict[str, Any], **settings: Any) -> Seq2Seq:
    config = tiny_config(attention, shared=False, **settings)
    return random_model(config, vocabulary=(len(prepared.source), len(prepared.target)), seed=5)


@pytest.mark.parametrize("signed", [False, True])
def test_alignment_loss_equals_a_naive_loop(signed: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    alignment = torch.randn(3, 4, 5, generator=generator)
    alignment = alignment if signed else alignment.abs()
    targets = torch.rand(3, 4, 5, generator=generator)
    targets[0, 2:] = 0
    expected = 0.0
    for row, target in zip(alignment.reshape(-1, 5).tolist(), targets.reshape(-1, 5).tolist(), strict=True):
        total = sum(map(abs, row))
        expected -= sum(y * math.log(abs(a) / total + SMALLEST) for a, y in zip(row, target, strict=True))
    assert alignment_loss(alignment, targets).item() == pytest.approx(expected)
    assert alignment_loss(3 * alignment, targets).item() == pytest.approx(expected)


def test_an_alignment_of_zeros_has_finite_gradients() -> None:
    alignment = torch.zeros(1, 2, 3, requires_grad=True)
    assert alignment_loss(alignment, torch.zeros(1, 2, 3)) == 0
    (loss := alignment_loss(alignment, torch.eye(3)[None, :2])).backward()
    assert loss.isfinite() and alignment.grad is not None and alignment.grad.isfinite().all()


@pytest.mark.parametrize("slots", [3, 40])
@pytest.mark.parametrize("feeding", [False, True])
def test_distance_of_contexts_equals_a_naive_loop(
    slots: int, feeding: bool, prepared: Prepared, batch: Batch, tmp_path: Path
) -> None:
    decoder = {"input_feeding": feeding}
    guide = teacher(prepared, tmp_path / "teacher", BAHDANAU, decoder=decoder)
    pupil = student(prepared, {**MEMORY, "slots": slots}, decoder=decoder)
    guide.start(pupil)
    features, loss = guide.loss(pupil, batch)
    model = load_folder(tmp_path / "teacher").model
    expected = 0.0
    for row in range(3):
        source, target = batch.source[row, batch.source_mask[row]][None], batch.target_in[row, batch.target_mask[row]]
        states, final = model.encoder(model.embedding(source), source > -1)
        memory = model.attention.write(states, source > -1)
        state = model.decoder.init(final, memory)
        own = pupil.encode(source, source > -1)[0].slots[0]
        for t, piece in enumerate(target.tolist()):
            _, state, weights = model.decoder.step(torch.tensor([[piece]]), state, memory)
            if t < slots:
                context = sum(weights[0, 0, s] * states[0, s] for s in range(source.shape[1]))
                expected += sum((own[t, d] - context[d]).item() ** 2 for d in range(len(context)))
    assert loss.item() == pytest.approx(expected, rel=1e-4)
    torch.testing.assert_close(features, pupil.features(batch.source, batch.source_mask, batch.target_in))
    loss.backward()
    assert pupil.attention.W_alpha.weight.grad.any() and pupil.attention.W_beta.weight.grad is None
    assert all(weight.grad is None for weight in guide.model.parameters())


@pytest.mark.parametrize("kind", ["links", "contexts", "contexts of layers"])
def test_loss_of_a_batch_is_the_sum_of_the_losses_of_its_parts(kind: str, prepared: Prepared, tmp_path: Path) -> None:
    """Therefore accumulated batches have the gradient of one large batch."""
    decoder = {"_target_": "nmt.model.TransformerDecoder", "heads": 2} if "layers" in kind else {}
    pupil = student(prepared, LUONG if kind == "links" else MEMORY, decoder=decoder).double()
    guide = GoldLinks(prepared=prepared) if kind == "links" else teacher(prepared, tmp_path / "teacher", BAHDANAU)
    if isinstance(guide, Contexts):
        guide.model.double()
    joined, *parts = (
        guide.loss(pupil, collate(prepared.corpora["train"], rows))[1] for rows in ([2, 0, 1], [2], [0, 1])
    )
    torch.testing.assert_close(sum(parts), joined, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("size", [8, 12])
def test_student_starts_with_the_weights_of_the_teacher_that_fit(size: int, prepared: Prepared, tmp_path: Path) -> None:
    guide = teacher(prepared, tmp_path / "teacher", LUONG)
    pupil = student(prepared, MEMORY, decoder={"hidden_size": size})
    before, given = deepcopy(pupil.state_dict()), guide.model.state_dict()
    guide.start(pupil)
    kept = [name for name in before if "attention." in name or before[name].shape != given[name].shape]
    assert size == 12 or all("attention." in name for name in kept)
    assert same_weights(pupil.state_dict(), {name: before[name] if name in kept else given[name] for name in before})


def test_a_run_continues_with_the_same_teacher_only(prepared: Prepared, tmp_path: Path) -> None:
    student = random_trained(tiny_config(MEMORY, shared=False), prepared.source, prepared.target)
    tasks = [
        TranslationTask(student, config=train_config([]), valid=prepared.corpora["valid"], guide=guide)
        for guide in (None, *(teacher(prepared, tmp_path / str(n), kind) for n, kind in enumerate((BAHDANAU, LUONG))))
    ]
    checkpoint = dict[str, Any]()
    tasks[1].trainer = trainer = Mock(callback_metrics={})
    tasks[1].on_save_checkpoint(checkpoint)
    tasks[1].on_load_checkpoint(checkpoint)
    for task in (tasks[0], tasks[2]):
        with pytest.raises(UserError, match=r"^guide\.model: "):
            task.on_load_checkpoint(checkpoint)
    del trainer  # which a task only refers to


@pytest.mark.parametrize(
    ("attention", "own", "settings"),
    [
        (MEMORY, MEMORY, {}),  # compares no source states
        (BAHDANAU, BAHDANAU, {}),  # keeps no contexts
        (BAHDANAU, MEMORY, {"encoder": {"layers": 2}}),
        (BAHDANAU, MEMORY, {"size": 12}),
        (BAHDANAU, {"_target_": "nmt.attention.MultiHeadAttention", "heads": 2, "inner": MEMORY}, {}),
    ],
)
def test_models_whose_contexts_cannot_be_compared_are_refused(
    attention: dict[str, Any], own: dict[str, Any], settings: dict[str, Any], prepared: Prepared, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"^guide\.model=.*"):
        teacher(prepared, tmp_path / "teacher", attention).start(student(prepared, own, **settings))


def test_text_without_links_is_refused(prepared: Prepared, tmp_path: Path) -> None:
    pairs = {part: [Pair(*pair[:2]) for pair in PAIRS * 8] for part in ("train", "valid")}
    with pytest.raises(UserError, match="^guide=links: "):
        GoldLinks(prepared=prepare(pairs, Filters(), TOKENIZER, tmp_path / "data"))
