"""What a translation keeps: each kind is found whole, in any surroundings, and ordinary text is not."""

from __future__ import annotations

import pytest
from builders import refusal

from nmt.text.placeholders import KeptText

PLACEHOLDERS = KeptText(placeholders=True, numbers=False, elements=False)
NUMBERS = KeptText(placeholders=True, numbers=True, elements=False)
KINDS = {
    "fields": [
        *"{name} {0} {} {{name}} {{{raw}}} {$name} {user.name} {items[0]} {:.2f} {0:,} {name!r:>10} {0,number}".split(),
        *"${name} #{name} %{count} $name $NAME$ :name @name !name [X7X] [X12X] [[name]] [url=http://x.y] [/b]".split(),
        *"<b> </b> <0> </0> <br/> <%=name%> &nbsp; &#8212; &#x2014; __NAME__ MAX_LEN snake_case --help \\n".split(),
        *["{{ name }}", "{ $name }", "{{ a | b('c') }}", "{% if x %}", "{# note #}", "${a + b}", "<a href='x y'>"],
        *["{n, plural, one {# dog} other {# dogs}}", "<%= name %>", "`make test`", "{count|upper}", "\\u00e4"],
        "{g, select, male {{n, plural, one {# boy} other {boys}}} other {a {x} b}}",
    ],
    "formats": [
        *"%s %d %i %c %@ %% %n %1 %12 %L1 %lu %lld %zu %hhx %1$s %1$@ %1$ld %2$*d %5.2f %-10s %+d %'d %05d %#x".split(),
        *"%.*f %(name)s %(count)05d %<name>s %name% %PATH% %Y %B %1$-10.3f %llu %p %e %Lf %td %jd".split(),
    ],
    "signs": [
        *"😀 👍🏽 👨‍👩‍👧 🏳️‍🌈 🇩🇪 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ❤️ 1️⃣ #️⃣ ✓ ✔ ™ © ® → ⇒ ← ★ ☐ ♪ ① • ‣ † ∞ ≤ ≥ √ ■ ▶ ⚠️ № ℃ ☎ ✂ ⌘ ⏎".split(),
        *":-) ;-) :-( :) ;)".split(),
    ],
    "addresses": [
        *"http://a.b/c?d=1&e https://x.org/a_b#c www.x.org ftp://x.y mailto:a@b.c tel:+49301234 me@x.org".split(),
        *"jörg@müller.de example.com docs.python.org/3/ /usr/bin/python ~/x/y ./run.sh ../b /etc src/main.py".split(),
        *"C:\\Windows\\x.txt \\\\host\\share file_1.txt @user #topic 00:1a:2b:3c:4d:5e".split(),
        *"192.168.0.1 10.0.0.1:80 550e8400-e29b-41d4-a716-446655440000 aa-bb-cc-dd-ee-ff".split(),
    ],
}
SENTENCES = ["Der Hund {} schläft .", "{}, sagte er.", "({})", "Siehe {}.", "„{}“"]
NUMBER_KINDS = (
    "-5|−5|+49 30 1234|+49 (30) 1234-56|1 000 000|1.000.000|1'000|1,250.50|12:30|2024-01-02|12/05/2020|$5.00|€30|USD 5"
    "|1.000,50 €|50 %|5%|7 ‰|1.5e-3|20 °C|5 km|10 kg|100 km/h|3½|5–10|±3|EUR 20|20 EUR|16 GB|25 m²|٣٫٥"
    "|2024-01-02T12:30:45.5Z|2024-01-02T12:30+01:00"
).split("|")
SIBLINGS = [
    ("%dms", "%d"),
    ("Datei%s", "%s"),
    ("{count}x", "{count}"),
    ("©2020", "©"),
    ("日本{name}語", "{name}"),
    ("请访问https://example.org/a?b=1。谢谢", "https://example.org/a?b=1"),
    ("見て（www.example.org）です", "www.example.org"),
    ("a.{x}", "{x}"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_placeholder_is_found_whole(kind: str) -> None:
    for text in KINDS[kind]:
        for sentence in SENTENCES[: 4 if kind == "signs" or text.startswith("--") else 5]:
            line = sentence.format(text) if text != "--help" else f"{text} ."
            assert [match[0] for match in PLACEHOLDERS.matches(line)] == [text]


@pytest.mark.parametrize(("line", "text"), SIBLINGS)
def test_a_placeholder_may_touch_a_word(line: str, text: str) -> None:
    assert [match[0] for match in PLACEHOLDERS.matches(line)] == [text]


def test_numbers_are_found_with_signs_groups_currencies_and_units() -> None:
    for number in NUMBER_KINDS:
        for sentence in SENTENCES[:1] + SENTENCES[3:4]:
            [match] = NUMBERS.matches(sentence.format(number))
            assert (match[0], match.lastgroup) == (number, "number")
    assert [match[0] for match in NUMBERS.matches("in 1998 300 people")] == ["1998", "300"]
    assert (
        NUMBERS.matches("3月, A4, 2nd, 7.30pm, $1.5bn, 2.5x, 1,500ft and 2024-01-02x, C++11, x86-64, C#8, v2.0.1") == []
    )
    assert [match[0] for match in NUMBERS.matches("5 km-10 km")] == ["5 km", "10 km"]
    for kept in ("%s", "%(n)d", "${x}", "$x", "3,500", "{x}", "%d"):  # beside a number
        for number in ("+49 30 1234", "3,500", "-5", "12:30"):
            assert [match[0] for match in NUMBERS.matches(f"a {number} {kept} b")] == [number, kept]


@pytest.mark.parametrize(
    "line",
    [
        "A man (left) and a woman: they're 100% sure; it's 50 % off, and/or [sic] \"quoted\" - yes!",
        "Der Preis ist 5 % höher, 100%ige Sicherheit, 100 %ige ...",
        "Note: see below; C# and F# are languages. 3 < 5 and 7 > 2",
        "{Applause and laughter} [Applause] [MUSIC] He said:yes",
        "AT&T R&D a+b=c 5*3 e.g. i.e. U.S.A. Mr. Smith's § 5",
        "“Hello,” she said… either/or, he/she, km/h, 1/2, w/o, 5-10, 12:30, 3.5",
        "Wait... what?! -- no – never; «oui», ¿qué?, 東京に行く。",
        "20 °C, 1,250.50, 2nd, 5-year-old, o'clock, rock 'n' roll",
    ],
)
def test_ordinary_text_is_not_kept(line: str) -> None:
    assert PLACEHOLDERS.matches(line) == []


def test_a_pattern_of_the_user_comes_first() -> None:
    kept = KeptText(r"Windows \d+|(?i:acme)", placeholders=True, numbers=True, elements=False)
    assert [match[0] for match in kept.matches("Acme sells Windows 11 for $5 {x}")] == [
        "Acme",
        "Windows 11",
        "$5",
        "{x}",
    ]
    for wrong in ("(", "(?P<number>a)", "(?i)a"):
        message = refusal(KeptText, wrong, placeholders=True, numbers=False, elements=False)
        assert message.startswith(f"search.keep={wrong!r}: ")
    assert KeptText("x*", placeholders=False, numbers=False, elements=False).matches("ab") == []
