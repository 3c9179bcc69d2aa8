"""The chain of steps around the translation of a line, such as terms, sentences and markup.

A step is a generator function. It yields the texts to translate in place of a line, receives their translations, and
returns that of the line. It remembers what it needs in local variables.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice

from nmt.inference.bulk import Failure
from nmt.inference.translation import Translation

Result = Translation | Failure
Steps = Generator[list[str], list[Translation], Result]
Step = Callable[[str], Steps]


class Started:
    """A line within a step, which waits for the translations of its ``texts``."""

    def __init__(self, step: Step, line: str) -> None:
        self._work = step(line)
        self.texts = next(self._work)

    def finish(self, results: Iterator[Result]) -> Result:
        """Take the results of the texts, and return that of the line: the first failure, if there is one."""
        own = [*islice(results, len(self.texts))]
        translations = list[Translation]()
        for number, result in enumerate(own, 1):
            if isinstance(result, Failure):
                where = f"sentence {number} of {len(own)}: " if len(own) > 1 else ""
                return result._replace(reason=where + result.reason)
            translations.append(result)
        try:
            self._work.send(translations)
        except StopIteration as end:
            finished: Result = end.value
            return finished
        raise AssertionError("a step yields once")


def chained(steps: Sequence[Step]) -> Step:
    """Return the steps as one: each translates the texts of the step before it. The first gets the line."""
    if not steps:
        return _whole_line
    outer, inner = steps[0], chained(steps[1:])

    def step(line: str) -> Steps:
        own = Started(outer, line)
        parts = [Started(inner, text) for text in own.texts]
        results = iter((yield [text for part in parts for text in part.texts]))
        return own.finish(iter([part.finish(results) for part in parts]))

    return step


def _whole_line(line: str) -> Steps:
    [translation] = yield [line]
    return translation


def changing(change: Callable[[Translation, str], Translation]) -> Step:
    """Return the step that translates a line as it is, and changes its translation, given the line."""

    def step(line: str) -> Steps:
        [translation] = yield [line]
        return change(translation, line)

    return step
