"""Which numbers of a translation say how good it is?

Each model translates each set by beam search. A feature of a line is compared with the chrF of its translation by
Spearman's rank correlation ρ. Another question is which feature notices text that is unlike the training text: the
share of pairs of lines, one of each set, in which the line of the foreign text has the lower value. 0.5 is chance. A
word's probability is the geometric mean of those of its tokens, and it counts as right if the reference has it too.

    python -m benchmarks.quality.confidence --model runs/memory runs/bahdanau --sets data/a/test data/b/test
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from sacrebleu.metrics import CHRF

from benchmarks.report import argument_parser, header, save, table
from nmt import Translator
from nmt.data.text_files import read_pairs
from nmt.data.words import split_words
from nmt.inference.confidence import rank_correlation
from nmt.search.search import batches_by_length
from nmt.text.specials import BOS, PAD

BINS = 5


class Line(NamedTuple):
    """Features of a translated line, and the probability of each word with whether the reference has it."""

    quality: float
    features: dict[str, float]
    words: list[tuple[float, bool]]


def main() -> None:
    parser = argument_parser(__doc__, "confidence.md", threads=1)
    parser.add_argument("--model", nargs="+", required=True, help="folders of runs, English to German")
    parser.add_argument("--sets", nargs="+", required=True, help="SET.en.gz and SET.de.gz; the first is like the text")
    parser.add_argument("--lines", type=int, default=1000, help="first lines of each set; default: %(default)s")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    lines = header("Confidence", f"the first {options.lines:,} lines of each set")
    for folder in options.model:
        translator = Translator.load(folder, engine="torch")
        results = {
            "/".join(Path(name).parts[-2:]): translated(translator, name, options.lines) for name in options.sets
        }
        first, *_, last = results.values()
        lines += [f"## {translator.attention.name}", "", "ρ of each feature with the chrF of the line:", ""]
        rows = []
        for name in first[0].features:
            quality = [
                rank_correlation(values(part, name), [line.quality for line in part]) for part in results.values()
            ]
            rows.append(
                (name, *(f"{rho:.3f}" for rho in quality), f"{lower(values(last, name), values(first, name)):.3f}")
            )
        lines += table(["feature", *results, f"{[*results][-1]} is lower than {[*results][0]}"], rows)
        lines += ["", "Share of words that the reference has, by the probability of the word:", ""]
        bins = [f"{low / BINS:g} to {(low + 1) / BINS:g}" for low in range(BINS)]
        lines += table(["set", *bins], [(name, *shares(part)) for name, part in results.items()])
        lines.append("")
    save(options.output, lines)


def translated(translator: Translator, name: str, count: int) -> list[Line]:
    """Return the translated first lines of a set, in an order of their lengths."""
    pairs = read_pairs(f"{name}.en.gz", f"{name}.de.gz")[:count]
    trained = translator.trained
    lower_case = trained.properties.lowercase
    references = [pair.target.lower() if lower_case else pair.target for pair in pairs]
    texts = translator.texts([pair.source for pair in pairs])
    sources = [translator.encode(pair.source) for pair in pairs]
    targets = [translator.encode_target(text) for text in texts]
    results: list[Line] = []
    chrf = CHRF()
    for rows in batches_by_length(
        [max(map(len, pair)) for pair in zip(sources, targets, strict=True)], max_tokens=4096
    ):
        log_probs, entropy, alignment = forced(trained.model, [sources[r] for r in rows], [targets[r] for r in rows])
        for at, row in enumerate(rows):
            steps = len(targets[row])
            chosen = log_probs[at, :steps]
            reads = np.abs(alignment[at, :steps, : len(sources[row])])
            reads /= reads.sum(1, keepdims=True).clip(1e-9)
            features = {
                "mean log-probability": chosen.mean(),
                "mean probability": np.exp(chosen).mean(),
                "lowest log-probability": chosen.min(),
                "sum of log-probabilities": chosen.sum(),
                "− mean entropy": -entropy[at, :steps].mean(),
                "mean of the largest weights": reads.max(1).mean(),
                "− entropy of the alignment": (reads * np.log(reads.clip(1e-9))).sum(1).mean(),
                "share of source pieces with a weight of 0.2": (reads[:-1, :-1].sum(0) >= 0.2).mean()
                if steps > 1
                else 0,
                "− pieces of the source": -len(sources[row]),
            }
            quality = chrf.sentence_score(texts[row], [references[row]]).score
            words = trained.target.words(texts[row])
            results.append(Line(quality, features, judged(texts[row], references[row], words, chosen)))
    return results


@torch.inference_mode()
def forced(model: torch.nn.Module, sources: list[list[int]], targets: list[list[int]]) -> tuple[np.ndarray, ...]:
    """Return log-probability (B,T) and entropy (B,T) of the predictions of the targets, and the alignment (B,T,S)."""
    source, target = padded(sources), padded(targets)
    shifted = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
    memory, final = model.encode(source, source != PAD, trace=True)
    logits, weights = model.decoder(shifted, model.decoder.init(final, memory), memory)
    alignment = model.attention.align(weights, memory)
    log_probs = logits.float().log_softmax(2)
    entropy = -(log_probs.exp() * log_probs).sum(2)
    chosen = log_probs.gather(2, target[..., None])[..., 0]
    return chosen.numpy(), entropy.numpy(), alignment.float().numpy()


def padded(rows: list[list[int]]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


def judged(text: str, reference: str, words: Sequence[int], log_probs: np.ndarray) -> list[tuple[float, bool]]:
    """Return the probability of each word of the text, and whether the reference still has it."""
    left = Counter(split_words(reference))
    results = []
    for number, word in enumerate(split_words(text)):
        tokens = [log_prob for log_prob, at in zip(log_probs, words, strict=False) if at == number]
        right = left[word] > 0
        left[word] -= right
        if tokens:
            results.append((float(np.exp(np.mean(tokens))), right))
    return results


def values(part: list[Line], name: str) -> list[float]:
    return [line.features[name] for line in part]


def lower(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the share of pairs in which the value of ``first`` is lower; ties count half."""
    differences = np.subtract.outer(np.asarray(first, dtype=float), np.asarray(second, dtype=float))
    return float((differences < 0).mean() + (differences == 0).mean() / 2)


def shares(part: list[Line]) -> list[str]:
    """Return for each bin of probabilities the share of right words, and their number."""
    probabilities, right = (
        np.array(column) for column in zip(*(word for line in part for word in line.words), strict=True)
    )
    places = (probabilities * BINS).astype(int).clip(max=BINS - 1)
    return [
        f"{right[places == place].mean():.2f} of {(places == place).sum():,}" if (places == place).any() else "–"
        for place in range(BINS)
    ]


if __name__ == "__main__":
    main()
