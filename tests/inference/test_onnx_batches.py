"""A line has the same translation in every batch, whatever the other lines, their order and the number of threads."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from builders import random_model

from nmt.config import compose_train
from nmt.grammar.corpus import distinct_pairs
from nmt.inference.engines import LoadSettings, OnnxEngineName
from nmt.inference.model_folder import TrainedModel, save_folder
from nmt.inference.onnx.export import export
from nmt.inference.onnx.model import open_onnx
from nmt.inference.translation import Translation
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.tokenizer import Tokenizer

pytestmark = pytest.mark.thorough

SENTENCES = [pair.source for pair in islice(distinct_pairs(5, 1.0), 120)]
TOKENIZER = Tokenizer.train(SENTENCES, vocab_size=400)
# Long sources too, because onnxruntime orders some of their sums differently.
LINES = [
    *(line.split()[0] for line in SENTENCES[:20]),
    *SENTENCES[20:60],
    *(" ".join(SENTENCES[first : first + 3]) for first in range(60, 120, 3)),
]
SEARCHES = {"beam": SearchOptions(beam_size=5, max_length=9), "greedy": SearchOptions(beam_size=1, max_length=9)}
# More than 128 units: onnxruntime then splits sums into parts.
MODELS = {
    "memory": ["attention=memory", "encoder.hidden_size=192", "decoder.hidden_size=192"],
    "luong": ["attention=luong", "encoder.layers=2", "decoder.input_feeding=true"]
    + [f"{part}.hidden_size=320" for part in ("encoder", "decoder")],
    "linear": ["attention=memory", "encoder=transformer", "encoder.self_attention=linear", "encoder.hidden_size=192"],
    "delta": ["attention=delta", "decoder.hidden_size=192"],  # torch encodes
}


@pytest.fixture(
    scope="module",
    params=["luong", *(pytest.param(name, marks=pytest.mark.slow) for name in MODELS if name != "luong")],
)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    config = compose_train([*MODELS[request.param], "embeddings.size=32"])
    config["data"]["lowercase"] = False
    model = random_model(config, vocabulary=400, longest_source=200, scale=2, eos_bias=2)
    trained = TrainedModel(model=model, source=TOKENIZER, target=TOKENIZER, config=config, longest_source=200)
    save_folder(folder, trained)
    export(trained, folder)
    return folder


def batches(count: int, seed: int) -> Iterator[tuple[list[int], str, int]]:
    """Yield ``count`` random batches: indices of lines, the kind of search, and a number of threads."""
    generator = random.Random(seed)
    for _ in range(count):
        rows = generator.choices(range(len(LINES)), k=generator.choice([1, 2, 3, 5, 8, 13, 21]))
        yield rows, generator.choice(list(SEARCHES)), generator.choice([1, 2])


def count_differences(translators: dict[int, Translator], count: int, *, exact: bool) -> tuple[int, int]:
    """Translate random batches. Return the number of lines whose tokens, and of lines whose scores, change.

    ``translators`` has one translator per number of threads.
    """
    alone: dict[tuple[int, str], Translation] = {}
    tokens = scores = 0
    for rows, search, threads in batches(count, seed=7):
        together = translators[threads].translate([LINES[row] for row in rows], SEARCHES[search], alignments=False)
        for row, translation in zip(rows, together, strict=True):
            if (row, search) not in alone:
                [alone[row, search]] = translators[1].translate([LINES[row]], SEARCHES[search], alignments=False)
            expected = alone[row, search]
            tokens += translation.tokens != expected.tokens
            tolerance = 0 if exact else 1e-6 * max(1, abs(expected.log_prob))
            scores += abs(translation.log_prob - expected.log_prob) > tolerance
    return tokens, scores


def onnx_translators(run: Path, engine: OnnxEngineName) -> dict[int, Translator]:
    return {threads: Translator(open_onnx(run, LoadSettings(engine=engine, threads=threads))) for threads in (1, 2)}


@pytest.mark.parametrize("engine", ["onnx", "onnx-int8"])
@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_onnx_translations_do_not_depend_on_the_batch(engine: OnnxEngineName, count: int, run: Path) -> None:
    assert count_differences(onnx_translators(run, engine), count, exact=True) == (0, 0)


@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_torch_translations_do_not_depend_on_the_batch(count: int, run: Path) -> None:
    translator = Translator.load(run, engine="torch")
    assert count_differences({1: translator, 2: translator}, count, exact=False) == (0, 0)
