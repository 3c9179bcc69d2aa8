"""Sentence pairs from Hugging Face ``datasets``: the data source of ``data=hub``. A local folder works offline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from nmt.data.sources import NESTED, column_problem, rows_as_pairs
from nmt.errors import UserError, reason


class Hub:
    """A data source: call it to open the splits of a dataset, which ``datasets`` memory-maps.

    ``path`` is a name on the hub, with the dataset's configuration as second item of a list if it has several, or a
    local folder with Parquet, CSV or JSON files. ``columns`` names source and target, in the row or in its column
    ``translation``. ``train``, ``valid`` and ``test`` name splits; null leaves a part out.
    """

    def __init__(
        self,
        *,
        path: str | list[str],
        columns: tuple[str, str],
        train: str = "train",
        valid: str | None = "validation",
        test: str | None = None,
    ) -> None:
        self.path, self.columns = [path] if isinstance(path, str) else path, columns
        if problem := column_problem(columns):
            raise ValueError(problem)
        self.splits = {"train": train, "valid": valid, "test": test}

    def __call__(self) -> dict[str, Iterable[Any]]:
        """Open the splits. Raises UserError where the package, the dataset or a split is missing."""
        try:
            import datasets
        except ImportError:
            raise UserError("data=hub: the package datasets is not installed; run pip install datasets") from None
        datasets.disable_progress_bars()
        try:
            splits = datasets.load_dataset(*self.path)
        except Exception as error:  # it raises many kinds, also of the network
            raise UserError(
                f"data.path={', '.join(self.path)}: cannot be loaded ({reason(error)}); check the name"
            ) from None
        parts: dict[str, Iterable[Any]] = {}
        for part, split in self.splits.items():
            if split is None:
                continue
            if split not in splits:
                choices = ", ".join(map(str, splits))
                raise UserError(f"data.{part}={split}: no such split; choose from {choices}")
            parts[part] = Rows(splits[split], part, self.columns)
        return parts


@dataclass(frozen=True)
class Rows:
    """The (source, target) pairs of a split."""

    split: Any
    part: str
    columns: tuple[str, str]

    def __iter__(self) -> Iterator[Any]:
        # Other columns may be of types that datasets cannot decode.
        names = set(self.split.column_names)
        needed = [NESTED] if NESTED in names and not set(self.columns) <= names else list(self.columns)
        rows = self.split.select_columns(needed) if set(needed) <= names else self.split
        return rows_as_pairs(rows, self.part, self.columns)
