"""Compressed text by the end of a file's name, and the names of formats that are not text."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

GZIP_MAGIC, XZ_MAGIC, BZIP2_MAGIC = b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh"
# Compressions that Python reads and writes itself, by the end of the name, with their first bytes.
COMPRESSED = {".gz": ("gzip", GZIP_MAGIC), ".xz": ("xz", XZ_MAGIC), ".bz2": ("bzip2", BZIP2_MAGIC)}

# First bytes: the name of the format, and what to do. {} is the file.
DECOMPRESS = "decompress it, or give it a name that ends in"
FORMATS = (
    (GZIP_MAGIC, "gzip data", f"{DECOMPRESS} .gz"),
    (XZ_MAGIC, "xz data", f"{DECOMPRESS} .xz"),
    (BZIP2_MAGIC, "bzip2 data", f"{DECOMPRESS} .bz2"),
    (b"\x28\xb5\x2f\xfd", "zstandard data", "decompress it: zstd -d {}"),
    (b"\x04\x22\x4d\x18", "lz4 data", "decompress it: lz4 -d {}"),
    (b"\x1f\x9d", "data of compress", "decompress it: gzip -d {}"),
    (b"\x5d\x00\x00", "lzma data", "decompress it: xz -d {}"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "extract it: 7z x {}"),
    (b"Rar!\x1a\x07", "a RAR archive", "extract it: unrar x {}"),
    (b"PK\x03\x04", "a ZIP archive or an Office document", "extract it: unzip {}, or save it as plain text"),
    (b"%PDF-", "a PDF document", "extract its text: pdftotext {}"),
    (b"{\\rtf", "an RTF document", "save it as plain text in UTF-8"),
    (b"\xd0\xcf\x11\xe0", "an old Office document", "save it as plain text in UTF-8"),
    (b"PAR1", "a Parquet table", "use data=table, with a name that ends in .parquet"),
    (b"SQLite format 3\x00", "an SQLite database", "export its text in UTF-8"),
    (b"\xff\xfe\x00\x00", "UTF-32 text", "convert it: iconv -f UTF-32 -t UTF-8 {} > NEW"),
    (b"\x00\x00\xfe\xff", "UTF-32 text", "convert it: iconv -f UTF-32 -t UTF-8 {} > NEW"),
    (b"\xff\xfe", "UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8 {} > NEW"),
    (b"\xfe\xff", "UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8 {} > NEW"),
)
DOCUMENTS = {
    (".docx", ".odt", ".doc"): ("a word processor's document", "save it as plain text in UTF-8"),
    (".xlsx", ".ods", ".xls"): ("a spreadsheet", "save it as tab-separated text (.tsv) in UTF-8"),
    (".pptx", ".odp", ".epub"): ("a document", "save it as plain text in UTF-8"),
}
MARKED_UP = ("tmx", "xliff", "xlf", "sgm", "sgml")  # also .sdlxliff and .mqxliff; the last ones: test sets of WMT
ROOTS = (b"<xliff", b"<tmx", b"<TS ")  # of files of translators, whatever their names; TS: Qt
# Endings, in lower case, of files that hold no plain text, so a file of this name would not open.
UNWRITABLE = (".zst", ".lz4", ".z", ".7z", ".rar", ".zip", ".tar", ".tgz", ".pdf", ".rtf", *sum(DOCUMENTS, ()))
# Endings of formats whose lines are not plain sentences.
PAGES = (".html", ".htm", ".md", ".tex", ".rst", ".ipynb")
MARKUP = (*PAGES, ".po", ".srt", ".vtt", ".xml", ".json", ".jsonl", ".yaml", ".yml", ".properties", ".strings", ".eml")
TAR_MAGIC = 257  # where a tar archive says "ustar"


def format_ending(name: str) -> str:
    """Return the ending of a file's name that says its format: in lower case, without that of a compression."""
    ending = next((ending for ending in COMPRESSED if name.endswith(ending)), "")
    return Path(name.removesuffix(ending)).suffix.lower()


def opener(path: str) -> Callable[..., Any]:
    """Return the function that opens the file for bytes or text: ``open``, or the function for the ending of its name.

    The modules are imported on use, because the first line of a translation waits for imports.
    """
    if path.endswith(".gz"):
        return gzip.open
    if path.endswith(".xz"):
        import lzma

        return lzma.open
    if path.endswith(".bz2"):
        import bz2

        return bz2.open
    return open


def shell_name(name: str) -> str:
    """Return the word for a shell command that reads the text of a file: its name without a compression's ending."""
    import shlex

    ending = next((ending for ending in COMPRESSED if name.endswith(ending)), "")
    return "FILE" if name.startswith("<") else shlex.quote(name.removesuffix(ending))  # <stdin>


def is_damage(error: Exception) -> bool:
    """Return whether the error says that compressed data is damaged, and not that a file cannot be read."""
    if isinstance(error, OSError):
        return error.errno is None  # of gzip and bz2
    return isinstance(error, EOFError | zlib.error) or type(error).__name__ == "LZMAError"


def foreign_format(head: bytes, name: str) -> str | None:
    """Return the format of the file ``name`` that starts with ``head``, and the fix; None if it may be UTF-8 text."""
    ending = name.lower()
    for magic, kind, fix in FORMATS:
        if head.startswith(magic) and (magic != BZIP2_MAGIC or head[4:10] == b"1AY&SY"):
            if magic == b"PK\x03\x04" or kind == "an old Office document":
                kind, fix = next((text for ends, text in DOCUMENTS.items() if ending.endswith(ends)), (kind, fix))
            return f"{kind}; {fix.format(shell_name(name))}"
    if head[TAR_MAGIC : TAR_MAGIC + 5] == b"ustar":
        return f"a tar archive; extract it: tar xf {name}"
    if head.lstrip(b"\xef\xbb\xbf").startswith(b"<") and (
        format_ending(name).endswith(MARKED_UP) or any(root in head for root in ROOTS)
    ):
        kind = "SGML" if ".sgm" in format_ending(name) else "XML"
        return f"{kind}; write its sentences to two text files, one sentence per line"
    first = head[::2]
    second = head[1::2]
    for zeros, letters, order in ((second, first, "LE"), (first, second, "BE")):
        letters = letters.rstrip(b"\x00\r\n")
        if zeros.count(0) * 2 > len(zeros) and 0 not in letters and len(letters) > 2:
            return f"UTF-16 text; convert it: iconv -f UTF-16{order} -t UTF-8 {shell_name(name)} > NEW"
    return None
