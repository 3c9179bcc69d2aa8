"""A model warns once about a text that its tokenizer cannot read, in every way of translating, and about no other."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import BAHDANAU, random_trained, tiny_config

from nmt.commands.streams import full_groups
from nmt.commands.translate import translate as translate_command
from nmt.inference import Translate, reader, shards
from nmt.inference.forced_decoding import force_decode, forced_links
from nmt.inference.memories import encode_line
from nmt.inference.model_folder import load_folder, save_folder
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.text.coverage import Coverage
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
    with pytest.warns(UserWarning, match=r"^source text: 9\d\.\d % of the tokens are .* 'Две' \(Cyrillic\)") as caught:
        translator.texts([RUSSIAN], GREEDY)
    assert len(caught) == 1
    translator.texts([RUSSIAN] * 3, GREEDY)  # a second warning would be an error


def test_line_much_longer_than_the_training_text_is_named(translator: Translator) -> None:
    long = [" ".join(ENGLISH).replace(" .", ".")] * 2
    assert len(translator.loaded_model.source.encode(long[0])) <= 99
    translator.texts(long, GREEDY)
    long.append(" ".join(long * 2))
    translator.texts(long, replace(GREEDY, sentences="en"))
    expected = rf"^source text: a line has {len(translator.loaded_model.source.encode(long[-1]))} tokens; .* has 99, "
    with pytest.warns(UserWarning, match=expected):
        translator.texts(long, GREEDY)


def test_line_little_longer_than_the_training_text_is_not_named(translator: Translator) -> None:
    encode = translator.loaded_model.source.encode
    lines = [" ".join(ENGLISH[0].split() * 20)[:length] for length in range(9, 700)]
    lines = [line for line in lines if len(encode(line)) <= 118]
    assert max(len(encode(line)) for line in lines) > 110
    translator.texts(lines, GREEDY)


def test_another_script_is_named_after_a_long_line(translator: Translator) -> None:
    with pytest.warns(UserWarning, match="a line has") as caught:
        translator.texts([" ".join(ENGLISH * 4)], GREEDY)
        translator.texts([" ".join(ENGLISH * 5)], GREEDY)
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="Cyrillic"):
        translator.texts([RUSSIAN] * 30, GREEDY)


@pytest.mark.parametrize(
    "lines",
    [
        [*ENGLISH * 9, RUSSIAN],
        ["", " "],
        ["3.14159 2.71828 1.41421 0.57721"] * 40,
    ],
)
def test_readable_text_is_not_named(translator: Translator, lines: list[str]) -> None:
    translator.texts(lines, GREEDY)


WRAPPED = textwrap.wrap(" ".join(line.replace(" .", ".").capitalize() for line in ENGLISH * 4), 60)


def test_lines_that_end_within_sentences_are_named(translator: Translator) -> None:
    with pytest.warns(UserWarning, match="source text: lines end within sentences, .* format=markdown"):
        translator.texts(WRAPPED, GREEDY)


@pytest.mark.parametrize(
    "sentence",
    ["Две собаки бегут по снегу.", "Δύο μικρά σκυλιά τρέχουν στο χιόνι.", "Երկու փոքր շուն վազում են խոր ձյան միջով։"],
)
def test_lines_of_other_scripts_with_capitals_are_judged_too(sentence: str) -> None:
    assert reader._is_wrapped(textwrap.wrap(" ".join([sentence] * 12), 50))
    assert not reader._is_wrapped([sentence] * 12)


def test_georgian_titles_are_not_taken_for_broken_sentences() -> None:
    assert not reader._is_wrapped(["პატარა კატა თოვლში", "ძაღლი", "აშშ. USA და საქართველო"] * 9)


def test_lines_that_come_one_by_one_are_judged_when_their_number_has_doubled(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = list[int]()

    def is_wrapped(lines: Sequence[str], original: Callable[[Sequence[str]], bool] = reader._is_wrapped) -> bool:
        judged.append(len(lines))
        return original(lines)

    monkeypatch.setattr(reader, "_is_wrapped", is_wrapped)
    check = translator.source_check
    with pytest.warns(UserWarning, match="lines end within sentences") as caught:
        for line in WRAPPED * 5:
            check.encode(line)
            check.conclude()
    assert len(caught) == 1
    assert judged == [1, 2, 4, 8][: len(judged)]


def test_a_line_that_is_read_while_others_are_counted_is_not_lost(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = translator.source_check
    others = iter(ENGLISH)

    def count(counts: Coverage, tokenizer: Tokenizer, *texts: Any, original: Any = Coverage.count) -> None:
        original(counts, tokenizer, *texts)
        for line in others:  # as another thread does
            check.encode(line)
            break

    monkeypatch.setattr(Coverage, "count", count)
    for line in ENGLISH:
        check.encode(line)
        check.conclude()
    check.conclude()
    assert check.counts.lines == 2 * len(ENGLISH)


@pytest.mark.parametrize("line", ["यह किताब बहुत अच्छी है।", "এই বইটি খুব ভালো।", "இந்த புத்தகம் நன்றாக உள்ளது", "សៀវភៅនេះល្អណាស់"])
def test_vowel_signs_are_part_of_a_text(line: str) -> None:
    """str.isalpha is false for a third of the characters of these languages, as in a text of numbers."""
    assert reader._is_text([line]) and not reader._is_text([f"{line} 3.14159 2.71828 1.41421 0.57721"])


def test_a_sample_that_is_compared_stays_while_others_are_counted(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines and their ids are read one after the other, so a line between would raise an error."""
    check = translator.source_check
    sizes = list[tuple[int, int]]()

    def compare(tokenizer: Tokenizer, lines: Sequence[str]) -> float:
        before = len(lines)
        check.encode(ENGLISH[1])
        check._count()  # as another thread does
        sizes.append((before, len(lines)))
        return 1.0

    monkeypatch.setattr(reader, "cost", compare)
    check.encode(ENGLISH[0])
    check.conclude()
    assert sizes == [(1, 1)] * 2


@pytest.mark.parametrize(
    "lines",
    [
        ENGLISH * 4,
        [line.removesuffix(" .") for line in ENGLISH] * 4,  # captions without full stops
        [line.lower() for line in WRAPPED],
        [f"{line} {line.capitalize()}" for line in ENGLISH] * 4,
    ],
)
def test_sentences_and_captions_are_not_named(translator: Translator, lines: list[str]) -> None:
    translator.texts(lines, GREEDY)


def test_a_long_stream_is_named_before_its_end(translator: Translator) -> None:
    groups: Iterator[list[str]] = translator.translate_groups(([RUSSIAN] * 64 for _ in range(9)), GREEDY)  # type: ignore[assignment]
    with pytest.warns(UserWarning, match="Cyrillic"):
        next(groups)
        next(groups)
    assert sum(map(len, groups)) == 7 * 64


def test_text_of_the_other_side_is_named(translator: Translator) -> None:
    with pytest.warns(UserWarning, match="source text: .* tokens per word, and fewer with the other side's tokenizer"):
        translator.texts(FRENCH * 20, GREEDY)


def encode_memory(run: Path, _: Path) -> None:
    translator = Translator(load_folder(run))
    encode_line(translator, RUSSIAN)
    translator.conclude_text()


def cut_into_shards(run: Path, file: Path) -> None:
    translator = Translator(load_folder(run))
    reading = (translator.source_check, translator.change_text)
    assert sum(len(shard.lines) for shard in shards._shards(full_groups(str(file)), *reading)) == 600


WAYS: dict[str, tuple[str, Callable[[Path, Path], object]]] = {
    "forced decoding": ("target", lambda run, _: force_decode(Translator(load_folder(run)), ENGLISH, [RUSSIAN] * 3)),
    "forced links": ("source", lambda run, _: forced_links(Translator(load_folder(run)), [RUSSIAN] * 3, FRENCH)),
    "memory": ("source", encode_memory),
    "column": ("source", lambda run, _: Translate(model=run, search=GREEDY)({"text": [RUSSIAN, None]})),
    "workers": ("source", cut_into_shards),
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
    with pytest.warns(UserWarning, match=f"^{side} text: .*Cyrillic") as caught:
        way(run, tmp_path / "in.txt")
    assert len(caught) == 1


def test_a_full_sample_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    english, french = (Tokenizer.train(lines * 5, vocab_size=370) for lines in (ENGLISH, FRENCH))
    samples = []
    monkeypatch.setattr(reader, "cost", lambda tokenizer, lines: samples.append(len(lines)) or 1.0)
    check = reader.TextCheck("source", english, french)
    for _ in range(2 * reader.SAMPLE):
        check.encode(ENGLISH[0])
        check.conclude()
    assert len(samples) == 2 * len({*samples}) and max(samples) == reader.SAMPLE
