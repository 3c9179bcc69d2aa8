"""The Python interface: ``Translator.load("runs/demo").translate(["…"])``."""

from __future__ import annotations

import re
import warnings
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence, Set
from contextlib import closing
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np

from nmt.data.links import Link, Links, links_from_python
from nmt.errors import UserError
from nmt.inference.bulk import Bulk, Failure, OnFailure, Results, replace_failures
from nmt.inference.engines import EngineName, LoadedModel, LoadSettings
from nmt.inference.kept import kept_spans, lost_step, term_step
from nmt.inference.load import load
from nmt.inference.onnx.model import OnnxModel
from nmt.inference.reader import Reader
from nmt.inference.sentences import sentence_step
from nmt.inference.steps import Started, Step, chained, changing
from nmt.inference.translation import MARK, NO_TRANSLATION, SCORES_NOT_FINITE, LostTexts, Translation, chosen
from nmt.search.engine import Engine
from nmt.search.history import Hypothesis
from nmt.search.options import ALIGNING, MAX_LENGTH_CEILING, REWRITES, SearchOptions
from nmt.search.search import live_hypotheses, max_rows, search
from nmt.settings.arguments import brief, iterable, text, text_list
from nmt.system.machine import guard_forks
from nmt.text.glossary import Glossary, combined_glossary
from nmt.text.placeholders import KeptText
from nmt.text.sentences import AUTO
from nmt.text.specials import EOS

if TYPE_CHECKING:
    from nmt.alignment.heatmap import Heatmap
    from nmt.inference.prefix import PrefixReader
    from nmt.search.constraints import Prefix

guard_forks()  # here too: the parent may have loaded torch for other models


Pairs = Iterable[tuple[str, str]]
DEFAULT_SEARCH = SearchOptions()


class Evaluation(NamedTuple):
    """Scores of translations: BLEU, chrF and TER in percent, AER in [0, 1] or None, and the signature of each."""

    bleu: float
    chrf: float
    ter: float
    aer: float | None
    signatures: dict[str, str]
    translations: list[str]


class Translator(Reader):
    """A trained model: translates, scores, aligns, evaluates and draws.

    ``score``, ``align`` and ``heatmap`` need the torch model. If another engine translates, it is loaded on first use.
    ``max_tokens`` limits the size of a batch, in source pieces with padding. With ``check_text``, one warning names a
    text that the tokenizers cannot read.
    """

    def __init__(self, model: LoadedModel, *, max_tokens: int = 4096, check_text: bool = True) -> None:
        super().__init__(model, check_text=check_text)
        self.max_tokens = max_tokens
        self.split_lines = 0
        """Number of lines that ``search.sentences=auto`` has split."""

    @classmethod
    def load(
        cls,
        folder: str | Path | Sequence[str | Path],
        *,
        engine: EngineName = "auto",
        device: str = "auto",
        threads: int | None = None,
        trust: Sequence[str] = (),
        shortlist: bool = False,
    ) -> Self:
        """Load the model of a folder that nmt-train or ``nmt-export output=`` wrote.

        Several folders are an ensemble: models of one vocabulary, whose log-probabilities are averaged. Its alignments
        are those of the first model.

        ``onnx`` and ``onnx-int8`` run on the CPU and need the graphs that nmt-export writes; ``auto`` selects ``onnx``
        if the folder has its graphs, as nmt-translate does, and warns about graphs that it cannot use.
        ``threads`` is the number of CPU threads; torch has one such number for the whole process. ``shortlist`` applies
        to the ONNX engines only. ``trust`` names packages besides nmt whose classes the model may use. Raises UserError
        if the folder holds no model for this engine.
        """
        settings = LoadSettings(engine=engine, device=device, threads=threads, trust=trust, shortlist=shortlist)
        return cls(load(folder, settings))

    def texts(
        self,
        lines: Iterable[str],
        options: SearchOptions | None = None,
        *,
        markup: bool = False,
        on_failure: OnFailure | None = None,
    ) -> list[str]:
        """Return the best translation of each line as text. See ``translate``."""
        translations = self.translate(lines, options, alignments=False, markup=markup, on_failure=on_failure)
        return [translation.text for translation in translations]

    def translate(
        self,
        lines: Iterable[str],
        options: SearchOptions | None = None,
        *,
        prefixes: Iterable[str] | None = None,
        alignments: bool = True,
        markup: bool = False,
        on_failure: OnFailure | None = None,
    ) -> list[Translation]:
        """Return the best translation of each line, in order. A blank line has an empty translation.

        If memory runs out, the lines are translated in smaller batches. A line that the attention or the machine's
        memory cannot hold raises SourceTooLong, and one whose scores are not finite raises UserError. With
        ``on_failure``, both call ``on_failure(row, reason)`` instead, with rows counted from 0, and the translation is
        empty with a ``log_prob`` of -inf. With ``markup``, lines are HTML: tags and entities within a line are kept,
        and translations have no alignment. Raises TypeError unless ``lines`` is a list, or another iterable, of
        strings.

        The translation of a line begins with its prefix, if ``prefixes`` are given, one per line. An empty one allows
        every translation. One that ends within a word allows all words that begin so; a space at its end completes the
        word. Length limits count from the end of the prefix. Raises UserError for a prefix that the tokenizer cannot
        spell.
        """
        lines = text_list(lines, "lines")
        [translations] = self.translate_groups(
            [lines], options, prefixes=prefixes, alignments=alignments, markup=markup, on_failure=on_failure
        )
        return translations

    def translate_groups(
        self,
        groups: Iterable[Sequence[str]],
        options: SearchOptions | None = None,
        *,
        prefixes: Iterable[str] | None = None,
        alignments: bool = True,
        markup: bool = False,
        on_failure: OnFailure | None = None,
    ) -> Generator[list[Translation]]:
        """Yield the translations of each group of lines, in order, while later groups are being translated.

        Only as many groups are taken in advance as keep all threads busy. A group without lines is answered after all
        groups before it, and before the next one is taken: send it when the next lines may take long to arrive. Rows
        are counted from 0 over all groups, also in ``prefixes``. See ``translate``.
        """
        if markup:
            self.require_attention("markup")
        if markup and prefixes is not None:
            raise UserError("markup: a prefix is plain text; remove the prefixes, or translate plain text")
        numbered = enumerate(iterable(groups, "groups", what="lists of lines"))
        groups = (text_list(group, f"groups[{number}]") for number, group in numbered)
        options = self.search_options(options, alignments=alignments or markup)
        if prefixes is not None and options.sentences == AUTO:  # a prefix belongs to a whole line
            options = replace(options, sentences=None)
        allowed = None if prefixes is None else self.read_prefixes(text_list(prefixes, "prefixes"), options)
        kept = KeptText(
            options.keep, placeholders=options.keep_placeholders, numbers=options.keep_numbers, elements=markup
        )
        glossary = combined_glossary(options.glossary, options.terms)
        steps = self._steps(options, kept if prefixes is None else None, glossary, markup=markup)
        outer = [lost_step(kept, glossary, markup=markup)]
        if not alignments:
            outer.insert(0, changing(lambda translation, _: translation.each(Translation.without_alignment)))
        lost = LostTexts("sentence" if markup else "line")
        return self._translate_groups(groups, options, chained(outer + steps), kept, allowed, on_failure, lost)

    def _steps(
        self, options: SearchOptions, kept: KeptText | None, glossary: Glossary | None, *, markup: bool
    ) -> list[Step]:
        """Return the steps around the translation of a line, each within those before it.

        A line is made of its sentences, so all that changes words is within the sentences, and their tags are around
        them. Words that are written can make texts equal, so n-best lists are chosen after that.
        """
        if markup:
            from nmt.inference.markup import markup_step
        if options.replace_unknown:
            from nmt.inference.terms import replace_unknown

            replace_words = partial(replace_unknown, change_text=self.change_text)
        has_attention = self.attention.reads_source
        letters = options.keep_placeholders and self._has_letters
        steps = [
            partial(markup_step, self.visible) if markup else None,
            sentence_step(options.sentences, lambda line: kept_spans(line, kept, None)) if options.sentences else None,
            changing(lambda translation, _: chosen(translation, options)),
            term_step(kept, glossary, letters=letters) if kept and has_attention else None,
            changing(lambda translation, _: translation.each(replace_words)) if options.replace_unknown else None,
            changing(self.with_source),
        ]
        return [step for step in steps if step]

    @cached_property
    def _has_letters(self) -> bool:
        """Whether the source vocabulary has letters, and not only numbers or signs."""
        pieces = (piece for piece in self.loaded_model.source.all_pieces if not re.fullmatch("<.*>", piece))
        return any(any(map(str.isalpha, piece)) for piece in pieces)

    def _translate_groups(
        self,
        groups: Iterable[Sequence[str]],
        options: SearchOptions,
        step: Step,
        kept: KeptText,
        prefixes: Sequence[Prefix] | None,
        on_failure: OnFailure | None,
        lost: LostTexts,
    ) -> Generator[list[Translation]]:
        waiting = deque[list[Started]]()
        aligned = set[int]()  # rows of texts that need an alignment even if nobody asked for it

        def texts() -> Iterator[list[str]]:
            rows = row = 0
            for lines in groups:
                rows += len(lines)
                if prefixes is not None and rows > len(prefixes):
                    break
                visible = [*map(self.visible, lines)]
                waiting.append([Started(step, line) for line in visible])
                if options.sentences == AUTO:
                    self.split_lines += sum(len(line.texts) > 1 for line in waiting[-1])
                for line, started in zip(visible, waiting[-1], strict=True):
                    if kept.matches(line):
                        aligned.update(range(row, row + len(started.texts)))
                    row += len(started.texts)
                yield [text for started in waiting[-1] for text in started.texts]
            if prefixes is not None and rows != len(prefixes):
                raise UserError(f"prefixes: {len(prefixes):,}, but {rows:,} lines or more; give one prefix per line")

        bulk = Bulk(
            encode=self.encode,
            decode=partial(self._decode, options, prefixes, aligned),
            workers=self.loaded_model.workers,
            max_tokens=self.max_tokens,
            max_rows=max_rows(options.with_spares(), self.loaded_model.max_hypotheses),
        )
        done = 0
        with closing(bulk.translate(texts())) as decoded:
            for results in decoded:
                in_order = iter(results)
                finished = [line.finish(in_order) for line in waiting.popleft()]
                translations = replace_failures(finished, failed=NO_TRANSLATION, on_failure=on_failure, first=done)
                for row, translation in enumerate(translations, done):
                    lost.add(row, translation.lost)
                done += len(translations)
                self.conclude_text()
                yield translations
        if self.source_check.warns and (problem := lost.problem):
            warnings.warn(problem, stacklevel=2)

    def with_source(self, translation: Translation, line: str) -> Translation:
        """Return an aligned translation with its source ``line``, which the alignment links to."""
        if translation.alignment is None:
            return translation
        spans = self.spans(self.loaded_model.source, line)
        return translation.each(lambda best: replace(best, source=line, source_spans=spans))

    def read_prefixes(self, texts: Sequence[str], options: SearchOptions) -> list[Prefix]:
        """Return the prefixes for the search. Raises UserError for one with which no translation can begin."""
        for setting in options.settings((*REWRITES, "sentences")):
            raise UserError(f"{setting}: does not work with prefixes; remove one of them")
        if isinstance(self.loaded_model, OnnxModel) and self.loaded_model.settings.shortlist:
            raise UserError("shortlist=true: a prefix may need any piece; remove shortlist=true, or the prefixes")
        prefixes = []
        for row, line in enumerate(texts):
            try:
                prefixes.append(self._prefix_reader.read(self.change_text(line)))
            except ValueError as error:
                raise UserError(f"prefixes[{row}]={brief(line)}: {error}; change it") from None
        return prefixes

    @cached_property
    def _prefix_reader(self) -> PrefixReader:
        from nmt.inference.prefix import PrefixReader

        return PrefixReader(self.loaded_model.target)

    def _decode(
        self,
        options: SearchOptions,
        prefixes: Sequence[Prefix] | None,
        aligned: Set[int],
        sources: list[list[int]],
        rows: Sequence[int],
        beside_others: bool,
    ) -> Results:
        """Translate one batch; see ``nmt.inference.bulk.Decode``. Prefixes are those of all lines."""
        if not aligned.isdisjoint(rows) and self.attention.reads_source:
            options = replace(options, keep_weights=True)
        batch = None if prefixes is None else [prefixes[row] for row in rows]
        trace = options.keep_weights or options.coverage_penalty > 0
        count = len(sources) * live_hypotheses(options.with_spares())
        engine: Engine[Any, Any] = self.loaded_model.engine(trace=trace, beside_others=beside_others, hypotheses=count)
        searched = search(engine, sources, options.with_spares(), batch)
        results = [self.to_translation(*pair, options) for pair in zip(sources, searched, strict=True)]
        for row, result in enumerate(results):
            if options.min_length and isinstance(result, Translation) and not result.text:
                prefix, limited = self.visible_start(options, len(sources[row]))
                [results[row]] = self._decode(limited, [prefix], frozenset(), [sources[row]], [0], beside_others)
        return results

    def visible_start(self, options: SearchOptions, length: int) -> tuple[Prefix, SearchOptions]:
        """Return the prefix of every visible text, and the options for a search with it.

        For a source of ``length`` pieces whose translation spells nothing, such as a lone space.
        """
        limit = int(options.limits(np.array([length]))[0]) - 1  # it counts from the end of the prefix
        limited = replace(options, max_length=max(limit, options.min_length), max_length_ratio=None)
        return [dict.fromkeys(self.loaded_model.target.visible, 1)], limited

    def search_options(self, options: SearchOptions | None, *, alignments: bool) -> SearchOptions:
        """Return ``options``, or the defaults, for search with or without alignments, and with sentences if they apply.

        Raises UserError if this model does not support an option. A warning names a ``replace_unknown`` without effect.
        """
        if not isinstance(options, SearchOptions | None):
            raise TypeError(f"options={brief(options)}: {type(options).__name__}; give SearchOptions(beam_size=5, …)")
        options = options or DEFAULT_SEARCH
        for setting in options.settings(ALIGNING):
            self.require_attention(setting)
        if options.replace_unknown and self.loaded_model.target.spells_bytes:
            warnings.warn(
                "search.replace_unknown=true: the target tokenizer spells unknown characters in bytes, so there are no "
                "unknown words; remove search.replace_unknown",
                stacklevel=2,
            )
            options = replace(options, replace_unknown=False)
        properties = self.loaded_model.properties
        return replace(
            options,
            sentences=None if options.sentences == AUTO and not properties.single_sentences else options.sentences,
            keep_weights=alignments or options.rewrites,
            length_model=properties.length_model,
        )

    def to_translation(
        self, source: list[int] | None, hypotheses: Sequence[Hypothesis], options: SearchOptions
    ) -> Translation | Failure:
        """Convert the hypotheses of one line, best first, into its translation, or none into a failure.

        ``source`` holds the line's piece ids. If it is None, the translation has no source tokens.
        """
        if not hypotheses:
            return Failure(SCORES_NOT_FINITE)
        unknown = MARK if options.replace_unknown else ""
        is_limited = options.max_length is not None or options.max_length_ratio is not None
        cut_from = MAX_LENGTH_CEILING if is_limited else 0
        n_best = [self._to_translation(source or [], hypothesis, unknown, cut_from) for hypothesis in hypotheses]
        if options.min_length:
            n_best = [best for best in n_best if best.text] or n_best
        return replace(n_best[0], n_best=n_best)

    def _to_translation(self, source: list[int], hypothesis: Hypothesis, unknown: str, cut_from: int) -> Translation:
        """Convert a hypothesis, which was cut if it has ``cut_from`` tokens or more and no ``</s>``."""
        target = self.loaded_model.target
        tokens = [*hypothesis.tokens, EOS] if hypothesis.finished else list(hypothesis.tokens)
        return Translation(
            text=target.decode(hypothesis.tokens, unknown=unknown),
            score=hypothesis.score,
            log_prob=hypothesis.log_prob,
            source_tokens=self.loaded_model.source.pieces(source),
            tokens=target.pieces(tokens),
            spans=[] if hypothesis.alignment is None else target.decoded_spans(hypothesis.tokens, unknown=unknown),
            token_log_probs=[] if hypothesis.alignment is None else hypothesis.token_log_probs,
            alignment=hypothesis.alignment,
            is_cut=not hypothesis.finished and len(tokens) >= cut_from,
        )

    def score(self, pairs: Pairs, *, on_failure: OnFailure | None = None) -> list[Translation]:
        """Return the translation of each (source, translation) pair, with the model's ``log_prob`` and alignment."""
        _ = self.trained  # raises UserError without torch, which the next import needs
        from nmt.inference.forced_decoding import force_decode

        return force_decode(self, *_sides(pairs), on_failure=on_failure)

    def align(self, pairs: Pairs, *, on_failure: OnFailure | None = None) -> list[frozenset[Link]]:
        """Return links (source word, target word), counted from 0, of each (source, translation) pair."""
        self.require_attention("align")
        _ = self.trained  # raises UserError without torch, which the next import needs
        from nmt.inference.forced_decoding import forced_links

        return forced_links(self, *_sides(pairs), on_failure=on_failure)

    def evaluate(
        self,
        sources: Iterable[str],
        references: Iterable[str],
        options: SearchOptions | None = None,
        *,
        links: Iterable[Links | Iterable[Link] | str] | None = None,
        lowercase: bool | None = None,
        tokenizer: str | None = None,
    ) -> Evaluation:
        """Translate ``sources`` and score the translations against ``references``.

        ``links`` are gold word alignments, which add the alignment error rate: for each pair a set of sure links
        (source word, target word), a line in Pharaoh format, or a ``Links``. ``lowercase`` ignores case. By default,
        case is ignored if the model was trained on lower-cased text. ``tokenizer`` is the setting evaluation.tokenizer:
        one of sacrebleu's, by default that of the run, or one that fits the script of the references. The signatures
        record both. Warnings about unusual texts go to stderr.
        """
        from nmt.alignment.aer import AER_METHOD, alignment_error_rate
        from nmt.inference.scores import choose_tokenizer, corpus_scores, ignore_case, print_hints

        sources, references = text_list(sources, "sources"), text_list(references, "references")
        if len(sources) != len(references):
            raise UserError(f"references: {len(references):,} for {len(sources):,} sources; give one per source")
        pairs = [*zip(sources, references, strict=True)]
        golds = None if links is None else links_from_python(links, pairs)
        choice = choose_tokenizer(references, tokenizer or self.score_tokenizer)
        translations = self.texts(sources, options)
        lowercase = ignore_case(lowercase, trained_on_lowercase=self.lowercase)
        scores = corpus_scores(translations, references, ter=True, lowercase=lowercase, tokenizer=choice.tokenizer)
        print_hints(choice, translations, references)
        aer = None
        if golds is not None:
            aer = alignment_error_rate(self.align(pairs), golds)
            scores.signatures["aer"] = AER_METHOD
        return Evaluation(**scores._asdict(), aer=aer, translations=translations)

    def heatmap(
        self,
        source: str,
        target: str | None = None,
        *,
        links: Links | Iterable[Link] | str | None = None,
        granularity: Literal["word", "piece"] = "word",
    ) -> Heatmap:
        """Return the heatmap of a given ``target``, or of the model's own translation of ``source``.

        ``links`` are the gold links of this pair, which are outlined: pairs of (source word, target word) or a line in
        Pharaoh format. They need a given ``target`` and ``granularity="word"``.
        """
        from nmt.alignment.heatmap import Heatmap
        from nmt.alignment.word_weights import display_pieces, display_weights

        self.require_attention("heatmap")
        if granularity not in ("word", "piece"):
            raise TypeError(f"granularity={granularity!r}: must be 'word' or 'piece'")
        if links is not None and (target is None or granularity == "piece"):
            raise UserError(
                "links=: gold links connect words of a given translation; give target=, remove granularity="
            )
        source = text(source, "source")
        own = target is None
        # As a whole line, because that is how the next step reads it.
        target = self.texts([source], SearchOptions(sentences=None))[0] if own else text(target, "target")
        gold = None if links is None else links_from_python([links], [(source, target)])[0]
        decoding = self.score([(source, target)])[0]
        title = f"{self.attention.name} attention, {'own translation' if own else 'given translation'}"
        signed = granularity == "piece" and self.attention.signed
        if granularity == "piece":
            display = display_pieces(decoding, signed=signed)
        else:
            display = display_weights(decoding, split=gold is None)
        return Heatmap(**display._asdict(), title=title, signed=signed, gold=None if gold is None else gold.possible)

    def require_attention(self, setting: str) -> None:
        """Raise UserError if the model has no attention; ``setting`` is what needs alignments."""
        if not self.attention.reads_source:
            raise UserError(
                f"{setting}: needs alignments, but this model has no attention; use another model, or do without them"
            )


def _sides(pairs: Pairs) -> tuple[list[str], list[str]]:
    listed = [*iterable(pairs, "pairs", what="(source, translation) pairs")]
    for row, pair in enumerate(listed):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"pairs[{row}]={brief(pair)}: must be (source, translation)")
    return [source for source, _ in listed], [target for _, target in listed]
