"""Names of the files in the folder of a run. Imports no torch."""

from __future__ import annotations

from pathlib import Path

CONFIG_FILE = "config.yaml"
MODEL_FILE = "model.pt"
CODE_FILE = "code.json"  # fingerprints of the source files that define its classes
CODE = "code"  # the files of trusted packages
SUMMARY_FILE = "summary.json"  # a run has finished if it exists
METRICS_FILE = "metrics.csv"
CURVE_FILE = "curve.png"
CHECKPOINTS = "checkpoints"
LAST_CHECKPOINT = "last.ckpt"  # in the folder of the checkpoints
ADAPTER = "adapter.safetensors"  # low-rank updates of the model of another run
# Text, links and pictures of the test set:
SOURCES = "test.source.txt"
REFERENCES = "test.references.txt"
TRANSLATIONS = "test.translations.txt"
TRANSLATION_LINKS = "test.translations.links.txt"
REFERENCE_LINKS = "test.references.links.txt"
GOLD_LINKS = "test.gold.links.txt"
ALIGNMENTS = "alignments.html"
HEATMAPS = "heatmaps"


def has_adapter(folder: Path) -> bool:
    """Return whether the folder holds an adapter and no complete model."""
    return (folder / ADAPTER).is_file() and not (folder / MODEL_FILE).is_file()


def has_checkpoint(folder: Path) -> bool:
    """Return whether training can be resumed from the last checkpoint."""
    return (folder / CHECKPOINTS / LAST_CHECKPOINT).is_file()
