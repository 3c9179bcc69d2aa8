"""Translate: a function that adds a column of translations to a batch of rows, for libraries that map batches."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt.errors import UserError
from nmt.inference.engines import EngineName, LoadSettings
from nmt.inference.load import load
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions
from nmt.settings.arguments import brief, is_missing, iterable, text


class Translate:
    """Function from a batch, a dictionary of columns, to the same batch with a column of translations.

    It serves ``map_batches`` of Ray Data, ``map(batched=True)`` of Hugging Face datasets, ``mapInPandas`` of Spark and
    a plain loop. The model is loaded at the first call, in the process that calls, so the object itself is small and
    can be pickled.

    ``column`` is the column of source lines and ``output`` the new one. ``scores`` names a further column for the
    scores. A row without text (None, NaN, ``pandas.NA``, masked) has no translation and no score (None). A line that
    the model or the machine cannot hold gets an empty translation and a warning. The other settings are those of
    ``Translator.load``.
    """

    def __init__(
        self,
        *,
        model: str | Path | Sequence[str | Path],
        engine: EngineName = "auto",
        column: str = "text",
        output: str = "translation",
        scores: str | None = None,
        search: SearchOptions | None = None,
        threads: int | None = None,
        device: str = "auto",
        shortlist: bool = False,
        trust: Sequence[str] = (),
        slots: int | None = None,
        adapter: str | Path | None = None,
    ) -> None:
        for name, given in (("column", column), ("output", output), ("scores", scores or "")):
            text(given, name)
        if not isinstance(search, SearchOptions | None):
            raise TypeError(f"search={brief(search)}: {type(search).__name__}; give SearchOptions(beam_size=5, …)")
        # Another process may have another working directory.
        self.model = (
            Path(model).absolute() if isinstance(model, str | Path) else [Path(name).absolute() for name in model]
        )
        self.column, self.output, self.scores = column, output, scores
        self.search = search
        self.settings = LoadSettings(
            engine=engine,
            threads=threads,
            device=device,
            shortlist=shortlist,
            trust=trust,
            slots=slots,
            adapter=None if adapter is None else Path(adapter).absolute(),
        )
        self._loaded: tuple[int, Translator] | None = None  # the process that loaded it

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}

    @property
    def translator(self) -> Translator:
        """The translator of this process, loaded on first use. A forked child loads it again: threads end in a fork."""
        if self._loaded is None or self._loaded[0] != os.getpid():
            self._loaded = os.getpid(), Translator(load(self.model, self.settings))
        return self._loaded[1]

    def __call__(self, batch: Any) -> dict[str, Any]:
        """Return the columns of ``batch`` and the new ones, as a dictionary.

        ``batch`` is a dictionary of columns or a table of pandas, polars, pyarrow or Hugging Face datasets. New columns
        are arrays if the source column is one, and lists otherwise. Raises UserError if the column is missing, and
        TypeError for a batch without columns, for a column that is one string, and for a value that is neither a string
        nor missing.
        """
        columns = _columns(batch)
        if self.column not in columns:
            raise UserError(f"column={self.column}: not in the batch; it has {', '.join(map(str, columns)) or 'none'}")
        source = iterable(columns[self.column], f"batch[{self.column!r}]", what="lines")
        lines = [_line(row, value) for row, value in enumerate(source)]
        filled = [row for row, line in enumerate(lines) if line is not None]

        def warn(index: int, reason: str) -> None:
            warnings.warn(f"row {filled[index]} of a batch: {reason}; its translation is empty", stacklevel=2)

        present = [line for line in lines if line is not None]
        best = self.translator.translate(present, self.search, alignments=False, on_failure=warn)
        texts: list[str | None] = [None] * len(lines)
        scores: list[float | None] = [None] * len(lines)
        for row, translation in zip(filled, best, strict=True):
            texts[row], scores[row] = translation.text, translation.score
        new: dict[str, Sequence[Any]] = {self.output: texts}
        if self.scores is not None:
            new[self.scores] = scores
        if isinstance(source, np.ndarray):
            return columns | {name: _array(values) for name, values in new.items()}
        return columns | new


def _columns(batch: Any) -> dict[str, Any]:
    """Return the columns of a batch by name. Raises TypeError for anything without named columns."""
    names = batch if isinstance(batch, Mapping) else getattr(batch, "column_names", None)  # pyarrow, datasets
    if names is None:
        names = getattr(batch, "columns", None)  # pandas, polars
    if names is None or not hasattr(batch, "__getitem__"):
        fix = "give a dictionary of columns or a table, such as {'text': […]}"
        raise TypeError(f"batch={brief(batch)}: {type(batch).__name__}, which has no named columns; {fix}")
    columns = {name: batch[name] for name in names}
    # `map` of Hugging Face datasets refuses columns of pyarrow.
    return {name: column.to_pylist() if hasattr(column, "to_pylist") else column for name, column in columns.items()}


def _line(row: int, value: Any) -> str | None:
    if hasattr(value, "as_py"):  # a scalar of pyarrow
        value = value.as_py()
    if is_missing(value):
        return None
    if not isinstance(value, str):
        raise TypeError(f"row {row}: {brief(value)}: {type(value).__name__}, neither a string nor None")
    return text(value, f"row {row}")


def _array(values: Sequence[Any]) -> np.ndarray:
    filled = all(isinstance(value, float) for value in values)
    return np.array(values, dtype=np.float64 if filled and values else object)
