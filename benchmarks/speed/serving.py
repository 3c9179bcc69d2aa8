"""Measure the answers of nmt-serve to many clients at once, beside CTranslate2 behind a server of the same kind.

Each client sends one line, waits for its translation, and sends the next. The models are those of decode.py: the
reference with random weights, and a random Transformer of about the same size in 8-bit integers. Every translation has
the same number of pieces. nmt-serve puts the lines that wait into one batch. The peer translates each request on its
own, several at once, as servers for CTranslate2 do that hand each request to its Translator.

    python -m benchmarks.speed.serving --ct2 ct2/bin/python
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

import numpy as np

from benchmarks.machine import peak_memory
from benchmarks.report import argument_parser, header, save, table, with_quartiles
from benchmarks.speed.reference import FIRST_PIECE, VOCABULARY, reference, tokenizer

CLIENTS = (1, 8, 64)
PEER = "CTranslate2 int8, 22 M"
LINES = 500  # different lines


def main() -> None:
    parser = argument_parser(__doc__, "serving.md", rounds=3, runs="runs/decode")
    parser.add_argument("--ct2", type=Path, help="a Python with ctranslate2, starlette and uvicorn")
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement; default: %(default)s")
    parser.add_argument("--length", type=int, default=15, help="pieces of a line, and of a translation")
    parser.add_argument("--beam", type=int, default=5, help="default: %(default)s")
    args = parser.parse_args()
    steps = args.length
    run = reference(args.runs, ["luong"])
    random = np.random.default_rng(1)
    numbers = random.integers(FIRST_PIECE, VOCABULARY, (LINES, args.length - 1))
    pieces = tokenizer()
    servers = {
        f"nmt-serve engine={engine}": [
            *(
                sys.executable,
                "-m",
                "nmt.commands.programs",
                "serve",
                f"model={run}",
                "languages=a:b",
                f"engine={engine}",
            ),
            *(f"threads={args.threads}", f"search.beam_size={args.beam}", "port=PORT"),
            *(f"search.min_length={steps}", f"search.max_length={steps}"),
        ]
        for engine in ("onnx", "onnx-int8")
    }
    texts = dict.fromkeys(servers, [pieces.decode(line.tolist()) for line in numbers])
    if args.ct2:
        work = {"lines": 0, "length": args.length, "steps": steps, "beam": args.beam, "batch": 2}
        work |= {"threads": args.threads, "vocabulary": VOCABULARY}
        options = [word for name, value in work.items() for word in (f"--{name}", str(value))]
        peer = str(Path(__file__).with_name("ct2_peer.py"))
        servers[PEER] = [str(args.ct2), peer, "--millions", "22", *options, "--port", "PORT"]
        texts[PEER] = [" ".join(f"t{number}" for number in line) for line in numbers]
    rates: dict[tuple[str, int], list[float]] = {(name, count): [] for name in servers for count in CLIENTS}
    waits: dict[tuple[str, int], list[float]] = {key: [] for key in rates}
    memory = dict.fromkeys(servers, 0.0)
    for _ in range(args.rounds):
        for name, command in servers.items():
            with started(command) as (port, process):
                asyncio.run(load(port, texts[name], clients=max(CLIENTS), seconds=2))  # warm up
                for count in CLIENTS:
                    seconds = asyncio.run(load(port, texts[name], clients=count, seconds=args.seconds))
                    rates[name, count].append(len(seconds) / args.seconds)
                    waits[name, count] += seconds
                memory[name] = max(memory[name], peak_memory(process.pid) / 2**20)
    rows = []
    for name, count in rates:
        percentiles = quantiles(waits[name, count], n=100)
        times = [f"{1000 * value:.0f}" for value in (median(waits[name, count]), percentiles[98])]
        rows.append((name, count, with_quartiles(rates[name, count], ".0f"), *times, f"{memory[name]:.0f}"))
    facts = [f"one line of {args.length} pieces per request, {steps} pieces in a translation, beam {args.beam}"]
    facts.append(
        f"{args.threads} threads; {args.rounds} rounds of {args.seconds:g} s in turns; clients on the same cores"
    )
    columns = ("server", "clients", "lines per second (quartiles)", "median wait, ms", "p99, ms", "peak RAM, MB")
    save(args.output, [*header("Server", *facts), *table(columns, rows)])


@contextmanager
def started(command: Sequence[str]) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Start a server at a free port, wait until it listens, and stop it after the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [word.replace("PORT", str(port)) for word in command]
    environment = dict(os.environ)
    if words[0] != sys.executable:
        environment.pop("PYTHONPATH", None)
    process = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL)
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            if process.poll() is not None:
                sys.exit(f"{' '.join(words)} ended with {process.returncode}")
            time.sleep(0.1)
        yield port, process
    finally:
        process.terminate()
        process.wait()


async def load(port: int, texts: Sequence[str], *, clients: int, seconds: float) -> list[float]:
    """Let ``clients`` ask for translations for this time; return the seconds that each answered request took."""
    end = time.perf_counter() + seconds
    times: list[float] = []

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        turn = number
        while time.perf_counter() < end:
            body = json.dumps({"q": texts[turn % len(texts)], "source": "a", "target": "b"}).encode()
            begun = time.perf_counter()
            head = (
                f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            )
            writer.write(head.encode() + b"\r\n\r\n" + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).decode()
            size = next(line for line in answer.lower().split("\r\n") if line.startswith("content-length:"))
            text = await reader.readexactly(int(size.split(":")[1]))
            assert answer.startswith("HTTP/1.1 200") and json.loads(text)["translatedText"], (answer, text)
            now = time.perf_counter()
            if now <= end:
                times.append(now - begun)
            turn += clients
        writer.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    return times


if __name__ == "__main__":
    main()
