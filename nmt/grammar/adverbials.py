"""Tables of adverbs and fixed phrases: English | German | links, if they are not word by word in order."""

from __future__ import annotations

MANNER = """
    quickly | schnell
    slowly | langsam
    loudly | laut
    quietly | leise
    carefully | vorsichtig
    happily | fröhlich
    secretly | heimlich
    patiently | geduldig
    alone | allein
    politely | höflich
    badly | schlecht
    together with Peter | zusammen mit Peter
    together with Anna | zusammen mit Anna
"""

# Before the verb in English, in the middle field in German.
FREQUENCY = """
    always | immer
    often | oft
    sometimes | manchmal
    never | nie
    rarely | selten
    usually | gewöhnlich
    probably | wahrscheinlich
    really | wirklich
    suddenly | plötzlich
    finally | endlich
"""

# First in the sentence in both languages.
OPENING = """
    unfortunately | leider
    fortunately | glücklicherweise
    perhaps | vielleicht
    therefore | deshalb
    of course | natürlich | 0-0 1-0
    then | dann
"""

TIME = {
    "any": """
        today | heute
        this evening | heute Abend
        this week | diese Woche
        this year | dieses Jahr
        on Monday | am Montag
        on Friday | am Freitag
        on Sunday | am Sonntag
        in summer | im Sommer
        in winter | im Winter
        at night | in der Nacht | 0-0 1-2
        in the morning | am Morgen | 0-0 1-0 2-1
        in the evening | am Abend | 0-0 1-0 2-1
    """,
    "present": """
        now | jetzt
        every day | jeden Tag
        every week | jede Woche
        every year | jedes Jahr
        every evening | jeden Abend
    """,
    "past": """
        yesterday | gestern
        last week | letzte Woche
        last month | letzten Monat
        last year | letztes Jahr
        yesterday evening | gestern Abend
        NUMBER days ago | vor NUMBER Tagen | 0-1 1-2 2-0
        NUMBER weeks ago | vor NUMBER Wochen | 0-1 1-2 2-0
        NUMBER months ago | vor NUMBER Monaten | 0-1 1-2 2-0
    """,
    "future": """
        tomorrow | morgen
        soon | bald
        next week | nächste Woche
        next month | nächsten Monat
        next year | nächstes Jahr
        tomorrow evening | morgen Abend
        in NUMBER days | in NUMBER Tagen
        in NUMBER weeks | in NUMBER Wochen
    """,
    "perfect": """
        today | heute
        this week | diese Woche
        this year | dieses Jahr
        already | schon
        NUMBER times | NUMBER Mal
    """,
}

HOURS = "at NUMBER o'clock | um NUMBER Uhr"

NUMBERS = """
    two | zwei
    three | drei
    four | vier
    five | fünf
    six | sechs
    seven | sieben
    eight | acht
    nine | neun
    ten | zehn
    eleven | elf
    twelve | zwölf
"""

DEGREES = """
    very | sehr
    too | zu
    quite | ziemlich
    so | so
"""

NAMES = {
    "m": "Peter Thomas Lukas Felix Jonas Martin Paul David Simon Tobias Florian Moritz",
    "f": "Anna Maria Julia Laura Sophie Emma Clara Lena Hannah Katharina Eva Charlotte",
}

CITIES = """
    Berlin | Berlin
    Hamburg | Hamburg
    Munich | München
    Cologne | Köln
    Vienna | Wien
    Zurich | Zürich
    Frankfurt | Frankfurt
    Dresden | Dresden
    Paris | Paris
    Rome | Rom
    London | London
    Prague | Prag
    Nuremberg | Nürnberg
    Brussels | Brüssel
"""
