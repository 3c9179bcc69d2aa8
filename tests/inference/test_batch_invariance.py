"""A line has the same translation and score alone, in any batch, in any order, and with any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from inference.conftest import MODELS, WORDS

from nmt.inference import bulk
from nmt.inference.engines import EngineName
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions

pytestmark = pytest.mark.thorough

# For each of nine models.
EXAMPLES = pytest.mark.parametrize("examples", [20, pytest.param(335, marks=pytest.mark.slow)])
# Relative, of scores of torch; those of onnxruntime are equal. Sums in another order change a float32 by 1e-7, which
# the layers of a Transformer can increase to 1.6e-6.
TOLERANCE = 3e-6
LINES = st.lists(st.lists(st.sampled_from(WORDS), max_size=20).map(" ".join), min_size=1, max_size=8)
SEARCHES = st.one_of(
    st.builds(SearchOptions, beam_size=st.just(1), max_length=st.integers(4, 12)),
    st.builds(SearchOptions, beam_size=st.integers(3, 5), n_best=st.integers(1, 3), max_length=st.integers(4, 12)),
    st.builds(SearchOptions, temperature=st.floats(0.5, 2), n_best=st.integers(1, 2), max_length=st.integers(4, 12)),
)


FAST = ("memory", "feeding")


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] if name not in FAST else []) for name in MODELS])
def folder(request: pytest.FixtureRequest, exported_model: Callable[[str], Path]) -> Path:
    return exported_model(request.param)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def translators(folder: Path, engine: EngineName) -> dict[int, Translator]:
    """Return a translator for each number of threads. Torch has one number for the whole process."""
    if engine == "torch":
        return dict.fromkeys((1, 2, 3), Translator.load(folder, engine="torch", device="cpu"))
    return {count: Translator.load(folder, engine=engine, threads=count) for count in (1, 2, 3)}


def in_parts(lines: list[str], random: Random) -> Iterator[list[str]]:
    """Yield the lines in parts of random sizes, as a slow writer would send them."""
    first = 0
    while first < len(lines):
        size = random.randint(1, len(lines))
        yield lines[first : first + size]
        first += size


@EXAMPLES
@pytest.mark.parametrize("engine", ["torch", "onnx", "onnx-int8"])
@pytest.mark.usefixtures("threads")
def test_translation_does_not_depend_on_its_batch(
    engine: EngineName, examples: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "LEAST_TOKENS", 4)  # so that few lines are several batches at once
    by_threads = translators(folder, engine)
    same: list[bool] = []  # of each hypothesis: whether its tokens are those of the line alone

    @settings(max_examples=examples, deadline=None)
    @given(LINES, SEARCHES, st.sampled_from([1, 2, 3]), st.sampled_from([12, 40, 4096]), st.randoms())
    def check(lines: list[str], options: SearchOptions, count: int, max_tokens: int, random: Random) -> None:
        torch.set_num_threads(1)
        by_threads[1].max_tokens = 4096
        alone = [by_threads[1].translate([line], options, alignments=False)[0] for line in lines]
        torch.set_num_threads(count)
        translator = by_threads[count]
        translator.max_tokens = max_tokens
        order = random.sample(range(len(lines)), len(lines))
        parts = in_parts([lines[row] for row in order], random)
        together = [best for part in parts for best in translator.translate(part, options, alignments=False)]
        for row, translation in zip(order, together, strict=True):
            pairs = zip(translation.n_best or [translation], alone[row].n_best or [alone[row]], strict=True)
            for left, right in pairs:
                same.append(left.tokens == right.tokens)
                # Rarely, the last digit of torch's probabilities decides which piece a random number chooses.
                assert same[-1] or (engine == "torch" and options.temperature is not None)
                tolerance = TOLERANCE if engine == "torch" else 0
                assert not same[-1] or left.score == pytest.approx(right.score, rel=tolerance, abs=0)

    check()
    assert same.count(False) <= len(same) // 100
