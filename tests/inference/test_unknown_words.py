"""Unknown words: replaced by the source words that a naive loop finds, whatever the search; all else stays the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from inference.random_translators import random_translator, searches

from nmt.data.words import PieceWords
from nmt.errors import UserError
from nmt.inference.engines import LoadSettings
from nmt.inference.model_folder import save_folder
from nmt.inference.shards import Shard, TranslateShard
from nmt.inference.translation import Translation, alignment_lines
from nmt.inference.translator import Translator
from nmt.inference.unknown_words import replace_unknown
from nmt.search.options import SearchOptions

LINES = ["two ☃ dogs", "in New York , ☃☃ x", "ein Garten", "a b c d e f g"]
LEXICON = {"dogs": "zwei Hunde", "York": "Jork", "☃": "Schnee mann", "c": "d"}
BEAM = SearchOptions(replace_unknown=True, beam_size=4, n_best=4, max_length=7)
SEARCHES = searches(BEAM)
make_translator = partial(random_translator, kind="spm-default", unknown_bias=4)


@pytest.fixture
def lexicon(tmp_path: Path) -> str:
    file = tmp_path / "lexicon.tsv"
    file.write_text("".join(f"{source}\t{target}\n" for source, target in LEXICON.items()), "utf-8")
    return str(file)


def naive_words(best: Translation, line: str, lexicon: dict[str, str], kind: str) -> Iterator[str]:
    """Yield the words of a translation: pieces are joined from ▁ to ▁, and a word with ``<unk>`` is replaced."""
    source = [word for word in line.split(" ") if word]
    words: list[list[int]] = []
    for t, piece in enumerate(best.tokens):
        starts = piece.startswith("▁") or (kind == "words" and piece == "<unk>") or not words
        if piece != "</s>":
            words[len(words) - (not starts) :] = [[*([] if starts else words[-1]), t]]
    words = [word for word in words if any(best.tokens[t].strip("▁") for t in word)]
    for word in words:
        text = "".join(best.tokens[t] for t in word).replace("▁", "")
        if "<unk>" not in text:
            yield text
            continue
        weights = np.zeros(len(source))
        for t in word:
            row = np.abs(best.alignment[t, : len(best.source_words)])
            for s, i in enumerate(best.source_words):
                weights[i] += row[s] / row.sum()
        yield lexicon.get(source[weights.argmax()], source[weights.argmax()])


@pytest.mark.parametrize("kind", ["spm-default", "bpe-nmt_nfkc", "characters", "words"])
@pytest.mark.parametrize("search", SEARCHES)
def test_text_equals_a_naive_loop(search: str, kind: str, lexicon: str) -> None:
    check_text(make_translator(kind=kind), SEARCHES[search], kind, lexicon)


def check_text(translator: Translator, options: SearchOptions, kind: str, lexicon: str) -> None:
    replaced = 0
    for words, given in (({}, None), (LEXICON, lexicon)):
        options = replace(options, lexicon=given)
        translations = translator.translate(LINES, options)
        for line, translation in zip(LINES, translations, strict=True):
            for best in translation.n_best:
                replaced += "<unk>" in best.tokens
                assert best.text == " ".join(naive_words(best, line, words, kind))
                pieces = [word for word in best.target_words if word >= 0]
                assert pieces == sorted(pieces)
                assert max(best.target_words.last, default=-1) == len(best.text.split(" ")) * bool(best.text) - 1
        if options.method == "beam":
            assert all(
                len({best.text for best in translation.n_best}) == len(translation.n_best)
                for translation in translations
            )
        without = translator.translate(LINES, options, alignments=False)
        assert [[best.text for best in translation.n_best] for translation in without] == [
            [best.text for best in translation.n_best] for translation in translations
        ]
        assert all(
            best.alignment is None and not best.target_words for translation in without for best in translation.n_best
        )
        alone = [translator.texts([line], options)[0] for line in LINES]
        assert alone == [translation.text for translation in translations]
    assert replaced


def test_without_unknown_pieces_nothing_changes(lexicon: str) -> None:
    translator = make_translator(unknown_bias=-100)
    for options in SEARCHES.values():
        plain = translator.translate(LINES, replace(options, replace_unknown=False))
        replaced = translator.translate(LINES, replace(options, lexicon=lexicon))
        assert [[(best.text, best.score, best.tokens) for best in translation.n_best] for translation in plain] == [
            [(best.text, best.score, best.tokens) for best in translation.n_best] for translation in replaced
        ]
        assert alignment_lines(plain) == alignment_lines(replaced)


def test_links_count_the_words_that_were_written(lexicon: str) -> None:
    """Both words of ``zwei Hunde`` are linked to ``dogs``."""
    options = replace(BEAM, lexicon=lexicon)
    doubled = 0
    for line, translation in zip(LINES, make_translator().translate(LINES, options), strict=True):
        for best, links in zip(translation.n_best, alignment_lines([translation]), strict=True):
            linked = [[int(number) for number in link.split("-")] for link in links.split()]
            for i, j in linked:
                if best.text.split()[j] in ("zwei", "Schnee"):
                    assert [i, j + 1] in linked and line.split()[i] in LEXICON
                    doubled += 1
    assert doubled


def test_what_cannot_be_replaced_is_refused_or_named(tmp_path: Path) -> None:
    translator = make_translator(kind="ours")
    plain = translator.texts(LINES, replace(BEAM, replace_unknown=False))
    with pytest.warns(UserWarning, match=r"^search\.replace_unknown=true: the target tokenizer spells unknown"):
        assert translator.texts(LINES, BEAM) == plain
    with pytest.raises(UserError, match=r"^search\.lexicon=a: needs search\.replace_unknown=true; add it$"):
        SearchOptions(lexicon="a")
    translator = make_translator()
    with pytest.raises(UserError, match="a: No such file"):
        translator.texts(LINES, replace(BEAM, lexicon=str(tmp_path / "a")))


@pytest.mark.parametrize("key", ["lexicon", "glossary"])
def test_shards_depend_on_the_content_of_a_file(
    key: str, tmp_path: Path, lexicon: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = make_translator()
    folder = tmp_path / "model"
    folder.mkdir()
    save_folder(folder, translator.trained)
    monkeypatch.chdir(tmp_path)

    def job() -> TranslateShard:
        options = replace(BEAM, **{key: "lexicon.tsv"})
        return TranslateShard.of(translator, folder, LoadSettings(), search=options, scores=False, alignments=True)

    monkeypatch.chdir(tmp_path.parent)
    with pytest.raises(UserError, match="No such file"):
        job().record()
    monkeypatch.chdir(tmp_path)
    first = job()
    monkeypatch.chdir(tmp_path.parent)  # as a worker may have another working directory
    done = first(Shard(0, 0, LINES))
    best = translator.translate(LINES, replace(BEAM, **{key: lexicon}))
    assert done.links == alignment_lines(best)
    monkeypatch.chdir(tmp_path)
    before = job().record()
    Path(lexicon).write_text("dogs\tKatzen\n", "utf-8")
    assert before == first.record() | {key: before[key]} and job().record() != before


@pytest.mark.parametrize(
    ("source", "pieces", "text", "tokens", "rows", "expected"),
    [
        ("我爱囧京", "▁我 爱 <unk> 京", "私は\ufffdが好き", "▁私 は <unk> が 好き", [0, 0, 2, 1, 1], "私は囧が好き"),
        ("我爱囧京", "▁我 爱 <unk> 京", "I love \ufffd.", "▁I ▁love ▁ <unk> .", [0, 1, 2, 2, 3], "I love 囧"),
        (
            "I love ☃ .",
            "▁I ▁love ▁ <unk> ▁.",
            "我爱\ufffd\ufffd。",
            "▁我 爱 <unk> <unk> 。",
            [0, 1, 3, 0, 4],
            "我爱雪人I。",
        ),
        ("我爱囧", "▁我 爱 <unk>", "私\ufffd", "▁私 <unk>", [0, 2], "私囧"),
        ("我爱", "▁我 爱", "私は\ufffd", "▁私 は <unk>", [0, 0, 1], "私はliebe"),
    ],
)
def test_text_without_spaces_loses_its_unknown_pieces_only(
    source: str, pieces: str, text: str, tokens: str, rows: list[int], expected: str
) -> None:
    """A sentence is one word there, which must not be replaced as a whole."""
    columns = pieces.split()
    source_words = [*accumulate((piece.startswith("▁") for piece in columns[1:]), initial=0)]
    target_words = [*accumulate((piece.startswith("▁") for piece in tokens.split()[1:]), initial=0)]
    translation = Translation(
        text,
        source_tokens=[*columns, "</s>"],
        tokens=[*tokens.split(), "</s>"],
        source_words=PieceWords(source_words),
        target_words=PieceWords(target_words),
        alignment=np.eye(len(columns) + 1)[[*rows, len(columns)]],
    )
    lexicon = {"☃": "雪人", "爱": "liebe"}
    replaced = replace_unknown(translation, source.split(), lexicon)
    assert replaced.text == expected
    assert alignment_lines([replaced])
