"""Corpus scores against sacrebleu's own functions."""

from __future__ import annotations

import pytest
import sacrebleu

from nmt.errors import UserError
from nmt.evaluation import corpus_scores

HYPOTHESES = ["A man sleeps .", "two dogs run in the park .", "the Cat"]
REFERENCES = ["a man is asleep .", "two dogs run through the park .", "the cat sees a bird ."]


@pytest.mark.parametrize("lowercase", [False, True])
def test_scores_equal_sacrebleu(lowercase: bool) -> None:
    scores = corpus_scores(HYPOTHESES, REFERENCES, lowercase=lowercase, ter=True)
    # force=True: sacrebleu otherwise warns that these lines look tokenised.
    assert scores.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], lowercase=lowercase, force=True).score > 0
    assert scores.ter == sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES], case_sensitive=not lowercase).score
    text = [[line.lower() if lowercase else line for line in side] for side in (HYPOTHESES, REFERENCES)]
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(text[0], [text[1]]).score)


def test_signatures_describe_the_scores() -> None:
    scores = corpus_scores(HYPOTHESES, REFERENCES)
    assert scores.ter is None and set(scores.signatures) == {"bleu", "chrf"}
    assert all("nrefs:1|case:mixed|" in signature for signature in scores.signatures.values())
    lowercase = corpus_scores(HYPOTHESES, REFERENCES, lowercase=True, ter=True)
    assert set(lowercase.signatures) == {"bleu", "chrf", "ter"}
    assert all("nrefs:1|case:lc|" in signature for signature in lowercase.signatures.values())


@pytest.mark.parametrize("count", [0, 2, 4])
def test_sides_of_unequal_length_are_rejected(count: int) -> None:
    references = ["a line"] * count
    with pytest.raises(UserError, match=f"3 translations, {count} references: "):
        corpus_scores(HYPOTHESES, references)
