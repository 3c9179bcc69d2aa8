"""What do models of single sentences make of lines with several sentences, and what if each sentence is translated?

Five captions of a test set, each a sentence, make a line. Each model translates these lines as they are, and with
``search.sentences``, which has to find the captions again. The last row is the best that it can reach: the captions are
translated as they are in the test set, and joined. All three are scored against the same lines of five references.

    python -m benchmarks.quality.long_text --model runs/memory runs/bahdanau --set data/a/test
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.report import argument_parser, header, save, table
from nmt import Translator
from nmt.data.text_files import read_pairs
from nmt.data.words import count_words
from nmt.inference.scores import corpus_scores
from nmt.inference.sentences import splitter
from nmt.search.options import SearchOptions

SENTENCES = SearchOptions(sentences="en")


def main() -> None:
    parser = argument_parser(__doc__, "long_text.md", threads=1)
    parser.add_argument("--model", nargs="+", required=True, help="folders of runs, English to German")
    parser.add_argument("--set", required=True, help="SET.en.gz and SET.de.gz")
    parser.add_argument("--captions", type=int, default=5, help="captions of a line; default: %(default)s")
    options = parser.parse_args()
    pairs = read_pairs(f"{options.set}.en.gz", f"{options.set}.de.gz")
    captions = [pair.source for pair in pairs]
    lines = joined(captions, options.captions)
    references = joined([pair.target for pair in pairs], options.captions)
    counts = [len(splitter("en")(line).parts) for line in lines]
    right = sum(count == options.captions for count in counts)
    report = header(
        "Long text",
        f"{len(captions):,} captions, {options.captions} on each of {len(lines):,} lines; "
        f"sentencex finds {sum(counts):,} sentences, and in {right:,} lines as many as captions",
    )
    for folder in options.model:
        translator = Translator.load(folder, engine="torch", threads=options.threads)
        translations = {
            "whole lines": translator.texts(lines),
            "search.sentences=en": translator.texts(lines, SENTENCES),
            "each caption alone": joined(translator.texts(captions), options.captions),
        }
        rows = []
        for name, texts in translations.items():
            scores = corpus_scores(texts, references, ter=False, lowercase=translator.lowercase)
            share = words(texts) / words(references)
            rows.append((name, f"{scores.bleu:.2f}", f"{scores.chrf:.2f}", f"{share:.2f}"))
        report += [f"## {translator.attention.name}", ""]
        report += [*table(["translated", "BLEU", "chrF", "words per reference word"], rows), ""]
    save(options.output, report)


def joined(texts: Sequence[str], count: int) -> list[str]:
    """Return lines of ``count`` texts each, without those that fill no line."""
    return [" ".join(texts[first : first + count]) for first in range(0, len(texts) - count + 1, count)]


def words(texts: Sequence[str]) -> int:
    return sum(map(count_words, texts))


if __name__ == "__main__":
    main()
