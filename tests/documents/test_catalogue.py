"""Catalogues of gettext: only messages without a translation change, and all their lines are translated."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from builders import expect_error

from nmt.documents.catalogue import Catalogue
from nmt.errors import UserError

polib = pytest.importorskip("polib")

FILE = r"""
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=3; plural=n>9;\n"

#. a comment
#: a.c:3
#, python-brace-format
msgid "a dog {name}\n"
"\n"
"  runs\n"
msgstr ""

msgid "<a href=\"x?a&b\">dogs</a> &amp; R&D"
msgstr ""

msgctxt "menu"
msgid "old"
msgstr "alt"

#, fuzzy
#| msgid "e"
msgid "f"
msgstr "g"

msgid "%d dog"
msgid_plural "%d dogs"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

#~ msgid "gone"
#~ msgstr "weg"
"""
TAGS = '<a href="x?a&amp;b">dogs</a> &amp;amp; R&amp;D'


@pytest.mark.parametrize(
    "line", ["", "charset=UTF-8", "charset=utf8", "charset=CHARSET", "charset=us-ascii", "charset="]
)
def test_a_filled_catalogue_names_its_charset(line: str) -> None:
    content = f'"Content-Type: text/plain; {line}\\n"\n' if line else ""
    header = f'msgid ""\nmsgstr ""\n"Language: de\\n"\n{content}\n'
    filled = Catalogue(f'{header}msgid "for"\nmsgstr ""\n', "a.po").fill(["für"])
    assert re.findall("Content-Type: text/plain; charset=(.*)\\\\n", filled)[0].lower() in ("utf-8", "utf8")
    assert "Language: de" in filled


def test_another_charset_is_refused() -> None:  # also where all bytes are ASCII, because translations are not
    expect_error(
        r"^a\.po: charset=ISO-8859-1: .*; convert it: msgconv -t UTF-8 a\.po > NEW",
        Catalogue,
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=ISO-8859-1\\n"\n',
        "a.po",
    )


def test_only_messages_without_a_translation_change() -> None:
    catalogue = Catalogue(FILE, "a.po")
    assert catalogue.lines == ["a dog {name}", "runs", TAGS, "%d dog", "%d dogs"]
    before = polib.pofile(FILE)
    after = polib.pofile(catalogue.fill(["ein {name}", "rennt", TAGS, "%d Hund", "%d Hunde"]))
    assert after.metadata == before.metadata
    assert [(entry.msgctxt, entry.msgid, entry.comment, entry.occurrences) for entry in after] == [
        (entry.msgctxt, entry.msgid, entry.comment, entry.occurrences) for entry in before
    ]
    assert [entry.msgstr for entry in after] == ["ein {name}\n\n  rennt\n", before[1].msgid, "alt", "g", "", "weg"]
    assert after[4].msgstr_plural == {0: "%d Hund", 1: "%d Hunde", 2: "%d Hunde"}
    assert [entry.flags for entry in after] == [
        ["python-brace-format", "fuzzy"],
        ["fuzzy"],
        [],
        ["fuzzy"],
        ["fuzzy"],
        [],
    ]
    assert Catalogue(str(after), "a.po").lines == []


@pytest.mark.parametrize("separator", ["\u2028", "\x85", "\x0c", "\x1c"])
def test_lines_end_at_line_feeds_only(separator: str, tmp_path: Path) -> None:
    catalogue = Catalogue(f'msgid "a{separator}b"\nmsgstr ""\n\nmsgid "c"\nmsgstr "d{separator}e"\n', "a.po")
    (tmp_path / "b.po").write_text(catalogue.fill(["x"]), "utf-8")
    filled = [(entry.msgid, entry.msgstr) for entry in polib.pofile(str(tmp_path / "b.po"), encoding="utf-8")]
    assert filled == [(f"a{separator}b", "x"), ("c", f"d{separator}e")]


@pytest.mark.parametrize("escape", ["a", "x41", "033", "?"])
def test_escapes_that_polib_would_change_are_refused(escape: str) -> None:
    text = '# C:\\a\nmsgid ""\n"b\\\\a\\"c{}"\nmsgstr ""\n'
    Catalogue(text.format("\\n"), "a.po")
    with pytest.raises(UserError, match=rf"^a\.po:3: \\{re.escape(escape[0])}: an escape that cannot be kept; write "):
        Catalogue(text.format(f"\\{escape}"), "a.po")


def test_all_plural_forms_of_the_header_are_filled() -> None:
    header = 'msgid ""\nmsgstr "Plural-Forms: nplurals={}; plural=n!=1;\\n"\n\n'
    message = 'msgid "dog"\nmsgid_plural "dogs"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    filled = Catalogue(header.format(" 3") + message, "a.po").fill(["pes", "psy"])
    assert re.findall(r"msgstr\[(\d)\] (.*)", filled) == [("0", '"pes"'), ("1", '"psy"'), ("2", '"psy"')]
    Catalogue(f'{header.format("INTEGER")}msgid "a"\nmsgstr ""', "a.pot")
    with pytest.raises(UserError, match=r"^a\.pot: nplurals=INTEGER: a template .*; make .* msginit -i a\.pot -l de$"):
        Catalogue(header.format("INTEGER") + message, "a.pot")


@pytest.mark.parametrize(
    ("formula", "count", "singular"),
    [
        ("n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5", 6, 1),  # Arabic
        ("(n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0)", 4, 1),  # Slovenian
        ("n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2", 3, 0),  # Russian
        ("n > 1", 2, 0),
        ("EXPRESSION", 2, 0),
        ("n/0", 2, 0),
    ],
)
def test_the_singular_is_the_form_for_one_thing(formula: str, count: int, singular: int) -> None:
    header = f'msgid ""\nmsgstr "Plural-Forms: nplurals={count}; plural={formula};\\n"\n\n'
    catalogue = Catalogue(f'{header}msgid "dog"\nmsgid_plural "dogs"\nmsgstr[0] ""\n', "a.po")
    filled = catalogue.fill(["Hund", "Hunde"])
    assert [f'msgstr[{number}] "{"Hund" if number == singular else "Hunde"}"' in filled for number in range(count)] == [
        True
    ] * count


def test_the_only_plural_form_is_the_plural() -> None:
    catalogue = Catalogue('msgid "dog"\nmsgid_plural "dogs"\nmsgstr[0] ""\n', "a.po")
    assert 'msgstr[0] "犬たち"' in catalogue.fill(["犬", "犬たち"])


@pytest.mark.parametrize(("text", "line"), [('msgid "a"\nmsgstr "b"\nfoo bar\n', 3), ("x", 1)])
def test_damaged_files_are_refused_with_their_line(text: str, line: int) -> None:
    expect_error(rf"^a\.po:{line}: not a file of gettext \(.*\); see msgfmt -c a\.po$", Catalogue, text, "a.po")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polib", None)
    expect_error(
        r"^format=po: the package polib is not installed; install the extra: .*\[po\]'$", Catalogue, FILE, "a.po"
    )
