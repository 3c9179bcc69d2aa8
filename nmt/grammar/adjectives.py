"""Table of adjectives: English positive, comparative | German positive[/stem before endings], comparative | noun kinds.

``more`` as the English comparative means "more ADJECTIVE". ``-`` marks adjectives without a comparative.
"""

from __future__ import annotations

ADJECTIVES = """
    old older | alt älter | person animal thing clothing vehicle inside machine
    young younger | jung jünger | person animal
    big bigger | groß größer | animal thing food vehicle opening inside upon dish
    small smaller | klein kleiner | animal thing food vehicle opening inside upon dish clothing
    tired - | müde/müd - | person animal
    happy happier | glücklich glücklicher | person
    sad sadder | traurig trauriger | person text
    friendly friendlier | freundlich freundlicher | person
    strong stronger | stark stärker | person animal
    weak weaker | schwach schwächer | person animal
    clever cleverer | klug klüger | person animal
    lazy lazier | faul fauler | person animal
    diligent more | fleißig fleißiger | person
    brave braver | mutig mutiger | person animal
    rich richer | reich reicher | person
    poor poorer | arm ärmer | person
    famous more | berühmt berühmter | person text inside upon
    strict stricter | streng strenger | person
    polite more | höflich höflicher | person
    calm calmer | ruhig ruhiger | person beside
    hungry hungrier | hungrig hungriger | person animal
    sick - | krank - | person animal
    lonely lonelier | einsam einsamer | person
    honest more | ehrlich ehrlicher | person
    nervous more | nervös nervöser | person
    patient more | geduldig geduldiger | person
    curious more | neugierig neugieriger | person animal
    funny funnier | lustig lustiger | person text
    shy shyer | schüchtern schüchterner | person animal
    angry angrier | wütend wütender | person
    thin thinner | dünn dünner | person animal
    fat fatter | dick dicker | animal person
    beautiful more | schön schöner | person thing clothing inside upon beside vehicle text dish
    ugly uglier | hässlich hässlicher | thing clothing inside vehicle dish
    new newer | neu neuer | thing clothing text vehicle machine opening
    expensive more | teuer/teur teurer | thing clothing vehicle machine food drink dish
    cheap cheaper | billig billiger | thing clothing vehicle machine food drink dish
    heavy heavier | schwer schwerer | thing opening
    broken - | kaputt - | vehicle machine opening dish
    red - | rot - | thing clothing vehicle opening dish
    blue - | blau - | thing clothing vehicle opening dish
    green - | grün - | thing clothing vehicle opening dish
    yellow - | gelb - | thing clothing vehicle opening dish
    black - | schwarz - | clothing vehicle opening animal
    white - | weiß - | clothing opening animal dish
    brown - | braun - | clothing opening animal
    clean cleaner | sauber/sauber sauberer | clothing dish beside inside
    dirty dirtier | schmutzig schmutziger | clothing dish vehicle animal
    long longer | lang länger | text clothing upon
    short shorter | kurz kürzer | text clothing
    modern more | modern moderner | machine vehicle inside beside
    strange stranger | seltsam seltsamer | person thing text animal inside
    useful more | nützlich nützlicher | thing machine text
    empty - | leer - | opening inside vehicle dish
    full - | voll - | opening vehicle dish
    valuable more | wertvoll wertvoller | thing text dish
    fresh fresher | frisch frischer | food drink
    sweet sweeter | süß süßer | food drink
    hot hotter | heiß heißer | food drink
    cold colder | kalt kälter | food drink beside
    delicious more | lecker leckerer | food drink
    sour sourer | sauer/saur saurer | food drink
    dark darker | dunkel/dunkl dunkler | inside clothing
    dangerous more | gefährlich gefährlicher | animal upon beside machine
    important more | wichtig wichtiger | text person
    interesting more | interessant interessanter | text person inside
    boring more | langweilig langweiliger | text inside
    difficult more | schwierig schwieriger | text
    good better | gut besser | food drink text
    quiet quieter | still stiller | upon inside beside
    narrow narrower | schmal schmaler | upon opening
    wide wider | breit breiter | upon opening
"""
