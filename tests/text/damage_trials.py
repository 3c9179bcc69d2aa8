"""Damage a prepared folder in random ways, open it, and use all of it. Run in a subprocess: a crash ends the process.

Arguments: the folder, the number of trials, the seed, and ``recorded`` (checksums stay) or ``forged`` (checksums are
written again, as an attacker would). Prints a JSON object: how many trials were refused, and what was accepted.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from nmt.errors import UserError
from nmt.text.batches import collate
from nmt.text.prepare import SETTINGS_FILE, Prepared, open_prepared, write_settings
from nmt.text.specials import EOS, UNK


def damage(content: bytes, generator: random.Random) -> tuple[str, bytes]:
    """Return a description and a damaged copy: a changed byte, a missing end, more bytes, or a block of zeros."""
    kind = generator.choices(["byte", "end", "more", "zeros"], weights=[7, 1, 1, 1])[0]
    at = generator.randrange(len(content))
    if kind == "byte":
        value = content[at] ^ generator.randrange(1, 256)
        return f"byte {at} = {value}", content[:at] + bytes([value]) + content[at + 1 :]
    if kind == "end":
        return f"cut at {at}", content[:at]
    if kind == "more":
        return "longer", content + generator.randbytes(generator.randrange(1, 99))
    damaged = content[:at] + bytes(len(content[at : at + 8])) + content[at + 8 :]
    return f"zeros at {at}", damaged if damaged != content else content[:-1]


def use(prepared: Prepared) -> object:
    """Read everything. Return what training and evaluation see of the text."""
    seen = []
    for part, corpus in prepared.corpora.items():
        batch = collate(corpus, range(len(corpus)))
        for ids, tokenizer in ((batch.source, prepared.source), (batch.target_out, prepared.target)):
            assert int(ids.min()) >= 0 and int(ids.max()) < len(tokenizer)
        for row in range(len(corpus)):
            for ids in corpus.ids(row):
                assert all(piece == UNK or piece > EOS for piece in ids.tolist())
        rows = [[side.tolist() for side in corpus.ids(row)] for row in range(len(corpus))]
        seen.append((part, rows, corpus.sources(), corpus.targets(), corpus.links()))
    return seen, prepared.lowercase, prepared.tokenizer, prepared.source.to_bytes(), prepared.target.to_bytes()


def main(folder: Path, trials: int, seed: int, mode: str) -> None:
    generator = random.Random(seed)
    original = use(open_prepared(folder))
    files = sorted(file for file in folder.iterdir() if mode == "recorded" or file.suffix == ".arrow")
    settings = json.loads((folder / SETTINGS_FILE).read_bytes())
    refused, accepted = 0, []
    for _ in range(trials):
        file = generator.choice(files)
        content = file.read_bytes()
        what, damaged = damage(content, generator)
        file.write_bytes(damaged)
        if mode == "forged":
            write_settings(folder, {name: settings[name] for name in ("lowercase", "tokenizer")})
        try:
            result = use(open_prepared(folder))
        except UserError as error:
            assert "\n" not in str(error) and str(folder) in str(error), repr(str(error))
            refused += 1
        else:
            if mode == "forged" or result != original:  # another space in settings.json changes nothing
                accepted.append(f"{file.name}: {what}")
            else:
                refused += 1
        file.write_bytes(content)
    print(json.dumps({"refused": refused, "accepted": accepted}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
