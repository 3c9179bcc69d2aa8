"""A decaying attention in both directions reads the mean of the source and of the reversed source."""

from __future__ import annotations

import pytest
import torch

from nmt.attention import DeltaAttention, GatedDeltaAttention, GeneralCovarianceAttention
from nmt.attention.decaying import DecayingAttention
from nmt.testing import write_and_read

KINDS = [DeltaAttention, GatedDeltaAttention, GeneralCovarianceAttention]


def build(kind: type[DecayingAttention], directions: str) -> DecayingAttention:
    torch.manual_seed(1)
    return kind(state_size=5, query_size=4, directions=directions).double()


@pytest.mark.parametrize("kind", KINDS)
def test_both_directions_read_the_mean_of_two_sources(kind: type[DecayingAttention]) -> None:
    both, forward = build(kind, "both"), build(kind, "forward")
    states, query = torch.randn(1, 6, 5, dtype=torch.float64), torch.randn(1, 2, 4, dtype=torch.float64)
    mask = torch.ones(1, 6, dtype=torch.bool)
    context, _, alignment = write_and_read(both, states, mask, query)
    first, _, first_alignment = write_and_read(forward, states, mask, query)
    second, _, second_alignment = write_and_read(forward, states.flip(1), mask, query)
    torch.testing.assert_close(context, (first + second) / 2)
    torch.testing.assert_close(alignment, (first_alignment + second_alignment.flip(2)) / 2)
    assert sum(weight.numel() for weight in both.parameters()) == sum(map(torch.numel, forward.parameters()))


def test_recall_by_value_without_recall_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^attention\.recall_by=value: needs attention\.recall=true"):
        GeneralCovarianceAttention(state_size=5, query_size=4, recall_by="value")


def test_recall_in_both_directions_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^attention\.directions=both: with attention\.recall=true each direction"):
        GeneralCovarianceAttention(state_size=5, query_size=4, recall=True, directions="both")
    with pytest.raises(ValueError, match="directions='backward': must be forward | both"):
        build(DeltaAttention, "backward")
