"""A decaying attention in both directions reads the mean of the source and of the reversed source."""

from __future__ import annotations

import pytest
import torch

from nmt.attention import DeltaAttention, GatedDeltaAttention, GeneralCovarianceAttention
from nmt.attention.decaying import DecayingAttention

KINDS = [DeltaAttention, GatedDeltaAttention, GeneralCovarianceAttention]
LENGTHS = (6, 1, 4)


def build(kind: type[DecayingAttention], directions: str) -> DecayingAttention:
    torch.manual_seed(1)
    return kind(state_size=5, query_size=4, directions=directions).double()


@pytest.mark.parametrize("kind", KINDS)
def test_both_directions_read_the_mean_of_two_sources(kind: type[DecayingAttention]) -> None:
    both, forward = build(kind, "both"), build(kind, "forward")
    generator = torch.Generator().manual_seed(2)
    states, query = (torch.randn(3, *size, dtype=torch.float64, generator=generator) for size in ((6, 5), (2, 4)))
    mask = torch.arange(6) < torch.tensor(LENGTHS)[:, None]
    memory = both.write(states, mask, trace=True)
    context, weights = both.read(query, memory)
    alignment = both.align(weights, memory)
    for row, length in enumerate(LENGTHS):
        contexts, alignments = [], []
        for source in (states[row : row + 1, :length], states[row : row + 1, :length].flip(1)):
            single = forward.write(source, torch.ones(1, length, dtype=torch.bool), trace=True)
            read, read_weights = forward.read(query[row : row + 1], single)
            contexts.append(read)
            alignments.append(forward.align(read_weights, single))
        torch.testing.assert_close(context[row : row + 1], (contexts[0] + contexts[1]) / 2)
        expected = (alignments[0] + alignments[1].flip(2)) / 2
        torch.testing.assert_close(alignment[row : row + 1, :, :length], expected)
        assert not alignment[row, :, length:].any()
    assert sum(weight.numel() for weight in both.parameters()) == sum(map(torch.numel, forward.parameters()))


def test_recall_by_value_without_recall_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^attention\.recall_by=value: needs attention\.recall=true"):
        GeneralCovarianceAttention(state_size=5, query_size=4, recall_by="value")


def test_recall_in_both_directions_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^attention\.directions=both: with attention\.recall=true each direction"):
        GeneralCovarianceAttention(state_size=5, query_size=4, recall=True, directions="both")
    with pytest.raises(ValueError, match="directions='backward': must be forward | both"):
        build(DeltaAttention, "backward")
