"""Random damage of files: bytes of any file, tokens of a text file, and members of a zip archive."""

from __future__ import annotations

import io
import re
import zipfile
from random import Random

# Values that a format allows somewhere, but not here; text that another program would run or replace.
ODD_TOKENS = [
    *("null", "NaN", ".nan", "-.inf", "Infinity", "1e400", "-1", "99999999999999999999999", "0x1F", "1_0", "~", "yes"),
    *("[]", "{}", "[[[[[[[[]]]]]]]]", '{"a": {"a": {"a": []}}}', '""', "''", "|\n  text", "- a", "? a", "- - - - a"),
    *("&a [*a]", "*a", "<<: *a", "!!python/object/apply:os.system [touch outside]", "!!set {a}", "!!binary AAAA"),
    *("_target_: os.system", "_target_: nmt.inference.model_folder.Path", '"_target_": "os.system"', "${oc.env:HOME}"),
    *("${oc.env:NMT_CANARY}", "$\\{oc.env:NMT_CANARY\\}", "${data}", "${now:%Y}", "--config-dir=.", "trust=[os]"),
    *("+hydra.run.dir=outside", "../../outside", "/dev/zero", "C:\\x", "text.src", "~encoder", "attention=../x"),
    *("\x1b[2J\x1b]0;title\x07", "\u202e", "\u2028", "\ufeff", "\x00", "\r", "\n", "\n\n", "\t", "\ud7ff", "日本", "é"),
    *(",", ",,,,,,,,", ":", '"', "'", "}", "]", "#", "\\", "\\u0000", "\\ud800", "%", "=", "," * 99, "9" * 999),
]
TOKEN = re.compile(r"[\w.+-]+|[^\w\s]")


def damage_bytes(content: bytes, random: Random) -> tuple[str, bytes]:
    """Return a description and a damaged copy of a file's bytes, at least one byte long."""
    kind = random.choices(["bit", "byte", "cut", "more", "zeros", "swap", "insert"], weights=[3, 4, 2, 1, 2, 2, 1])[0]
    at, length = random.randrange(len(content)), random.choice([1, 2, 8, 64, 512])
    if kind in ("bit", "byte"):
        value = content[at] ^ (1 << random.randrange(8) if kind == "bit" else random.randrange(1, 256))
        return f"byte {at} = {value}", content[:at] + bytes([value]) + content[at + 1 :]
    if kind == "cut":
        return f"cut at {at}", content[:at]
    if kind == "more":
        return "longer", content + random.choice([random.randbytes(length), bytes(length), content])
    if kind == "zeros":
        return f"{length} zeros at {at}", content[:at] + bytes(len(content[at : at + length])) + content[at + length :]
    other = random.randrange(len(content))
    if kind == "insert":
        return f"{length} bytes of {other} inserted at {at}", content[:at] + content[other : other + length] + content[
            at:
        ]
    first, second = sorted((at, other))
    blocks = content[first : first + length], content[second : second + length]
    swapped = content[:first] + blocks[1] + content[first + length : second] + blocks[0] + content[second + length :]
    return f"blocks of {length} at {first} and {second} swapped", swapped


def damage_text(content: bytes, random: Random) -> tuple[str, bytes]:
    """Return a description and a damaged copy of a text file: an odd token, or other lines, or damaged bytes."""
    text = content.decode()
    kind = random.choices(["token", "insert", "lines", "bytes"], weights=[4, 3, 2, 2])[0]
    if kind == "bytes":
        return damage_bytes(content, random)
    if kind == "lines":
        lines = text.splitlines(keepends=True)
        first, second = (random.randrange(len(lines)) for _ in range(2))
        changed = [*lines[:first], *random.choice([[], [lines[second]], [lines[first]] * 2]), *lines[first + 1 :]]
        return f"lines {first} and {second}", "".join(changed).encode()
    token = random.choice(ODD_TOKENS)
    if kind == "insert":
        first = last = random.randrange(len(text) + 1)
    else:
        match = random.choice(list(TOKEN.finditer(text)))
        first, last = match.span()
    damaged = text[:first] + token + text[last:]
    return f"{text[first:last]!r} at {first} = {token[:40]!r}", damaged.encode("utf-8", "surrogatepass")


def damage_member(content: bytes, random: Random) -> tuple[str, bytes]:
    """Return a copy of a zip archive in which one member is damaged and all checksums are right."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    # The first one of torch's archives is the pickle that describes all others.
    full = [name for name, data in members.items() if data]
    name = random.choice([full[0], random.choice(full)])
    what, members[name] = damage_bytes(members[name], random)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return f"{name}: {what}", buffer.getvalue()
