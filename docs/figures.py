"""Draw the figure of each attention page: how a small trained model writes, reads and aligns one source.

The task is to repeat the source backwards, so that the right alignment is known: the diagonal from the lower left to
the upper right. Each model learns it in a few seconds.

    python docs/figures.py                 writes docs/attentions/KIND.png for all kinds
    python docs/figures.py memory delta    for these kinds only
    python docs/figures.py positions       the position encodings of memory attention, in memory-positions.png
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from PIL import Image
from torch.optim import Adam

from nmt.alignment.figures import Scale
from nmt.attention import MemoryAttention, StretchMemoryAttention
from nmt.kernels.output_loss import output_loss
from nmt.model import Seq2Seq
from nmt.model.build import build_model
from nmt.settings.build import ModelSettings
from nmt.text.specials import BOS, EOS

LETTERS = "abcdefghijklmnopqrst"
FIRST = 4  # the id of the letter a; smaller ids are padding, unknown, start and end
SIZE, LENGTH, BATCH, UPDATES = 64, 12, 64, 1000
SOURCE = "mosaicknight"[:LENGTH]  # the letters of the figure; some occur twice
KINDS: dict[str, dict[str, Any]] = {
    "none": {"_target_": "NoAttention"},
    "bahdanau": {"_target_": "BahdanauAttention", "attention_size": 32},
    "luong": {"_target_": "LuongAttention"},
    "sparse": {"_target_": "SparseAttention", "keep": 3},
    "hashed": {"_target_": "HashedAttention", "chunk": 3, "key_size": 16},
    "memory": {"_target_": "MemoryAttention", "slots": 8},
    "located_memory": {"_target_": "LocatedMemoryAttention", "slots": 8},
    "stretch_memory": {"_target_": "StretchMemoryAttention", "slots": 8, "split": 2, "heads": 2},
    "nested_memory": {"_target_": "NestedMemoryAttention", "slots": 8},
    "low_rank": {"_target_": "LowRankAttention", "slots": 8, "key_size": 32},
    "abc": {"_target_": "AbcAttention", "slots": 8, "key_size": 32},
    "covariance": {"_target_": "CovarianceAttention"},
    "gated_covariance": {"_target_": "CovarianceAttention", "gate": "value"},
    "general_covariance": {"_target_": "CovarianceAttention", "gate": "all"},
    "delta": {"_target_": "DeltaAttention", "key_size": 16},
    "gated_delta": {"_target_": "DeltaAttention", "key_size": 16, "gated": True},
    "mesa": {"_target_": "MesaAttention", "key_size": 16},
    "kernel": {"_target_": "KernelAttention", "key_size": 16},
    "kernel-softmax": {"_target_": "KernelAttention", "key_size": 16, "feature_map": "softmax"},
    "multi_head": {
        "_target_": "MultiHeadAttention",
        "heads": 4,
        "inner": {"_target_": "nmt.attention.LuongAttention"},
    },
}


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(__file__).parent / "attentions"
    for kind in sys.argv[1:] or [*KINDS, "positions"]:
        if kind == "positions":
            draw_positions(folder / "memory-positions.png")
            continue
        model, accuracy = train(KINDS[kind])
        path = folder / f"{kind}.png"
        draw(*matrices(model), path, note=f"{accuracy:.0%} of the letters are right after {UPDATES:,} updates")
        print(f"{path}: {accuracy:.0%} of the letters right, {path.stat().st_size / 1000:.0f} kB", flush=True)


def random_sources(generator: torch.Generator, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return letters (B, S) and a mask of ragged lengths."""
    letters = torch.randint(FIRST, FIRST + len(LETTERS), (rows, LENGTH), generator=generator)
    lengths = torch.randint(LENGTH // 2, LENGTH + 1, (rows, 1), generator=generator)
    return letters, torch.arange(LENGTH) < lengths


def batch(letters: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return source, its mask, target with the start symbol, target with ``</s>``, and the target's mask."""
    rows, lengths = letters.shape[0], mask.sum(1, keepdim=True)
    source = torch.cat([letters.masked_fill(~mask, 0), letters.new_zeros(rows, 1)], dim=1).scatter(1, lengths, EOS)
    backwards = letters.gather(1, (lengths - 1 - torch.arange(LENGTH)).clamp(min=0)).masked_fill(~mask, 0)
    target = torch.cat([backwards, letters.new_zeros(rows, 1)], dim=1).scatter(1, lengths, EOS)
    real = torch.arange(LENGTH + 1) <= lengths
    return source, real, torch.cat([torch.full((rows, 1), BOS), target[:, :-1]], dim=1), target, real


def train(attention: dict[str, Any]) -> tuple[Seq2Seq, float]:
    """Return a trained model and the share of letters that it predicts, on new sources."""
    name = attention["_target_"]
    config = {
        "embeddings": {"size": SIZE, "shared": True},
        "encoder": {"_target_": "nmt.model.LSTMEncoder", "hidden_size": SIZE, "dropout": 0.0},
        "attention": {**attention, "_target_": f"nmt.attention.{name}"},
        "decoder": {"_target_": "nmt.model.LSTMDecoder", "hidden_size": SIZE, "dropout": 0.0},
    }
    size = FIRST + len(LETTERS)
    torch.manual_seed(1)
    model = build_model(
        ModelSettings.of(config), source_vocabulary=size, target_vocabulary=size, longest_source=LENGTH + 1
    )
    generator = torch.Generator().manual_seed(1)
    optimizer = Adam(model.parameters(), lr=0.005, betas=(0.9, 0.98))
    for update in range(UPDATES):
        optimizer.param_groups[0]["lr"] = 0.005 * min(1, (update + 1) / 50) * (1 - update / UPDATES)
        source, mask, target_in, target_out, real = batch(*random_sources(generator, BATCH))
        features = model.features(source, mask, target_in)
        loss = output_loss(model.decoder.output, features, target_out, real, smoothing=0.0)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    if isinstance(model.attention, StretchMemoryAttention):
        model.attention.use_slots(4)  # as many slots as in training, which has half of those of a translation
    source, mask, target_in, target_out, real = batch(*random_sources(generator, 256))
    with torch.no_grad():
        predicted = model.decoder.output(model.features(source, mask, target_in)).argmax(2)
    return model, float((predicted == target_out)[real].float().mean())


@torch.no_grad()
def matrices(model: Seq2Seq) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the write weights (R, S), read weights (T, R) and alignment (T, S) of the source of the figure."""
    letters = torch.tensor([[FIRST + LETTERS.index(letter) for letter in SOURCE]])
    source, mask, target_in, _, _ = batch(letters, torch.ones_like(letters, dtype=torch.bool))
    memory, final = model.encode(source, mask, trace=True)
    _, read = model.decoder(target_in, model.decoder.init(final, memory), memory)
    write = memory.trace[0] if memory.trace is not None else torch.eye(LENGTH + 1)
    alignment = model.attention.align(read, memory)[0]
    # These memories keep sums, and divide them when they read. The figure shows the shares of the states in a slot.
    is_softmax = memory.state is not None and memory.state.shape == memory.mass.shape
    reads_several_times = memory.trace is not None and model.attention.context_size > memory.slots.shape[2]
    if is_softmax or reads_several_times:
        write, read = write / memory.mass[0, :, None], read * memory.mass[:, None]
    return write.numpy(), read[0].numpy(), alignment.numpy()


def draw(write: np.ndarray, read: np.ndarray, alignment: np.ndarray, path: Path, *, note: str) -> None:
    """Draw the three matrices side by side, in the colours of heatmaps; each has its own scale and bar."""
    figure = Figure(figsize=(9.6, 3.7), layout="constrained")
    FigureCanvasAgg(figure)
    source, target, slots = [*SOURCE, "</s>"], [*SOURCE[::-1], "</s>"], [str(slot + 1) for slot in range(len(write))]
    panels = (
        ("write: source letters into slots", write, source, slots, "source", "slot"),
        ("read: slots at each target step", read, slots, target, "slot", "target"),
        ("alignment = read × write", alignment, source, target, "source", "target"),
    )
    for axes, (title, matrix, columns, lines, across, down) in zip(figure.subplots(1, 3), panels, strict=True):
        axes.set_title(title, fontsize=9)
        axes.set_xlabel(across, fontsize=8)
        axes.set_ylabel(down, fontsize=8)
        if not matrix.size:
            axes.text(0.5, 0.5, "no slots", ha="center", va="center", color="grey")
            axes.set_xticks([])
            axes.set_yticks([])
            continue
        scale = Scale(float(np.abs(matrix).max()) or 1.0, signed=bool(matrix.min() < 0))
        colours = ListedColormap(scale.table)
        shown: Any = {"cmap": colours, "vmin": scale.low, "vmax": scale.limit}
        image = axes.imshow(matrix, aspect="auto", interpolation="nearest", **shown)
        bar = figure.colorbar(image, ax=axes, location="bottom", aspect=40, ticks=[scale.low, scale.limit])
        bar.ax.set_xticklabels([f"{limit:.2g}" for limit in (scale.low, scale.limit)], fontsize=7)
        for set_ticks, labels in ((axes.set_xticks, columns), (axes.set_yticks, lines)):
            step = -(-len(labels) // 16)
            set_ticks(range(0, len(labels), step), labels[::step], fontsize=7)
        axes.tick_params(length=0)
    figure.supxlabel(note, fontsize=8, color="dimgrey")
    save(figure, path)


def draw_positions(path: Path) -> None:
    """Draw the position encodings l of 32 slots, for sources up to the longest, as eq. 12 prints them and rescaled."""
    slots, longest = 32, 40
    figure = Figure(figsize=(9.6, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels: list[tuple[str, Literal["mean"] | None, int]] = [
        (f"as printed, a source of {longest} pieces", None, longest),
        (f"mean 1, a source of {longest} pieces", "mean", longest),
        ("mean 1, a source of 15 pieces", "mean", 15),
    ]
    for axes, (title, renormalise, length) in zip(figure.subplots(1, 3), panels, strict=True):
        attention = MemoryAttention(
            state_size=1, query_size=1, slots=slots, max_length=longest, renormalise=renormalise
        )
        mask = torch.ones(1, length, dtype=torch.bool)
        encoding = attention.positions(mask, torch.zeros(1, dtype=torch.int64), torch.float32)[0]
        extent = (0.5, length + 0.5, slots + 0.5, 0.5)
        image = axes.imshow(encoding.T.numpy(), aspect="auto", interpolation="nearest", vmin=0, extent=extent)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("source position s", fontsize=8)
        axes.set_ylabel("slot k", fontsize=8)
        axes.tick_params(labelsize=7)
        figure.colorbar(image).ax.tick_params(labelsize=7)
    save(figure, path)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


def save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=100)
    with Image.open(path) as picture:
        colours = picture.convert("RGB").quantize(128)  # a third of the size
    colours.save(path, optimize=True)


if __name__ == "__main__":
    main()
