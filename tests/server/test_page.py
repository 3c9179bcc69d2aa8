"""The page of the server, as somebody uses it in Chromium: it types, points, chooses slots and drops files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser, browsing
from commands.processes import wait_until
from served import Client, Upper, serving
from server.word_models import tiny_translator

LINE = "a small dog sees red houses"
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browsing() as browser:
        yield browser


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    chromium.errors.clear()
    yield chromium
    assert chromium.errors == []


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    kinds = ("Memory", "Bahdanau", "StretchMemory")
    translators = {kind.lower(): tiny_translator(f"{kind}Attention") for kind in kinds}
    with serving(translators=translators, max_characters=100) as client:
        yield client


def open_page(browser: Browser, client: Client) -> None:
    browser.open(client.url + "/")
    browser.wait("document.querySelectorAll('#panels > section').length")


def shown(browser: Browser) -> list[str]:
    """Return the text of the translations, one per line and model."""
    lines: list[str] = browser.value("[...document.querySelectorAll('.words.target')].map(words => words.textContent)")
    return lines


def message(browser: Browser) -> str:
    text: str = browser.wait("document.querySelector('#message span').textContent")
    return text


def choose(browser: Browser, select: str, value: str) -> None:
    element = f"document.querySelector({select!r})"
    browser.value(f"{element}.value = {value!r}; {element}.dispatchEvent(new Event('change', {{bubbles: true}}))")


def test_translations_of_two_models_arrive_while_typing(browser: Browser, client: Client) -> None:
    open_page(browser, client)
    browser.type(LINE)
    browser.wait("document.querySelectorAll('.words.target').length === 2")
    expected = [
        client.post("/v1/translate", q=LINE, model=name)[1]["translations"][0]["text"]
        for name in ("memory", "bahdanau")
    ]
    assert shown(browser) == expected
    browser.type("\n\ntwo cats")
    browser.wait("document.querySelectorAll('.words.target').length === 4")
    choose(browser, "#second", "")
    browser.wait("document.querySelectorAll('.words.target').length === 2")
    choose(browser, "#count", "3")
    browser.wait("document.querySelectorAll('.best button').length === 6")
    best = browser.value("[...document.querySelectorAll('.best button')].map(button => button.firstChild.textContent)")
    browser.point(".best li:nth-child(2) button", click=True)
    assert shown(browser)[0] == best[1] != best[0]


def test_pointing_at_a_word_shows_its_weights(browser: Browser, client: Client) -> None:
    open_page(browser, client)
    browser.type(LINE)
    browser.wait("document.querySelectorAll('.words.target').length === 2")
    [answer] = client.post("/v1/translate", q=LINE, weights=True)[1]["translations"]
    weights = answer["weights"]["values"]
    browser.point(".words.target span")
    strongest = max(range(6), key=lambda k: weights[0][k])
    partners = browser.value("document.querySelector('.partners').textContent")
    word = LINE.split()[strongest]
    assert partners.startswith(f"{answer['text'].split()[0]}: {word} {weights[0][strongest]:.2f}")
    marked = "[...document.querySelectorAll('.words.source .partner')].map(word => word.textContent)"
    assert browser.value(marked) == [word]
    assert browser.value("document.querySelectorAll('.pair line').length") == sum(w >= 0.05 for w in weights[0])
    browser.point("h1")
    assert browser.value(marked) == [] and browser.value("document.querySelectorAll('.pair line').length") == 0
    browser.point(".words.source span:nth-of-type(2)")
    assert browser.value("document.querySelector('.partners').textContent").startswith("small: ")


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("İstanbul, İzmir two", ["İstanbul,", "İzmir", "two"], "İstanbul, İzmir two"),  # i̇ has two characters
        ("A cat  İl", ["a", "cat", "i̇l"], "a cat  i̇l"),  # in lower case, as the model has read it
        ("Zu\u00adcker ist süß", ["Zucker", "ist", "süß"], "Zucker ist süß"),  # without the soft hyphen
        ("我爱 two", ["我", "爱", "two"], "我爱 two"),
    ],
)
def test_words_are_shown_once_with_what_stands_between_them(
    text: str, labels: list[str], expected: str, browser: Browser, client: Client
) -> None:
    open_page(browser, client)
    browser.value(f"fillWords(globalThis.words = make('p'), {json.dumps(text)}, {json.dumps(labels)})")
    assert browser.value("words.textContent") == expected
    assert browser.value("[...words.querySelectorAll('span')].map(word => word.textContent)") == labels


def test_slots_colour_the_words_of_both_sides(browser: Browser, client: Client) -> None:
    open_page(browser, client)
    browser.type(LINE)
    browser.point("#slots", click=True)
    browser.wait("document.querySelectorAll('.slots button').length === 4")
    strips = "document.querySelectorAll('.words span[style*=gradient]').length"
    [answer] = client.post("/v1/translate", q=LINE, weights=True, slots=True)[1]["translations"]
    assert browser.value(strips) == sum(len(answer["weights"][side]) for side in ("source", "target"))
    shades = "[...document.querySelectorAll('.words.source')][0].querySelectorAll('span')"
    third = [row[2] for row in answer["slots"]["source"]]
    for click in (False, True):
        browser.point(".slots button:nth-child(3)", click=click)
        alphas = browser.value(f"[...{shades}].map(word => +/[\\d.]+(?=\\))/.exec(word.style.backgroundColor)?.[0])")
        assert alphas == pytest.approx([0.6 * weight / max(third) for weight in third], abs=0.01)
        browser.point("h1")
        assert (browser.value(strips) == 0) == click  # only a click keeps the slot
    choose(browser, "#model", "1")  # Bahdanau has no slots, and memory stands beside it
    browser.wait("document.querySelector('.slots').hidden && document.querySelectorAll('.words.target').length === 2")
    choose(browser, "#second", "")
    assert browser.value(
        "document.querySelector('#slots').parentNode.hidden && !document.querySelector('#slots').checked"
    )


def test_slots_that_no_word_uses_are_left_out(browser: Browser, client: Client) -> None:
    open_page(browser, client)
    choose(browser, "#model", "2")
    choose(browser, "#second", "")
    browser.type(f"{LINE}\na dog")
    browser.point("#slots", click=True)
    answers = client.post("/v1/translate", q=[LINE, "a dog"], model="stretchmemory")[1]["translations"]
    count = max(len(answer["source_tokens"]) for answer in answers) - 1  # one for each piece but </s>
    browser.wait(f"document.querySelectorAll('.slots button').length === {count}")
    last = browser.value("document.querySelector('.slots button:last-child').style.borderColor")
    words = "[...document.querySelectorAll('.words.target span')]"
    strips = browser.value(f"{words}.map(word => word.style.backgroundImage)")
    assert strips and all(last in strip for strip in strips)


def test_strips_show_what_each_slot_adds_to_the_weights_of_a_word(browser: Browser, client: Client) -> None:
    weights = {"source": ["a", "b"], "target": ["x", "y"], "values": [[1, 0], [0, 1]]}  # two sentences
    slots = {"source": [[0.5, 0.5, 0], [0.1, 0.3, 0]], "target": [[2, 1, 0], [3, 3, 0]]}
    answer = {"text": "x y", "cut": False, "log_prob": 0, "confidence": 1, "weights": weights, "slots": slots}
    open_page(browser, client)
    browser.value(f"panels[0].show(['a b'], [{json.dumps({**answer, 'source_words': [0, 1]})}])")
    words = "[...document.querySelector('.words.target').children]"
    strips = browser.value(f"{words}.map(word => word.style.backgroundImage)")
    ends = [[*map(float, re.findall(r"([\d.]+)%", strip))] for strip in strips]
    assert ends == [pytest.approx(each, abs=0.01) for each in ([0, 200 / 3, 200 / 3, 100], [0, 25, 25, 100])]


@pytest.mark.parametrize(
    ("content", "expected", "state"),
    [
        (b"one\n\n two \r\nthree", b"ONE\n\n TWO \r\nTHREE", "Done."),
        ("é\n" * 120, "É\n" * 120, "Done."),
        (b"a\ntoo long\n" + b"x" * 101 + b"\nb\n", b"A\n\n\nB\n", "could not be translated, and are empty: 2, 3"),
        (
            b"a\nendless\n",
            b"A\nENDLESS\n",
            "1 of the translations were cut at their length limit: 2",
        ),
        (b"\xff\xfe\n", None, "not a text file in UTF-8"),
        (b"", b"", "Done."),
    ],
)
def test_dropped_file_has_one_line_out_per_line_in(
    content: bytes | str, expected: bytes | str | None, state: str, browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "caption.en.txt"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    result = browser.downloads / "caption.en.de.txt"
    result.unlink(missing_ok=True)
    with serving(max_characters=100) as client:
        open_page(browser, client)
        browser.drop(file)
        browser.wait(f"document.querySelector('#state').textContent.includes({state!r})")
        if expected is not None:
            assert browser.value("document.querySelector('#download').download") == result.name
            wait_until(result.exists)
            assert result.read_bytes() == (expected.encode() if isinstance(expected, str) else expected)


def test_mistakes_have_messages_in_plain_words(browser: Browser) -> None:
    with serving(max_characters=100, keys=["secret"], translators={"a": Upper()}) as client:
        open_page(browser, client)
        browser.type("x")
        assert message(browser) == "This server needs an API key."
        browser.value("document.querySelector('#key').focus()")
        browser.type("wrong")
        browser.wait("document.querySelector('#message').textContent.includes('does not know this API key')")
        browser.value("document.querySelector('#key').value = ''")
        browser.type("secret")
        browser.wait("document.querySelectorAll('.words.target').length === 1")
        browser.value("document.querySelector('#text').focus()")
        browser.type("y" * 100)
        assert message(browser).startswith("A line has 101 characters, and this server takes at most 100")
        browser.value("document.querySelector('#text').value = 'endless'")
        browser.value("document.querySelector('#text').dispatchEvent(new Event('input'))")
        browser.wait("document.querySelector('.warning')?.textContent.startsWith('This translation was cut')")
        browser.value("document.querySelector('#text').value = 'too long'")
        browser.value("document.querySelector('#text').dispatchEvent(new Event('input'))")
        browser.wait("document.querySelector('#message').textContent.includes('a source of 9,999 pieces')")
    browser.type("z")  # the server has stopped
    browser.wait("document.querySelector('#message').textContent.includes('The server does not answer')")
    assert browser.value("document.querySelector('#text').value") == "too longz"
    assert not browser.value("document.querySelector('#retry').hidden")
