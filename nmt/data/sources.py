"""Data sources: callables that yield the sentence pairs of each part (train, valid, test).

A ``data`` block names one by ``_target_``. It is called with the block's other keys, except those that all sources
share (``DataSettings``). It returns ``{part: pairs}``. If ``_target_`` is a class, its
instance is called without arguments to get the pairs, and its constructor can check the settings before any work
starts. A pair is ``(source, target)`` or a ``Pair``. Texts may hold any characters; ``write_corpus`` says which are
replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from nmt.data.filters import Filters
from nmt.data.invisible import remove_invisible
from nmt.data.links import MissingPair, Pair, as_links, require_inside
from nmt.errors import UserError
from nmt.settings.arguments import brief, is_missing
from nmt.settings.plugins import Block, PluginPoint, PluginSettings, construct, locate

PARTS = ("train", "valid", "test")
SOURCES = ("generated", "copy", "parallel", "sources", "tables")
DATA_SOURCE = PluginPoint(None, tuple(f"nmt.data.{name}" for name in SOURCES))
NESTED = "translation"  # Hugging Face's name of the column that holds {language: text}
PREPARED = "nmt.data.sources.PreparedData"  # the target of conf/data/prepared.yaml


@dataclass(frozen=True, kw_only=True)
class DataSettings(PluginSettings, Filters):
    """conf/data/*.yaml: a data source, and the settings that all of them share."""


@dataclass(frozen=True)
class PreparedData:
    """conf/data/prepared.yaml: a folder that nmt-prepare wrote."""

    _target_: str
    folder: str


def is_prepared(data: Mapping[str, Any]) -> bool:
    """Return whether the ``data`` of a configuration names a folder that nmt-prepare wrote."""
    return data.get("_target_") == PREPARED


def load_pairs(
    data: DataSettings, *, needed: Iterable[str] = ("train",), trust: Sequence[str] = ()
) -> dict[str, Iterable[Pair]]:
    """Return the sentence pairs of every part, lower-cased and without invisible characters if ``data`` says so.

    The part ``train`` may read its text whenever it is iterated; the others are lists. Raises UserError if the source
    returns anything else, or if a ``needed`` part is missing.
    """
    try:
        parts = construct(data.block, DATA_SOURCE, trust=trust)
        return _by_part(parts() if callable(parts) else parts, data, needed)
    except ValueError as error:
        raise UserError(f"data._target_={data.block['_target_']}: {error}") from None


def pairs_from_python(
    parts: Mapping[str, Any], data: DataSettings, *, needed: Iterable[str] = ("train",)
) -> dict[str, Iterable[Pair]]:
    """Return the pairs of the ``parts`` that a program gave, as ``load_pairs`` does for a data source."""
    for part in needed:
        if part not in parts:
            raise UserError(f"{part}=: must be given, with the sentence pairs of this part")
    columns = data.block["columns"]
    if problem := column_problem(columns):
        raise UserError(problem)
    return _by_part({part: rows_as_pairs(rows, part, columns) for part, rows in parts.items()}, data, needed)


def _by_part(parts: Any, data: DataSettings, needed: Iterable[str]) -> dict[str, Iterable[Pair]]:
    setting = f"data._target_={data.block['_target_']}"
    iterable = isinstance(parts, Mapping) and all(isinstance(pairs, Iterable) for pairs in parts.values())
    if not iterable or not set(parts) <= set(PARTS):
        raise UserError(f"{setting}: must return sentence pairs by part ({', '.join(PARTS)})")
    for part in needed:
        if part not in parts:
            raise UserError(f"{setting}: returned no {part} part; it is needed")
    checked = {part: CheckedPairs(parts[part], part, data) for part in PARTS if part in parts}
    return {part: pairs if part == "train" and pairs.is_lazy else list(pairs) for part, pairs in checked.items()}


def source_problems(data: DataSettings, *, needed: Iterable[str], trust: Sequence[str]) -> Iterator[str]:
    """Yield the problems that the class of a data source reports, and the ``needed`` parts without files."""
    yield from missing_files(data.block, needed)
    if not isinstance(locate(data.block["_target_"], DATA_SOURCE, trust=trust), type):
        return
    try:
        construct(data.block, DATA_SOURCE, trust=trust)
    except ValueError as error:
        yield from str(error).splitlines()


def missing_files(block: Block, needed: Iterable[str]) -> Iterator[str]:
    """Yield a problem for each ``needed`` part whose files a data block with files does not name."""
    for part in needed:
        files = block.get(part)
        if isinstance(files, Mapping) and all(files.get(side) is None for side in ("src", "tgt")):
            yield f"data.{part}.src=null: must be given, as data.{part}.src=FILE"


class CheckedPairs:
    """The pairs of one part, checked and lower-cased on the way. Raises UserError for an item that is not a pair."""

    def __init__(self, pairs: Iterable[Any], part: str, data: DataSettings) -> None:
        self._pairs, self._part, self._data = pairs, part, data
        self.is_lazy = not isinstance(pairs, Sequence | Iterator)  # can be iterated twice without being in memory

    def __iter__(self) -> Iterator[Pair]:
        try:
            yield from _checked(self._pairs, self._part, self._data)
        except ValueError as error:  # raised by a generator of the source
            raise UserError(f"data._target_={self._data.block['_target_']}: {error}") from None


def _checked(pairs: Iterable[Any], part: str, data: Filters) -> Iterator[Pair]:
    invisible = data.remove_invisible
    for number, item in enumerate(pairs, start=1):
        place = f"data: pair {number} of part {part}"
        fits = isinstance(item, tuple | list) and 2 <= len(item) <= len(Pair._fields)
        if not fits or not all(isinstance(side, str) or is_missing(side) for side in item[:2]):
            raise UserError(f"{place} is {brief(item)}; must be (source, target), both text")
        if not all(isinstance(side, str) for side in item[:2]):
            yield MissingPair("", "")
            continue
        pair = Pair(*item)
        if pair.links is not None or pair.possible != ():
            try:
                # A source may give an iterator, such as zip(…), which can be read once.
                links = None if pair.links is None else tuple(pair.links)
                pair = pair._replace(links=links, possible=tuple(pair.possible))
                require_inside(as_links((links or (), pair.possible)), pair[:2], place)
            except (TypeError, ValueError):
                raise UserError(f"{place} is {brief(item)}; its links must be (source word, target word)") from None
        if invisible is not None and not (pair.source.isprintable() and pair.target.isprintable()):
            source, target = (remove_invisible(side, invisible) for side in pair[:2])
            pair = pair._replace(source=source, target=target)
        yield pair._replace(source=pair.source.lower(), target=pair.target.lower()) if data.lowercase else pair


def from_python(*, columns: tuple[str, str] | None = None) -> NoReturn:
    """Raise UserError: ``data=python`` only records that a program gave the pairs to ``nmt.train``."""
    raise UserError(
        "data=python: the text of such a run is in its program, which gives train= and valid= to nmt.train; "
        "to use the text of a finished run, set data=prepared data.folder=RUN/data"
    )


def rows_as_pairs(rows: Any, part: str, columns: Sequence[str] | None) -> Iterator[Any]:
    """Yield (source, target) for each row that is a mapping, and every other row as it is.

    ``columns`` are the names of source and target, in the row or in its column ``translation``. The first row must have
    both; a later one without a name has no text there. Raises UserError for anything that does not consist of rows.
    """
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise UserError(f"{part}={brief(rows)}: must be sentence pairs: (source, target) tuples, or rows with columns=")
    for number, row in enumerate(rows, start=1):
        if isinstance(row, Mapping):
            nested = row.get(NESTED)
            texts = nested if isinstance(nested, Mapping) else row
            if columns is None or (number == 1 and not {*columns} <= {*texts}):
                has = f"has the columns {', '.join(map(str, texts))}"
                raise UserError(
                    f"data: pair {number} of part {part} {has:.400}; set columns= to those of source and target"
                )
            row = tuple(map(texts.get, columns))
        yield row


def column_problem(columns: Sequence[str] | None) -> str | None:
    """Return the problem if both names are the same, or None."""
    if columns is None or len(columns) != 2 or columns[0] != columns[1]:
        return None
    return f"data.columns=[{','.join(columns)}]: source and target are the same column; name two"
