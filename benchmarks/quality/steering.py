"""What do a glossary, placeholders, tags, ensembles and other decoding options keep, and what do they cost?

The models translate captions. The glossary has frequent nouns of captions, with one target each, in the form that a
dictionary has. Placeholders and tags stand at random places of the captions. Pages that others wrote are translated
by ``nmt-translate``, and their tags are compared with those of the originals.

    python -m benchmarks.quality.steering --model runs/memory runs/bahdanau --set data/a/test --documents page.html
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import torch
from sacrebleu.metrics import BLEU, CHRF

from benchmarks.report import argument_parser, header, save, table
from nmt import Translator
from nmt.data.text_files import read_pairs
from nmt.documents.segments import INLINE
from nmt.search.options import SearchOptions

TERMS = dict(
    pair.split("=")
    for pair in """dog=hund dogs=hunde ball=ball bike=fahrrad bicycle=fahrrad beach=strand boat=boot horse=pferd
    guitar=gitarre street=straße car=auto water=wasser girl=mädchen boy=junge tree=baum snow=schnee table=tisch
    park=park mountain=berg hat=hut camera=kamera grass=gras bench=bank kitchen=küche crowd=menschenmenge
    building=gebäude skateboard=skateboard river=fluss field=feld chair=stuhl truck=lastwagen bus=bus bridge=brücke
    window=fenster helmet=helm stage=bühne microphone=mikrofon basketball=basketball train=zug book=buch""".split()
)
WORD = re.compile(r"\w+")
OPTIONS = {
    "beam of 5": SearchOptions(),
    "greedy": SearchOptions(beam_size=1),
    "no_repeat=3": SearchOptions(no_repeat=3),
    "temperature=0.5, mbr=16": SearchOptions(temperature=0.5, mbr=16),
}


def main() -> None:
    parser = argument_parser(__doc__, "steering.md", threads=1)
    parser.add_argument("--model", nargs="+", required=True, help="folders of runs, English to German, in lower case")
    parser.add_argument("--set", required=True, help="SET.en.gz and SET.de.gz")
    parser.add_argument("--documents", nargs="+", default=[], help="pages, translated by the first")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    pairs = read_pairs(f"{options.set}.en.gz", f"{options.set}.de.gz")
    sources = [pair.source.lower() for pair in pairs]
    references = [pair.target.lower() for pair in pairs]
    translators = {Path(folder).name: Translator.load(folder, engine="torch") for folder in options.model}
    lines = header("Steering a translation", f"{len(sources):,} lines", f"{len(TERMS)} terms: {' '.join(TERMS)}")
    lines += ["## Glossary", ""]
    rows = [row for name, translator in translators.items() for row in glossary(name, translator, sources, references)]
    lines += table(
        ["model", "glossary", "terms written", "lines with a doubled word", *(f"BLEU, {part}" for part in PARTS)], rows
    )
    lines += ["", "## Placeholders and tags", ""]
    rows = [row for name, translator in translators.items() for row in kept(name, translator, sources)]
    lines += table(["model", "in each line", "lines", "kept without the option", "kept", "nested well"], rows)
    lines += ["", "## Searches and ensembles", ""]
    rows = [
        (name, search, *scores(translator.texts(sources, OPTIONS[search]), references))
        for name, translator in translators.items()
        for search in OPTIONS
    ]
    if len(options.model) > 1:
        both = Translator.load(options.model, engine="torch")
        rows.append((" + ".join(translators), "beam of 5", *scores(both.texts(sources), references)))
    lines += table(["model", "search", "BLEU", "chrF"], rows)
    if options.documents:
        lines += ["", "## Documents", ""]
        rows = [document(options.model[0], Path(file)) for file in options.documents]
        lines += table(["file", "translated", "tags or fields kept", "the rest"], rows)
    save(options.output, lines)


PARTS = ("all lines", "lines without terms", "lines whose references have all their terms", "other lines with terms")


def glossary(
    name: str, translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> list[Sequence[str]]:
    """Return the rows of a model without and with the glossary."""
    needed = [Counter(TERMS[word] for word in WORD.findall(source) if word in TERMS) for source in sources]
    has_all = [not of_line - words(reference) for of_line, reference in zip(needed, references, strict=True)]
    parts = [
        [True] * len(needed),
        [not of_line for of_line in needed],
        [bool(of_line) and right for of_line, right in zip(needed, has_all, strict=True)],
        [not right for right in has_all],
    ]
    rows = []
    for is_used in (False, True):
        texts = translator.texts(sources, SearchOptions(terms=TERMS if is_used else None))
        missing = sum(sum((of_line - words(text)).values()) for of_line, text in zip(needed, texts, strict=True))
        total = sum(sum(of_line.values()) for of_line in needed)
        doubled = sum(bool(re.search(r"\b(\w+) \1\b", text)) for text in texts)
        bleu = [
            scores(
                *zip(*((text, ref) for text, ref, use in zip(texts, references, part, strict=True) if use), strict=True)
            )
            for part in parts
        ]
        rows.append(
            (
                *(name, "yes" if is_used else "no", f"{total - missing:,} of {total:,}", f"{doubled}"),
                *(f"{score} ({sum(part):,})" for (score, _), part in zip(bleu, parts, strict=True)),
            )
        )
    return rows


def words(text: str) -> Counter[str]:
    return Counter(WORD.findall(text.lower()))


def scores(texts: Sequence[str], references: Sequence[str]) -> tuple[str, str]:
    """Return BLEU and chrF, with two decimals."""
    bleu = BLEU(lowercase=True).corpus_score(texts, [references]).score
    return f"{bleu:.2f}", f"{CHRF(lowercase=True).corpus_score(texts, [references]).score:.2f}"


def kept(name: str, translator: Translator, sources: Sequence[str]) -> list[Sequence[str]]:
    """Return the rows of a model: placeholders, and tags around one to three words."""
    rng = random.Random(1)
    made = [placeholder(rng) for _ in sources]
    lines = [inserted(source, mark, rng) for source, mark in zip(sources, made, strict=True)]
    shares = []
    for keep in (False, True):
        texts = translator.texts(lines, SearchOptions(keep_placeholders=keep))
        shares.append(f"{sum(mark in text for mark, text in zip(made, texts, strict=True)):,}")
    lines = [tagged(source, rng) for source in sources]
    texts = [translator.texts(lines), translator.texts(lines, markup=True)]
    same = [f"{sum(tags(text) == tags(line) for text, line in zip(part, lines, strict=True)):,}" for part in texts]
    nested = sum(map(is_nested, texts[1]))
    return [
        (name, "a placeholder", f"{len(lines):,}", *shares, "–"),
        (name, "an element within another, and an image", f"{len(lines):,}", *same, f"{nested:,}"),
    ]


def placeholder(rng: random.Random) -> str:
    name = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9)))
    kinds = ("{%s}", "%%(%s)s", "https://%s.org/a?b=1", "me@%s.com", "`%s()`", "&%s;", "${%s}", "www.%s.net/x")
    return rng.choice(kinds) % name


def inserted(source: str, mark: str, rng: random.Random) -> str:
    parts = source.split()
    parts.insert(rng.randrange(len(parts)), mark)
    return " ".join(parts)


def tagged(source: str, rng: random.Random) -> str:
    """Return a line with a link around some of its words, bold text within the link, and an image."""
    parts = source.replace("&", "&amp;").replace("<", "&lt;").split()
    start = rng.randrange(len(parts))
    stop = min(len(parts), start + rng.randint(1, 3))
    at = rng.randrange(start, stop)
    parts[at] = f"<b>{parts[at]}</b>"
    parts[start] = f'<a href="x">{parts[start]}'
    parts[stop - 1] += "</a>"
    parts.insert(rng.choice([0, len(parts)]), '<img src="y">')
    return " ".join(parts)


class Tags(HTMLParser):
    """The tags of a text, those that end a sentence, and whether each end belongs to the innermost element."""

    def __init__(self) -> None:
        super().__init__()
        self.all = list[tuple[str, str]]()
        self.open = list[str]()
        self.nested = True

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all.append((tag, f"{attrs}"))
        if tag not in ("img", "br", "meta", "link", "hr", "input", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.all.append((f"/{tag}", ""))
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.nested = False


def parsed(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    tags.close()
    return tags


def tags(text: str) -> Counter[tuple[str, str]]:
    return Counter(parsed(text).all)


def is_nested(text: str) -> bool:
    result = parsed(text)
    return result.nested and not result.open


def document(model: str, file: Path) -> Sequence[str]:
    """Return the row of a document: its name, and how much of it was translated and kept."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / file.name
        command = [sys.executable, "scripts/translate.py", f"model={model}", "format=html", "threads=1"]
        subprocess.run([*command, f"input={file}", f"output={output}"], check=True)
        before = file.read_text("utf-8")
        after = output.read_text("utf-8")
    return file.name, *page(before, after)


def page(before: str, after: str) -> Sequence[str]:
    old = parsed(before)
    new = parsed(after)
    same = sum((Counter(old.all) & Counter(new.all)).values())
    blocks = [[tag for tag in part.all if tag[0].removeprefix("/") not in INLINE] for part in (old, new)]
    nested = "all elements are nested well" if is_nested(after) or not is_nested(before) else "NOT nested well"
    order = "in the same order" if blocks[0] == blocks[1] else "in ANOTHER order"
    kinds = f"{len(blocks[0]):,} tags that end a sentence stand {order}; {nested}"
    return f"{sentences(before):,} sentences", f"{same:,} of {len(old.all):,}, and {len(new.all) - same:,} new", kinds


def sentences(text: str) -> int:
    from nmt.documents.segments import split_text

    return len(split_text(text, "html").lines)


if __name__ == "__main__":
    main()
