"""Random damage of files: bytes of any file, tokens of a text file, and members of a zip archive."""

from __future__ import annotations

import io
import re
import zipfile
from random import Random

# Values that a format allows somewhere, but not here; text that another program would run or replace.
ODD_TOKENS = [
    *("null", ".nan", "Infinity", "1e400", "-1", "99999999999999999999999", "yes", "[]", "{}", '""', "[[[[[[]]]]]]"),
    *("- a", "&a [*a]", "<<: *a", "!!python/object/apply:os.system [touch outside]", "_target_: os.system"),
    *("_target_: nmt.inference.model_folder.Path", '"_target_": "os.system"', "${oc.env:NMT_CANARY}", "${data}"),
    *("$\\{oc.env:NMT_CANARY\\}", "trust=[os]", "+hydra.run.dir=outside", "../../outside", "/dev/zero", "text.src"),
    *(
        "\x1b[2J\x1b]0;title\x07",
        "\u2028",
        "\x00",
        "\r",
        "\n\n",
        "\ud7ff",
        ",",
        ":",
        '"',
        "'",
        "}",
        "\\ud800",
        "9" * 999,
    ),
]
TOKEN = re.compile(r"[\w.+-]+|[^\w\s]")


def damage_bytes(content: bytes, random: Random) -> tuple[str, bytes]:
    """Return a description and a damaged copy of a file's bytes, at least one byte long."""
    kind = random.choices(["byte", "cut", "more", "zeros", "insert"], weights=[7, 2, 1, 2, 3])[0]
    at, other, length = random.randrange(len(content)), random.randrange(len(content)), random.choice([1, 8, 64, 512])
    before, after = content[:at], content[at:]
    damaged = {
        "byte": before + bytes([content[at] ^ random.randrange(1, 256)]) + content[at + 1 :],
        "cut": before,
        "more": content + random.choice([random.randbytes(length), content]),
        "zeros": before + bytes(len(after[:length])) + after[length:],
        "insert": before + content[other : other + length] + after,
    }[kind]
    return f"{kind} at {at}, {length} of {other}", damaged


def damage_text(content: bytes, random: Random) -> tuple[str, bytes]:
    """Return a description and a damaged copy of a text file: an odd token, another order of lines, or other bytes."""
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
    at = random.randrange(len(text) + 1)
    first, last = (at, at) if kind == "insert" else random.choice(list(TOKEN.finditer(text))).span()
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
