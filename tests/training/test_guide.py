"""The loss of a guide equals a naive loop, and text without links is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from builders import LUONG, random_model, tiny_config
from small_text import SETTINGS

from nmt.data.filters import Filters
from nmt.data.links import Pair
from nmt.errors import UserError
from nmt.text.batches import collate
from nmt.text.prepare import Prepared, prepare
from nmt.training.guide import SMALLEST, GoldLinks, alignment_loss

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


def test_loss_of_a_batch_is_the_sum_of_the_losses_of_its_parts(prepared: Prepared) -> None:
    """Therefore accumulated batches have the gradient of one large batch."""
    config, vocabulary = tiny_config(LUONG, shared=False), (len(prepared.source), len(prepared.target))
    model, guide = random_model(config, vocabulary=vocabulary, seed=5).double(), GoldLinks(prepared=prepared)
    joined, *parts = (
        guide.loss(model, collate(prepared.corpora["train"], rows))[1] for rows in ([2, 0, 1], [2], [0, 1])
    )
    torch.testing.assert_close(sum(parts), joined, rtol=1e-6, atol=1e-9)


def test_text_without_links_is_refused(prepared: Prepared, tmp_path: Path) -> None:
    pairs = {part: [Pair(*pair[:2]) for pair in PAIRS * 8] for part in ("train", "valid")}
    with pytest.raises(UserError, match="^guide=links: "):
        GoldLinks(prepared=prepare(pairs, Filters(), TOKENIZER, tmp_path / "data"))
