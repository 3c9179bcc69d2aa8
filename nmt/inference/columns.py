"""Translate: a function that adds a column of translations to a batch of rows, for libraries that map batches."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from nmt.inference.engines import LoadSettings
from nmt.inference.load import load
from nmt.inference.translator import Translator
from nmt.search.options import SearchOptions


class Translate:
    """Function from a batch, a dictionary of columns or a DataFrame, to its columns and one of translations.

    The model is loaded at the first call, in the process that calls, so the object is small and can be pickled. A row
    without text, such as None, has no translation; a line that does not fit has an empty one, and a warning says so.
    ``settings`` are those of ``Translator.load``.
    """

    def __init__(
        self,
        *,
        model: str | Path | Sequence[str | Path],
        column: str = "text",
        output: str = "translation",
        search: SearchOptions | None = None,
        **settings: Any,
    ) -> None:
        # Another process may have another working directory.
        self.model = Path(model).absolute() if isinstance(model, str | Path) else [Path(it).absolute() for it in model]
        self.column, self.output, self.search = column, output, search
        self.settings = LoadSettings(**settings)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "translator"}

    @cached_property
    def translator(self) -> Translator:
        """The translator of this process, loaded on first use."""
        return Translator(load(self.model, self.settings))

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns of the batch and the new one, which is a list."""
        rows = [*batch[self.column]]
        lines = [row if isinstance(row, str) else "" for row in rows]
        pairs = zip(rows, self.translator.texts(lines, self.search, on_failure=_warn), strict=True)
        return {**batch, self.output: [text if isinstance(row, str) else None for row, text in pairs]}


def _warn(row: int, reason: str) -> None:
    warnings.warn(f"row {row} of a batch: {reason}; its translation is empty", stacklevel=2)
