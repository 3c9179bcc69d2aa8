"""Write present.tar.xz: one tiny file or folder of each stored format, and the translations that they give.

    python tests/golden/make.py

Run it only after a change of a stored format, and move the old archive to older/ first: see README.md.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from nmt.commands.export import export
from nmt.commands.prepare import prepare
from nmt.commands.train import train
from nmt.commands.translate import translate

ARCHIVE = Path(__file__).parent / "present.tar.xz"
WORDS = ("ban", "gin", "kor", "des")
TRAIN = [
    *("data=text", "data.train.src=text.src", "data.train.tgt=text.tgt", "data.valid.src=text.src"),
    *("data.valid.tgt=text.tgt", "tokenizer.vocab_size=300", "batches.max_tokens=80", "training.patience=null"),
    *("embeddings.size=8", "encoder.hidden_size=12", "decoder.hidden_size=12", "attention.slots=4"),
    *(
        "optimizer.lr=0.03",
        "schedule=constant",
        "training.monitor=valid_loss",
        "training.decode_sentences=0",
        "search.max_length=8",
    ),
    *("device=cpu", "threads=1"),
]
UNUSED = ("tensorboard", "curve.png", ".lock")


def make(folder: Path) -> None:
    """Fill ``folder``, the current one, with every stored format."""
    lines = [" ".join(WORDS[(row >> shift) % 4] for shift in (0, 2)[: 1 + row % 2]) for row in range(64)]
    for side, text in (("src", lines), ("tgt", [line.upper() for line in lines])):
        (folder / f"text.{side}").write_text("".join(f"{line}\n" for line in text))
    (folder / "in.txt").write_text("".join(f"{line}\n" for line in (*lines[:6], "", "zzz 日本")))
    part = "data.train.src=text.src data.train.tgt=text.tgt data.valid.src=text.src data.valid.tgt=text.tgt"
    prepare([*part.split(), "tokenizer.vocab_size=300", "output=prepared"])
    train([*TRAIN, "training.max_epochs=50", "name=finished"])
    train([*TRAIN, "training.max_epochs=2", "name=stopped"])
    # The interrupted run is as after kill -9 during its report.
    for run, names in (("finished", UNUSED), ("stopped", (*UNUSED, "model.pt", "summary.json", "onnx"))):
        for name in names:
            file = folder / "runs" / run / name
            shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
    shutil.rmtree(folder / "runs" / "finished" / "checkpoints")
    export(["model=runs/finished", "shortlist=5"])
    shutil.rmtree(folder / "runs" / "finished" / "data")
    for engine in ("torch", "onnx", "onnx-int8"):
        translate(["model=runs/finished", "input=in.txt", f"output=translations.{engine}.txt", f"engine={engine}"])


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        os.chdir(temporary)
        make(Path(temporary))
        with tarfile.open(ARCHIVE, "w:xz") as archive:
            for path in sorted(Path(temporary).rglob("*")):
                archive.add(path, path.relative_to(temporary), recursive=False)


if __name__ == "__main__":
    main()
