"""A model warns once about a text that its tokenizer cannot read, in every way of translating, and about no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders import BAHDANAU, random_trained, tiny_config

from nmt.commands.translate import translate as translate_command
from nmt.inference.forced_decoding import force_decode
from nmt.inference.model_folder import load_folder, save_folder
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.tokenizer import Tokenizer

ENGLISH = [
    "two small dogs run through the deep white snow .",
    "a man in a blue shirt is standing on a high ladder .",
    "the young children play with a red ball in the garden .",
]
FRENCH = [
    "deux petits chiens courent dans la neige blanche .",
    "un homme en chemise bleue est debout sur une haute chaise .",
    "les jeunes enfants jouent avec un ballon rouge dans le jardin .",
]
RUSSIAN = "Две маленькие собаки бегут по глубокому снегу ."
GREEDY = SearchOptions(beam_size=1, max_length=3)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a model from English into French."""
    folder = tmp_path_factory.mktemp("models") / "run"
    source, target = (Tokenizer.train(lines * 5, vocab_size=370) for lines in (ENGLISH, FRENCH))
    folder.mkdir()
    save_folder(folder, random_trained(tiny_config(BAHDANAU, shared=False), source, target, longest_source=100))
    return folder


@pytest.fixture
def translator(run: Path) -> Translator:
    return Translator(load_folder(run))


def test_text_in_another_script_is_named_once(translator: Translator) -> None:
    with pytest.warns(UserWarning, match=r"^source text: 9\d\.\d % of the tokens are .* 'Две'") as caught:
        translator.texts([RUSSIAN], GREEDY)
    assert len(caught) == 1
    translator.texts([RUSSIAN] * 3, GREEDY)  # a second warning would be an error


def test_a_long_stream_is_named_before_its_end(translator: Translator) -> None:
    groups: Iterator[list[str]] = translator.translate_groups(([RUSSIAN] * 64 for _ in range(9)), GREEDY)  # type: ignore[assignment]
    with pytest.warns(UserWarning, match="Две"):
        next(groups)
        next(groups)
    assert sum(map(len, groups)) == 7 * 64


WAYS: dict[str, tuple[str, Callable[[Path, Path], object]]] = {
    "forced decoding": ("target", lambda run, _: force_decode(Translator(load_folder(run)), ENGLISH, [RUSSIAN] * 3)),
    "command": (
        "source",
        lambda run, file: translate_command([f"model={run}", f"input={file}", "search=greedy", "search.max_length=1"]),
    ),
}


@pytest.mark.parametrize(("side", "way"), WAYS.values(), ids=WAYS)
def test_text_is_checked_in_every_way_of_translating(
    run: Path, tmp_path: Path, side: str, way: Callable[[Path, Path], object], capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text(f"{RUSSIAN}\n" * 600, encoding="utf-8")
    with pytest.warns(UserWarning, match=f"^{side} text: .*Две") as caught:
        way(run, tmp_path / "in.txt")
    assert len(caught) == 1
