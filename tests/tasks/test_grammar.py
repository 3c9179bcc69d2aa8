"""The generated task: what holds for every corpus, and for the links between its words."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import TypeAlias

import pytest

from nmt.errors import UserError
from nmt.tasks.grammar import adverbials, generate
from nmt.tasks.grammar.draw_sentences import Sentences
from nmt.tasks.grammar.lexicon import IT, all_adjectives, all_nouns, all_verbs, verb
from nmt.tasks.grammar.tree import Clause, Pronoun, Sentence
from nmt.text.pair import Pair

Links: TypeAlias = tuple[tuple[int, int], ...]
Corpus: TypeAlias = list[tuple[list[str], list[str], Links]]
MARKS = {",", ".", "?"}
NAMES = (
    "Peter Thomas Lukas Felix Jonas Martin Paul David Simon Tobias Florian Moritz "
    "Anna Maria Julia Laura Sophie Emma Clara Lena Hannah Katharina Eva Charlotte"
)
CITIES = {"Munich": "München", "Cologne": "Köln", "Vienna": "Wien", "Rome": "Rom", "Prague": "Prag", "Berlin": "Berlin"}
NUMBERS = {"two": "zwei", "three": "drei", "five": "fünf", "eight": "acht", "ten": "zehn", "twelve": "zwölf"}


def both_ways(links: Links) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    forth: dict[int, list[int]] = {}
    back: dict[int, list[int]] = {}
    for i, j in links:
        forth.setdefault(i, []).append(j)
        back.setdefault(j, []).append(i)
    return forth, back


# --- the corpus -------------------------------------------------------------------------------------------------------


def test_sizes_and_no_sentence_twice(parts: dict[str, list[Pair]]) -> None:
    assert {part: len(pairs) for part, pairs in parts.items()} == {"train": 20_000, "valid": 500, "test": 500}
    sources = [pair.source for pairs in parts.values() for pair in pairs]
    assert len(set(sources)) == len(sources)


def test_a_seed_decides_everything_on_every_machine() -> None:
    sizes = {"train": 300, "valid": 10, "test": 10}
    once = generate(**sizes, seed=5)
    assert once == generate(**sizes, seed=5)
    other = generate(**sizes, seed=6)
    assert all(once[part] != other[part] for part in sizes)
    code = f"from nmt.tasks.grammar import generate; print(ascii(generate(**{sizes}, seed=5)))"
    for hash_seed in ("1", "2"):  # the order of sets differs between these
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == ascii(once)


@pytest.mark.parametrize("train", [300, 20_000])
def test_every_word_was_seen_in_training(parts: dict[str, list[Pair]], train: int) -> None:
    drawn = parts if train == 20_000 else generate(train_pairs=train, valid_pairs=50, test_pairs=50, seed=2)
    for side in ("source", "target"):
        known = {word for pair in drawn["train"] for word in getattr(pair, side).split()}
        for part in ("valid", "test"):
            assert drawn[part]
            assert {word for pair in drawn[part] for word in getattr(pair, side).split()} <= known


def test_lengths_vary(corpus: Corpus) -> None:
    for side in (0, 1):
        lengths = [len(sentence[side]) for sentence in corpus]
        assert min(lengths) in {3, 4} and 30 <= max(lengths) <= 40
        assert len(set(lengths)) >= 30
        assert max(lengths.count(length) for length in set(lengths)) < 0.1 * len(lengths)


def test_three_to_forty_words_on_either_side(monkeypatch: pytest.MonkeyPatch) -> None:
    # The grammar itself hardly ever says more than forty words; so let it be made to.
    lengths = iter([(2, 3), (3, 2), (41, 3), (3, 41), (3, 40), (40, 3)])
    said = (Pair(" ".join("a" * source), " ".join("b" * target)) for source, target in lengths)
    monkeypatch.setattr(import_module("nmt.tasks.grammar.generate"), "say", lambda _: next(said))
    drawn = generate(train_pairs=2, valid_pairs=0, test_pairs=0, seed=1)["train"]
    assert [(len(pair.source.split()), len(pair.target.split())) for pair in drawn] == [(3, 40), (40, 3)]


def lemmas() -> Iterator[tuple[str, set[str], str, set[str]]]:
    """An English lemma and its forms, its German counterpart and its forms; no names, no function words."""
    for one in all_nouns():
        yield one.singular, {one.singular, one.plural or one.singular}, one.forms[0], set(one.forms)
    for one in all_adjectives():
        compared = {one.german_comparative} - {None}
        forms = {one.german, *(one.stem + ending for ending in ("e", "en", "er", "es", "em")), *compared}
        yield one.english, {one.english, one.english_comparative or one.english}, one.german, forms
    for one in all_verbs():
        after = f" {one.particle}" if one.particle else ""
        english = {form + after for form in (one.base, one.third, one.past, one.participle)}
        finite = {one.prefix + form for form in one.present_forms + one.past_forms}
        joined = {one.prefix + one.german, f"{one.prefix}zu{one.german}"}
        yield one.base + after, english, one.prefix + one.german, finite | joined | {one.german_participle}
    for table in (adverbials.MANNER, adverbials.FREQUENCY, adverbials.OPENING, adverbials.NUMBERS, adverbials.DEGREES):
        for row in table.strip().splitlines():
            english_word, german_word = (cell.strip() for cell in row.split("|")[:2])
            if " " not in english_word + german_word:
                yield english_word, {english_word}, german_word, {german_word}


def test_four_hundred_lemmas_a_side(corpus: Corpus) -> None:
    said = [" ".join(word for sentence in corpus[:20_000] for word in sentence[side]) for side in (0, 1)]
    words = [set(text.split()) for text in said]

    def occurs(form: str, side: int) -> bool:
        return form in words[side] if " " not in form else f" {form} " in said[side]

    table = list(lemmas())
    for name, forms, side in ((0, 1, 0), (2, 3, 1)):
        # Keyed by the word itself: homonyms (to cook, the cook) count once.
        assert len({row[name] for row in table}) >= 400
        assert len({row[name] for row in table if any(occurs(form, side) for form in row[forms])}) >= 400


# --- links ------------------------------------------------------------------------------------------------------------


def test_links_are_sorted_and_within_bounds(corpus: Corpus) -> None:
    for source, target, links in corpus:
        assert list(links) == sorted(set(links))
        assert all(0 <= i < len(source) and 0 <= j < len(target) for i, j in links)


def test_marks_link_to_marks_and_the_last_to_the_last(corpus: Corpus) -> None:
    for source, target, links in corpus:
        assert all((source[i] in MARKS) == (target[j] in MARKS) for i, j in links)
        last = (len(source) - 1, len(target) - 1)
        assert source[-1] == target[-1] and source[-1] in {".", "?"}
        assert [link for link in links if link[0] == last[0] or link[1] == last[1]] == [last]


def test_names_and_numbers_link_to_their_counterpart_alone(corpus: Corpus) -> None:
    table = {name: name for name in NAMES.split()} | CITIES | NUMBERS
    seen = set()
    for source, target, links in corpus:
        forth, back = both_ways(links)
        english = [word if word in table else word.lower() for word in source]
        for i, word in enumerate(english):
            if word in table:
                seen.add(word)
                assert [target[j].lower() for j in forth[i]] == [table[word].lower()], source
                assert back[forth[i][0]] == [i]
    assert seen == set(table)


def test_only_words_without_counterpart_are_unlinked(corpus: Corpus) -> None:
    lonely: tuple[set[str], set[str]] = (set(), set())
    for source, target, links in corpus:
        forth, back = both_ways(links)
        lonely[0].update(word.lower() for i, word in enumerate(source) if i not in forth)
        for j, word in enumerate(target):
            if j not in back:
                # "at night", "in der Nacht": the one article that English has not.
                phrase = " ".join(target[j - 1 : j + 2]).lower()
                lonely[1].add(phrase if phrase == "in der nacht" else word)
            assert word != "," or {source[i] for i in back.get(j, [])} <= {","}
        assert not any(i in forth for i, word in enumerate(source) if word.lower() in {"do", "does", "did"})
    # A comma of English: "saw the man , who slept , yesterday", where the German clause ends the sentence.
    assert lonely[0] <= {"do", "does", "did", "to", "of", ","}
    assert {"do", "does", "did", "to", "of"} <= lonely[0]
    assert lonely[1] == {",", "in der nacht"}


def test_word_order_differs(corpus: Corpus) -> None:
    def crosses(links: Links) -> bool:
        return any(i < k and j > m for i, j in links for k, m in links)

    assert sum(crosses(links) for _, _, links in corpus[:3000]) >= 0.4 * 3000


def test_negation_links_to_negation(corpus: Corpus) -> None:
    found = set()
    for source, target, links in corpus:
        forth, back = both_ways(links)
        english = {i for i, word in enumerate(source) if word.lower() in {"not", "cannot", "no"}}
        german = {j for j, word in enumerate(target) if word == "nicht" or word.lower().startswith("kein")}
        assert all(len(german.intersection(forth[i])) == 1 for i in english), source
        assert all(len(english.intersection(back[j])) == 1 for j in german), source
        found |= {(source[i], target[j][:4]) for i, j in links if i in english and j in german}
    assert {("not", "nich"), ("cannot", "nich"), ("not", "kein"), ("cannot", "kein"), ("no", "kein")} <= found
    assert ("no", "nich") not in found


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_task_without_enough_words_or_sentences_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("nmt.tasks.grammar.generate"), "PATIENCE", 500)
    for train in (0, 1):
        with pytest.raises(UserError, match=r"^data\.test_pairs: too little training .*; raise data\.train_pairs$"):
            generate(train_pairs=train, valid_pairs=0, test_pairs=5, seed=1)
    assert gc.isenabled()  # switched off while drawing; a refusal must not leave it off
    # A grammar of one sentence.
    monkeypatch.setattr(Sentences, "sentence", lambda _: Sentence(Clause(Pronoun(IT), verb("rain"))))
    with pytest.raises(
        UserError, match=r"^data\.kind=generated: no more than 1 distinct sentences .* ask for fewer pairs$"
    ):
        generate(train_pairs=2, valid_pairs=0, test_pairs=0, seed=1)


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_negative_sizes_are_refused(part: str) -> None:
    with pytest.raises(UserError, match=rf"^data\.{part}_pairs=-1: must be at least 0$"):
        generate(**{"train": 5, "valid": 0, "test": 0, part: -1}, seed=1)


def test_small_tasks_draw_from_a_small_lexicon_without_stumbling() -> None:
    # Few words of each kind: there was no verb left to say anything about a drink.
    for seed in range(5):
        assert len(generate(train_pairs=900, valid_pairs=1, test_pairs=1, seed=seed)["train"]) == 900
