"""Text that belongs to no language, such as fields, addresses and signs: a translation keeps it as it is."""

from __future__ import annotations

import re

from nmt.errors import UserError
from nmt.settings.arguments import brief
from nmt.text.writing import UNSPACED, LazyPattern

ELEMENT = "[\U000f0000-\U000fffff]"
"""Characters for private use, each of which stands for an element of HTML."""


def _nested(depth: int) -> str:
    """Return a pattern for a text in braces with at most ``depth`` levels of braces within it."""
    inner = f"|{_nested(depth - 1)}" if depth else ""
    return rf"\{{(?:[^{{}}]{inner}){{0,500}}+\}}"


# No pattern reads far ahead from every start, so hostile lines take linear time.
_ADDRESSES = r"""
    (?<![a-zA-Z0-9_])(?:[a-zA-Z][a-zA-Z0-9+.-]{1,20}://|www\.|mailto:|tel:)[^\s<>"'`AFTER]*[\w/]
  | (?<![.+-])(?<!LETTER)(?:[.+-]|LETTER){1,64}@(?:-|LETTER){1,64}(?:\.(?:-|LETTER){1,64})+  # an e-mail address
  | (?<![\w.@-])(?:[a-zA-Z0-9-]{1,63}\.){1,5}(?:com|org|net|edu|gov|io|info|eu)(?![\w-])(?:/[\w./-]{0,200}\w/?)?
  | (?<!\w)[a-zA-Z]:\\(?:[^\s<>"'`|]{0,200}\w)?                       # paths
  | (?<!\w)\\\\[\w.$-]{1,60}(?:\\[\w$-]+(?:\.[\w$-]+)*)+
  | (?<![\w./~<>}\])])(?:~|\.{1,2})?(?:/(?:[\w+@-]|\.(?=\w)){1,200}+){1,50}+/?(?![\w/])
  | (?<![\w./~@-])(?:[\w+-]{1,60}/){1,20}[\w+-]{1,60}(?:\.[a-zA-Z0-9]{1,5}){1,3}(?!\w)
  | (?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?:[:/]\d{1,5})?(?!\.?\w)        # of the Internet
  | (?<!\w)[0-9a-fA-F]{2,8}(?:[:-][0-9a-fA-F]{2,12}){4,15}(?!\w)      # of networks, and UUIDs
  | (?<![\w@\#/&])[@\#][^\W\d]\w{0,100}
"""
_FIELDS = r"""
    [$\#%@]NESTED | \{\{[^{}]{0,200}\}\} | \{\{\{[^{}]{0,200}\}\}\} | \{[%\#][^{}]{0,200}?[%\#]\}
  | \{\s?[\w.$@*\[\]"'-]{0,100}\s?(?:[,:!|?](?:[^{}]|NESTED){0,500}+)?\}  # {name:>10}, {n, plural, one {# dog} …}
  | <%[^<>]{0,200}%> | <\?[^<>]{0,200}\?> | </?(?:[a-zA-Z][^<>]{0,300}|\d{1,5}\s?/?)>
  | \[\[[^\[\]]{1,200}\]\] | \[[A-Z0-9_.:-]{0,40}[0-9_][A-Z0-9_.:-]{0,40}\]  # Weblate sends [X7X] for a field
  | \[/?(?:b|i|u|s|url|img|code|quote|size|color)(?:=[^\[\]\s]{0,200})?\]
  | (?<!\w)\$[a-zA-Z_]\w{0,100}\$? | (?<![\w:]):[a-zA-Z_][\w+-]{1,50}:? | (?<![\w!])![a-z]\w{2,50}(?!\w)
  | `[^`]{1,500}` | &(?:[a-zA-Z]{1,30}|\#\d{1,7}|\#x[0-9a-fA-F]{1,6});
  | \\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrt0"'\\])
  # options and names of programs
  | (?<!\S)--[a-zA-Z][\w-]{1,60} | (?<!\w)[^\W_]{0,50}_\w{1,100}(?:\.[a-z0-9]{1,5}(?!\w))?
"""
_FORMATS = r"""
    (?<!\d)(?:(?<!\d\s)|(?=%(?:[(<]|[a-zA-Z@](?!\w))))%(?:                     # not the percent sign of 100 %ig
        [a-zA-Z_]\w{0,50}% | L?\d{1,2}(?![\d$]|\.\d|[a-zA-Z]{1,3}\b)  # %NAME%, Qt
      | (?:\(\w{1,100}\)|<\w{1,100}>|\d{1,3}\$)?[-+\#0']{0,5}(?:\d{1,4}|\*(?:\d{1,3}\$)?)?(?:\.(?:\d{1,4}|\*)?)?
        (?:hh?|ll?|I64|I32|[Lqjzt])?[a-zA-Z@]                         # printf, strftime, Objective-C
      | %)
"""
_SIGNS = r"""
    (?:[\U0001f1e6-\U0001f1ff]{2} | [0-9\#*]\ufe0f?\u20e3
      | (?:[\u00a9\u00ae\u2020-\u2023\u203b\u2043\u2100-\u2101\u2103-\u2109\u2114\u2116-\u2118\u211e-\u2123]
          |[\u2190-\u2211\u2213-\u2bff\u3012-\u3013\u3020\u3030\u303d\u3297\u3299\U0001f000-\U0001fbff])
        [\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]?[\U000e0020-\U000e007f]{0,10})
    (?:\u200d[\u2190-\u2bff\U0001f000-\U0001fbff][\ufe0f\U0001f3fb-\U0001f3ff]?){0,8}
  | (?<![\w)])[:;]-[()DPpOo/|](?!\w) | (?<![\w:;])[:;][)(DPp](?!\w)
"""
_NUMBERS = r"""
    \+\d{1,3}(?:[ /.-]\(?\d{1,8}\)?){1,8}(?![.,]?\w)                      # telephone numbers
  | (?<![\w.,])(?:[-+\u2212\u00b1~<>\u2248][ ]?)?(?:(?:[$\u20ac\u00a3\u00a5]|EUR|USD|GBP|CHF)[ ]?)?[-+\u2212]?
    (?:\(\d{1,5}\)[ -]?)?(?:\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3}(?!\d))+|\d+)
    (?:[.,:'\u2019/\u066b\u066c\u2013T+-]\d+)*+Z?                         # 1.5x is a word: 1 is no part of it
    (?:[eE][-+]?\d+)?[\u00bc-\u00be\u2150-\u215e]?
    (?:[ \u00a0\u2009\u202f]?(?:[%$](?![\w(<{@])|[\u2030\u20ac\u00a3\u00a5]|\u00b0[CF]?
        |(?:EUR|USD|GBP|CHF|km/h|mph|min|px|pt|dpi|h|[numcdkMGT\u00b5]?(?:m|g|s|l|L|Hz|W|V|A|B|J|N|Pa|bit))[\u00b2\u00b3]?(?![\w'\u2019])))?
    (?!\w)
"""


_AFTER_ADDRESS = r"\u3001-\u3003\u3008-\u301f\uff01-\uff1f"  # marks of Chinese and Japanese, which need no spaces
# Each placeholder has one of these, and few lines have: this search takes a tenth of the time of the full one.
_HINT = re.compile(r"[@#$%&{\[</\\:;_`!\u00a9\u00ae]|--|\.\w|[\da-fA-F]-")
_SIGN = "\u2020"  # as are many characters behind it, whose class would take 2 ms to compile


class KeptText:
    """Finds the text of a line that a translation keeps."""

    def __init__(self, pattern: str | None = None, *, placeholders: bool, numbers: bool, elements: bool) -> None:
        """Combine the kinds of text. ``pattern`` is a regular expression of the user, which comes first.

        Raises UserError for a wrong one.
        """
        try:
            re.compile(f"(?:{pattern})|(?P<number>x)(?P<word>x)")
        except re.error as error:
            raise UserError(f"search.keep={brief(pattern)}: not a regular expression: {error}; change it") from None
        parts = [f"(?:{pattern})"] if pattern else []
        parts += [ELEMENT] if elements else []
        for kind in (_ADDRESSES, _FIELDS, _FORMATS, _SIGNS) if placeholders else ():
            kind = kind.replace("NESTED", _nested(3)).replace("LETTER", rf"[^\W{UNSPACED.pattern[1:-1]}]")
            parts.append(f"(?x:{kind.replace('AFTER', _AFTER_ADDRESS)})")
        # A number that a mark joins to a word belongs to it, as in C++11 and x86-64.
        word = r"(?P<word>(?<!\w)[^\W\d_]\w{0,50}+[-+#]{1,9}\d[\w.,:/+#-]*)"
        parts += [f"(?P<number>(?x:{_NUMBERS}))", word] if numbers else []
        self._pattern = LazyPattern("|".join(parts) or "(?!)")
        self._needs_hint = not pattern and not numbers

    def matches(self, line: str) -> list[re.Match[str]]:
        """Return the matches in order; that of a number has the ``lastgroup`` number."""
        if self._needs_hint and max(line, default="") < _SIGN and not _HINT.search(line):
            return []
        return [match for match in self._pattern.finditer(line) if match[0] and match.lastgroup != "word"]
