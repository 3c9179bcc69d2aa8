"""Decode with CTranslate2 whenever a line arrives on stdin, and answer with a line; decode.py --ct2 starts this.

With ``--port``, which serving.py gives, it answers requests over HTTP instead, and needs starlette and uvicorn too.

The model is a Transformer with random weights in 8-bit integers. CTranslate2 need not be installed beside the toolkit:
this file runs in any Python that has ctranslate2 and numpy.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

FREQUENT = 200  # pieces that the vocabulary map allows for every source, as in a shortlist of the toolkit
SIZES = {22: (3, 2, 512, 2048), 11: (6, 2, 256, 1536)}  # encoder and decoder layers, size, feed-forward size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--millions", type=int, choices=SIZES, required=True, help="million parameters with 8,000 pieces"
    )
    for name in ("lines", "length", "steps", "beam", "batch", "threads", "vocabulary"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--shortlist", type=int, default=0, help="translations per source piece; default: no map")
    parser.add_argument("--port", type=int, help="serve each request as a batch, over HTTP")
    args = parser.parse_args()
    import ctranslate2

    with tempfile.TemporaryDirectory() as folder:
        save_model(folder, *SIZES[args.millions], vocabulary=args.vocabulary, shortlist=args.shortlist)
        # Fastest: a thread per batch for many lines, and one thread for one line.
        batches = args.threads if args.batch > 1 else 1
        translator = ctranslate2.Translator(folder, compute_type="int8", inter_threads=batches, intra_threads=1)
    random = np.random.default_rng(1)
    lines = [[f"t{i}" for i in random.integers(args.vocabulary, size=args.length - 1)] for _ in range(args.lines)]
    options = {"beam_size": args.beam, "max_batch_size": args.batch, "batch_type": "examples"}
    options |= {"min_decoding_length": args.steps, "max_decoding_length": args.steps}
    options |= {"use_vmap": bool(args.shortlist)}
    if args.port is not None:
        serve(translator, options, args.port)
        return
    groups = [[line] for line in lines] if args.batch == 1 else [lines]
    for _ in sys.stdin:
        results = [result for group in groups for result in translator.translate_batch(group, **options)]
        assert all(len(result.hypotheses[0]) == args.steps for result in results)
        print(os.environ.get("CT2_FORCE_CPU_ISA", "chosen by CTranslate2"), flush=True)


def serve(translator: Any, options: dict[str, Any], port: int) -> None:
    """Answer ``POST /translate`` with the field q, a line of pieces; each request is a separate batch."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def translate(request: Request) -> JSONResponse:
        pieces = (await request.json())["q"].split()
        [result] = await run_in_threadpool(translator.translate_batch, [pieces], **options)
        return JSONResponse({"translatedText": " ".join(result.hypotheses[0])})

    app = Starlette(routes=[Route("/translate", translate, methods=["POST"])])
    uvicorn.run(app, port=port, log_level="warning")


def save_model(
    folder: str,
    encoder_layers: int,
    decoder_layers: int,
    size: int,
    feed_forward: int,
    *,
    vocabulary: int,
    shortlist: int,
) -> None:
    """Write a pre-norm Transformer with eight heads whose embeddings and output layer are shared.

    ``shortlist`` is the number of random translations of each source piece in a vocabulary map; 0 means no map.
    """
    from ctranslate2.specs import transformer_spec

    random = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (random.standard_normal((rows, columns)) * (2 / (rows + columns)) ** 0.5).astype(np.float32)

    def linear(spec: Any, rows: int, columns: int) -> None:
        spec.weight, spec.bias = matrix(rows, columns), np.zeros(rows, np.float32)

    def norm(spec: Any) -> None:
        spec.gamma, spec.beta = np.ones(size, np.float32), np.zeros(size, np.float32)

    model = transformer_spec.TransformerSpec.from_config((encoder_layers, decoder_layers), 8, pre_norm=True)
    embedding = matrix(vocabulary + 4, size)
    model.encoder.embeddings[0].weight = model.decoder.embeddings.weight = model.decoder.projection.weight = embedding
    model.decoder.projection.bias = np.zeros(vocabulary + 4, np.float32)
    for side in (model.encoder, model.decoder):
        norm(side.layer_norm)
        for layer in side.layer:
            attentions = [layer.self_attention] + ([layer.attention] if side is model.decoder else [])
            for attention, shapes in zip(attentions, ([3, 1], [1, 2, 1]), strict=False):
                norm(attention.layer_norm)
                for part, factor in zip(attention.linear, shapes, strict=True):
                    linear(part, factor * size, size)
            norm(layer.ffn.layer_norm)
            linear(layer.ffn.linear_0, feed_forward, size)
            linear(layer.ffn.linear_1, size, feed_forward)
    tokens = ["<blank>", "<unk>", "<s>", "</s>", *(f"t{i}" for i in range(vocabulary))]
    model.register_source_vocabulary(tokens)
    model.register_target_vocabulary(tokens)
    model.config.add_source_eos = True
    if shortlist:
        # Each line holds a source piece, a tab and target pieces. A line without a source piece is for every source.
        lists = {"": random.integers(vocabulary, size=FREQUENT)}
        lists |= {f"t{i}": random.integers(vocabulary, size=shortlist) for i in range(vocabulary)}
        lines = [f"{piece}\t{' '.join(f't{i}' for i in numbers)}\n" for piece, numbers in lists.items()]
        vocabulary_map = Path(folder) / "lists.txt"
        vocabulary_map.write_text("".join(lines), encoding="utf-8")
        model.register_vocabulary_mapping(str(vocabulary_map))
    model.validate()
    model.optimize(quantization="int8")
    model.save(folder)


if __name__ == "__main__":
    main()
