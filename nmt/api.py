"""The Python interface: ``train`` is nmt-train, and ``Translator`` has the methods of the other commands."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.alignment.heatmap import Heatmap as Heatmap
from nmt.errors import Interrupted, UserError
from nmt.inference.run_files import METRICS_FILE
from nmt.inference.translator import Evaluation as Evaluation
from nmt.inference.translator import Translator as Translator
from nmt.settings.arguments import brief, iterable, text, text_list

Rows = Iterable[tuple[str, str] | Mapping[str, Any]]


SEVERAL = re.compile(r"""[^\s='"\[{]+=[^'"\[{]*\s[+~]*[A-Za-z_][\w.]*=.*""", re.DOTALL)
"""Matches two settings in one string, unless quotes or brackets make them one value."""


@dataclass(frozen=True)
class Run:
    """A finished training run. ``summary`` is the content of its ``summary.json``."""

    folder: Path
    summary: dict[str, Any]

    @property
    def scores(self) -> dict[str, float | None]:
        """``bleu``, ``chrf`` and ``aer`` of the test set; empty without a test set."""
        return self.summary["test"] or {}

    @property
    def history(self) -> dict[str, list[tuple[int, float]]]:
        """The (update, value) points of each metric during training, such as ``valid_loss``."""
        from nmt.training.metrics import read_metrics

        return read_metrics(self.folder / METRICS_FILE)


def train(
    *settings: str,
    train: Rows | None = None,
    valid: Rows | None = None,
    test: Rows | None = None,
    columns: tuple[str, str] | None = None,
) -> Run:
    """Train a model with the settings and checks of ``nmt-train``, such as ``train("name=quick", "attention=luong")``.

    ``train``, ``valid`` and optionally ``test`` are the text, instead of a ``data`` setting: (source, target) tuples or
    rows that are mappings, such as those of a Hugging Face ``Dataset``. ``columns`` are then the names of source and
    target, in the row or in its column ``translation``.

    Progress goes to stderr. Raises UserError for anything that the user can fix, and Interrupted, a KeyboardInterrupt,
    if the run was stopped; its folder can be resumed with ``resume=true``.
    """
    from nmt.config.runs import run_training

    settings = tuple(text(setting, f"settings[{number}]") for number, setting in enumerate(settings))
    for setting in filter(SEVERAL.fullmatch, settings):
        fix = "give each as a separate string, such as 'name=quick', 'attention=luong'"
        raise UserError(f"{setting!r:.80}: several settings in one string; {fix}")
    given = {"train": train, "valid": valid, "test": test}
    what = "(source, target) pairs, or of rows with columns="
    pairs = {part: iterable(rows, part, what=what) for part, rows in given.items() if rows is not None}
    arguments = [*_data_settings(settings, pairs, columns), *settings]
    result = run_training(arguments, pairs or None)
    if result.stop_signal is not None or result.summary is None:
        raise Interrupted(result.stop_signal or signal.SIGINT)
    return Run(result.folder, result.summary)


def _data_settings(settings: Sequence[str], pairs: Mapping[str, Rows], columns: Sequence[str] | None) -> list[str]:
    """Return the settings that describe text from Python. Raises UserError where other ``settings`` contradict them."""
    if not pairs:
        if columns is not None:
            raise UserError("columns=: needs train= and valid= too; give them, or remove columns=")
        return []
    for setting in settings:
        if setting.startswith("data="):
            raise UserError(f"{setting}: the text is given as {', '.join(f'{part}=' for part in pairs)}; remove one")
    if columns is None:
        return ["data=python"]
    columns = text_list(columns, "columns", what="the names of source and target, such as ('en', 'de')")
    if len(columns) != 2 or columns[0] == columns[1]:
        raise UserError(f"columns={brief(columns)}: must be the names of source and target, such as ('en', 'de')")
    return ["data=python", f"data.columns={json.dumps(columns, ensure_ascii=False)}"]
