"""Tables of words and fixed phrases, in English and German, which ``lexicon`` reads. A comment describes the rows."""

from __future__ import annotations

# Nouns by kind: English singular, plural | German gender, singular, genitive (only m and n), plural. The genitive of a
# feminine noun equals its nominative. A masculine genitive in -n marks weak declension (den Jungen). ``-`` as the
# English plural marks a mass noun (Milch).
NOUNS = {
    "person": """
        man men | m Mann Mannes Männer
        woman women | f Frau Frauen
        child children | n Kind Kindes Kinder
        boy boys | m Junge Jungen Jungen
        girl girls | n Mädchen Mädchens Mädchen
        teacher teachers | m Lehrer Lehrers Lehrer
        doctor doctors | m Arzt Arztes Ärzte
        nurse nurses | f Krankenschwester Krankenschwestern
        student students | m Student Studenten Studenten
        neighbour neighbours | m Nachbar Nachbarn Nachbarn
        friend friends | m Freund Freundes Freunde
        brother brothers | m Bruder Bruders Brüder
        sister sisters | f Schwester Schwestern
        mother mothers | f Mutter Mütter
        father fathers | m Vater Vaters Väter
        daughter daughters | f Tochter Töchter
        son sons | m Sohn Sohnes Söhne
        aunt aunts | f Tante Tanten
        uncle uncles | m Onkel Onkels Onkel
        grandmother grandmothers | f Großmutter Großmütter
        grandfather grandfathers | m Großvater Großvaters Großväter
        cook cooks | m Koch Kochs Köche
        baker bakers | m Bäcker Bäckers Bäcker
        farmer farmers | m Bauer Bauern Bauern
        policeman policemen | m Polizist Polizisten Polizisten
        judge judges | m Richter Richters Richter
        queen queens | f Königin Königinnen
        king kings | m König Königs Könige
        princess princesses | f Prinzessin Prinzessinnen
        actress actresses | f Schauspielerin Schauspielerinnen
        tourist tourists | m Tourist Touristen Touristen
        guest guests | m Gast Gastes Gäste
        thief thieves | m Dieb Diebes Diebe
        soldier soldiers | m Soldat Soldaten Soldaten
        baby babies | n Baby Babys Babys
        witch witches | f Hexe Hexen
    """,
    "animal": """
        dog dogs | m Hund Hundes Hunde
        cat cats | f Katze Katzen
        horse horses | n Pferd Pferdes Pferde
        bird birds | m Vogel Vogels Vögel
        cow cows | f Kuh Kühe
        pig pigs | n Schwein Schweins Schweine
        mouse mice | f Maus Mäuse
        bear bears | m Bär Bären Bären
        wolf wolves | m Wolf Wolfes Wölfe
        goat goats | f Ziege Ziegen
        rabbit rabbits | n Kaninchen Kaninchens Kaninchen
        duck ducks | f Ente Enten
        monkey monkeys | m Affe Affen Affen
        lion lions | m Löwe Löwen Löwen
        fox foxes | m Fuchs Fuchses Füchse
        donkey donkeys | m Esel Esels Esel
    """,
    "food": """
        apple apples | m Apfel Apfels Äpfel
        egg eggs | n Ei Eis Eier
        cake cakes | m Kuchen Kuchens Kuchen
        soup soups | f Suppe Suppen
        potato potatoes | f Kartoffel Kartoffeln
        tomato tomatoes | f Tomate Tomaten
        banana bananas | f Banane Bananen
        pear pears | f Birne Birnen
        carrot carrots | f Karotte Karotten
        sausage sausages | f Wurst Würste
        cookie cookies | m Keks Kekses Kekse
        salad salads | m Salat Salats Salate
        pancake pancakes | m Pfannkuchen Pfannkuchens Pfannkuchen
        strawberry strawberries | f Erdbeere Erdbeeren
    """,
    "drink": """
        coffee - | m Kaffee Kaffees -
        tea - | m Tee Tees -
        water - | n Wasser Wassers -
        milk - | f Milch -
        juice - | m Saft Saftes -
        beer - | n Bier Biers -
        wine - | m Wein Weins -
        lemonade - | f Limonade -
    """,
    "thing": """
        key keys | m Schlüssel Schlüssels Schlüssel
        ball balls | m Ball Balles Bälle
        knife knives | n Messer Messers Messer
        chair chairs | m Stuhl Stuhles Stühle
        table tables | m Tisch Tisches Tische
        clock clocks | f Uhr Uhren
        picture pictures | n Bild Bildes Bilder
        flower flowers | f Blume Blumen
        basket baskets | m Korb Korbes Körbe
        umbrella umbrellas | m Regenschirm Regenschirms Regenschirme
        guitar guitars | f Gitarre Gitarren
        mirror mirrors | m Spiegel Spiegels Spiegel
        doll dolls | f Puppe Puppen
        ring rings | m Ring Ringes Ringe
        candle candles | f Kerze Kerzen
        gift gifts | n Geschenk Geschenks Geschenke
        stone stones | m Stein Steines Steine
        blanket blankets | f Decke Decken
        ladder ladders | f Leiter Leitern
        wallet wallets | f Brieftasche Brieftaschen
    """,
    "dish": """
        glass glasses | n Glas Glases Gläser
        cup cups | f Tasse Tassen
        plate plates | m Teller Tellers Teller
        vase vases | f Vase Vasen
        bowl bowls | f Schüssel Schüsseln
    """,
    "machine": """
        lamp lamps | f Lampe Lampen
        radio radios | n Radio Radios Radios
        computer computers | m Computer Computers Computer
        camera cameras | f Kamera Kameras
        heater heaters | f Heizung Heizungen
        washing_machine washing_machines | f Waschmaschine Waschmaschinen
    """,
    "clothing": """
        hat hats | m Hut Hutes Hüte
        coat coats | m Mantel Mantels Mäntel
        shirt shirts | n Hemd Hemdes Hemden
        dress dresses | n Kleid Kleides Kleider
        jacket jackets | f Jacke Jacken
        shoe shoes | m Schuh Schuhs Schuhe
        scarf scarves | m Schal Schals Schals
        glove gloves | m Handschuh Handschuhs Handschuhe
        skirt skirts | m Rock Rockes Röcke
        ribbon ribbons | n Band Bandes Bänder
    """,
    "text": """
        book books | n Buch Buches Bücher
        letter letters | m Brief Briefes Briefe
        newspaper newspapers | f Zeitung Zeitungen
        song songs | n Lied Liedes Lieder
        poem poems | n Gedicht Gedichts Gedichte
        story stories | f Geschichte Geschichten
        contract contracts | m Vertrag Vertrags Verträge
        question questions | f Frage Fragen
        postcard postcards | f Postkarte Postkarten
        fairy_tale fairy_tales | n Märchen Märchens Märchen
    """,
    "vehicle": """
        car cars | n Auto Autos Autos
        bicycle bicycles | n Fahrrad Fahrrads Fahrräder
        train trains | m Zug Zuges Züge
        bus buses | m Bus Busses Busse
        ship ships | n Schiff Schiffes Schiffe
        boat boats | n Boot Bootes Boote
        plane planes | n Flugzeug Flugzeugs Flugzeuge
        tractor tractors | m Traktor Traktors Traktoren
    """,
    "opening": """
        door doors | f Tür Türen
        window windows | n Fenster Fensters Fenster
        box boxes | f Kiste Kisten
        suitcase suitcases | m Koffer Koffers Koffer
        bag bags | f Tasche Taschen
        cupboard cupboards | m Schrank Schrankes Schränke
        bottle bottles | f Flasche Flaschen
    """,
    # Places by the preposition that says where: in the garden, at the station, on the island.
    "inside": """
        garden gardens | m Garten Gartens Gärten
        kitchen kitchens | f Küche Küchen
        house houses | n Haus Hauses Häuser
        forest forests | m Wald Waldes Wälder
        cellar cellars | m Keller Kellers Keller
        church churches | f Kirche Kirchen
        museum museums | n Museum Museums Museen
        hotel hotels | n Hotel Hotels Hotels
        library libraries | f Bibliothek Bibliotheken
        school schools | f Schule Schulen
        office offices | n Büro Büros Büros
        park parks | m Park Parks Parks
        castle castles | n Schloss Schlosses Schlösser
        village villages | n Dorf Dorfes Dörfer
        town towns | f Stadt Städte
        living_room living_rooms | n Wohnzimmer Wohnzimmers Wohnzimmer
        hospital hospitals | n Krankenhaus Krankenhauses Krankenhäuser
    """,
    "beside": """
        station stations | m Bahnhof Bahnhofs Bahnhöfe
        airport airports | m Flughafen Flughafens Flughäfen
        river rivers | m Fluss Flusses Flüsse
        lake lakes | m See Sees Seen
        beach beaches | m Strand Strandes Strände
        border borders | f Grenze Grenzen
        gate gates | n Tor Tores Tore
    """,
    "upon": """
        bridge bridges | f Brücke Brücken
        island islands | f Insel Inseln
        mountain mountains | m Berg Berges Berge
        meadow meadows | f Wiese Wiesen
        roof roofs | n Dach Daches Dächer
        street streets | f Straße Straßen
        field fields | n Feld Feldes Felder
    """,
}

# Adjectives: English positive, comparative | German positive[/stem before endings], comparative | noun kinds. ``more``
# as the English comparative means "more ADJECTIVE". ``-`` marks adjectives without a comparative.
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

# Verbs: English forms | German forms | noun kinds of the subject | frames.
#
# English: base [past [participle]]. ``+`` precedes a particle that a pronoun can come before (pick him up), ``_`` any
# other particle (look for him). German: infinitive, third person, past, participle; ``prefix+`` marks a separable
# prefix, a final ``*`` a perfect with ``sein``.
#
# Frames: ``-`` no object; ``acc KINDS``; ``dat KINDS``; ``both KINDS KINDS`` dative and accusative, English with or
# without ``to``; ``to KINDS KINDS`` the same, English always with ``to``; ``for/auf/acc KINDS`` a prepositional object;
# ``place`` where something is; ``goal`` where it goes; ``that``, ``whether``, ``infinitive`` a clause.
VERBS = """
    sleep slept | schlafen schläft schlief geschlafen | person animal | -
    laugh | lachen lacht lachte gelacht | person | - ; about/über/acc text person
    smile | lächeln lächelt lächelte gelächelt | person | -
    cry | weinen weint weinte geweint | person | -
    work | arbeiten arbeitet arbeitete gearbeitet | person | - ; for/für/acc person ; with/mit/dat person machine
    dance | tanzen tanzt tanzte getanzt | person | - ; with/mit/dat person
    sing sang sung | singen singt sang gesungen | person | -
    swim swam swum | schwimmen schwimmt schwamm geschwommen * | person animal | -
    cook | kochen kocht kochte gekocht | person | - ; for/für/acc person
    scream | schreien schreit schrie geschrien | person | -
    whisper | flüstern flüstert flüsterte geflüstert | person | -
    hesitate | zögern zögert zögerte gezögert | person | -
    disappear | verschwinden verschwindet verschwand verschwunden * | person animal | -
    hike | wandern wandert wanderte gewandert * | person | -
    jump | springen springt sprang gesprungen * | person animal | -
    wake_up woke woken | auf+wachen wacht wachte gewacht * | person animal | -
    get_up got | auf+stehen steht stand gestanden * | person | -
    fall_asleep fell fallen | ein+schlafen schläft schlief geschlafen * | person animal | -
    arrive | an+kommen kommt kam gekommen * | person vehicle | -
    depart | ab+fahren fährt fuhr gefahren * | vehicle | -
    go_out went gone | aus+gehen geht ging gegangen * | person | -
    come_back came come | zurück+kommen kommt kam gekommen * | person animal | -
    run_away ran run | weg+laufen läuft lief gelaufen * | person animal | -
    give_up gave given | auf+geben gibt gab gegeben | person | -
    see saw seen | sehen sieht sah gesehen | person animal | acc person animal inside upon vehicle
    hear heard | hören hört hörte gehört | person animal | acc person animal text
    find found | finden findet fand gefunden | person animal | acc person animal thing opening text clothing
    buy bought | kaufen kauft kaufte gekauft | person | acc food thing text vehicle clothing machine dish
    sell sold | verkaufen verkauft verkaufte verkauft | person | acc food thing text vehicle clothing machine dish
    eat ate eaten | essen isst aß gegessen | person | acc food
    drink drank drunk | trinken trinkt trank getrunken | person | acc drink
    order | bestellen bestellt bestellte bestellt | person | acc food drink
    love | lieben liebt liebte geliebt | person | acc person animal text upon
    hate | hassen hasst hasste gehasst | person | acc person animal text
    visit | besuchen besucht besuchte besucht | person | acc person inside
    carry | tragen trägt trug getragen | person | acc thing opening dish
    look_for looked | suchen sucht suchte gesucht | person animal | acc person animal thing clothing
    lose lost | verlieren verliert verlor verloren | person | acc thing clothing text
    forget forgot forgotten | vergessen vergisst vergaß vergessen | person | acc person thing text ; that ; infinitive
    open | öffnen öffnet öffnete geöffnet | person | acc opening
    close | schließen schließt schloss geschlossen | person | acc opening
    repair | reparieren repariert reparierte repariert | person | acc vehicle machine
    wash | waschen wäscht wusch gewaschen | person | acc clothing vehicle dish
    write wrote written | schreiben schreibt schrieb geschrieben | person | acc text
    sign | unterschreiben unterschreibt unterschrieb unterschrieben | person | acc text
    understand understood | verstehen versteht verstand verstanden | person | acc person text
    ask | fragen fragt fragte gefragt | person | acc person ; whether
    know knew known | kennen kennt kannte gekannt | person | acc person text
    meet met | treffen trifft traf getroffen | person | acc person
    greet | grüßen grüßt grüßte gegrüßt | person | acc person
    admire | bewundern bewundert bewunderte bewundert | person | acc person animal text clothing
    praise | loben lobt lobte gelobt | person | acc person
    need | brauchen braucht brauchte gebraucht | person | acc person thing machine clothing
    steal stole stolen | stehlen stiehlt stahl gestohlen | person animal | acc thing food clothing
    break broke broken | zerbrechen zerbricht zerbrach zerbrochen | person | acc dish
    hide hid hidden | verstecken versteckt versteckte versteckt | person | acc thing clothing text
    catch caught | fangen fängt fing gefangen | person animal | acc animal
    feed fed | füttern füttert fütterte gefüttert | person | acc animal
    describe | beschreiben beschreibt beschrieb beschrieben | person | acc person animal inside
    draw drew drawn | zeichnen zeichnet zeichnete gezeichnet | person | acc person animal inside thing
    collect | sammeln sammelt sammelte gesammelt | person | acc thing text dish
    build built | bauen baut baute gebaut | person | acc inside vehicle
    paint | malen malt malte gemalt | person | acc person animal upon
    choose chose chosen | wählen wählt wählte gewählt | person | acc food clothing text
    interrupt | unterbrechen unterbricht unterbrach unterbrochen | person | acc person
    call | an+rufen ruft rief gerufen | person | acc person
    invite | ein+laden lädt lud geladen | person | acc person
    pick+up picked | ab+holen holt holte geholt | person | acc person
    turn+off turned | aus+schalten schaltet schaltete geschaltet | person | acc machine
    turn+on turned | ein+schalten schaltet schaltete geschaltet | person | acc machine
    take+off took taken | aus+ziehen zieht zog gezogen | person | acc clothing
    try+on tried | an+probieren probiert probierte probiert | person | acc clothing
    take+along took taken | mit+nehmen nimmt nahm genommen | person | acc person animal thing
    bring+back brought | zurück+bringen bringt brachte gebracht | person | acc thing text dish
    throw+away threw thrown | weg+werfen wirft warf geworfen | person | acc thing food clothing text
    look_at looked | an+sehen sieht sah gesehen | person animal | acc person animal thing
    lock | ab+schließen schließt schloss geschlossen | person | acc opening
    tidy+up tidied | auf+räumen räumt räumte geräumt | person | acc inside
    help | helfen hilft half geholfen | person | dat person animal
    thank | danken dankt dankte gedankt | person | dat person
    trust | vertrauen vertraut vertraute vertraut | person animal | dat person
    follow | folgen folgt folgte gefolgt * | person animal | dat person animal vehicle
    answer | antworten antwortet antwortete geantwortet | person | dat person
    forgive forgave forgiven | verzeihen verzeiht verzieh verziehen | person | dat person
    listen_to listened | zu+hören hört hörte gehört | person | dat person
    watch | zu+sehen sieht sah gesehen | person animal | dat person animal
    obey | gehorchen gehorcht gehorchte gehorcht | person animal | dat person
    give gave given | geben gibt gab gegeben | person | both person,animal food,thing,dish
    show showed shown | zeigen zeigt zeigte gezeigt | person | both person thing,clothing,text,inside
    send sent | schicken schickt schickte geschickt | person | both person text,thing,clothing
    bring brought | bringen bringt brachte gebracht | person | both person food,thing,text,dish
    lend lent | leihen leiht lieh geliehen | person | both person thing,text,vehicle,clothing
    offer | an+bieten bietet bot geboten | person | both person food,drink,thing
    explain | erklären erklärt erklärte erklärt | person | to person text,machine ; that
    recommend | empfehlen empfiehlt empfahl empfohlen | person | to person food,drink,text
    return | zurück+geben gibt gab gegeben | person | to person thing,text,clothing
    wait | warten wartet wartete gewartet | person animal | - ; for/auf/acc person vehicle
    think thought | denken denkt dachte gedacht | person | of/an/acc person animal text ; that
    dream dreamt | träumen träumt träumte geträumt | person | - ; of/von/dat person animal upon food
    talk | sprechen spricht sprach gesprochen | person | about/über/acc person animal text ; with/mit/dat person
    play | spielen spielt spielte gespielt | person animal | - ; with/mit/dat person animal
    fight fought | kämpfen kämpft kämpfte gekämpft | person animal | for/um/acc thing food ; against/gegen/acc person animal
    argue | streiten streitet stritt gestritten | person | - ; with/mit/dat person ; about/über/acc text
    warn | warnen warnt warnte gewarnt | person | acc person
    go went gone | gehen geht ging gegangen * | person | goal
    drive drove driven | fahren fährt fuhr gefahren * | person | goal
    run ran run | laufen läuft lief gelaufen * | person animal | goal
    travel travelled | reisen reist reiste gereist * | person | goal
    hurry | eilen eilt eilte geeilt * | person | goal
    live | wohnen wohnt wohnte gewohnt | person | place
    sit sat | sitzen sitzt saß gesessen | person animal | place
    stand stood | stehen steht stand gestanden | person animal vehicle | place
    stay | bleiben bleibt blieb geblieben * | person animal | place
    say said | sagen sagt sagte gesagt | person | that
    believe | glauben glaubt glaubte geglaubt | person | dat person ; that
    hope | hoffen hofft hoffte gehofft | person | that ; infinitive
    claim | behaupten behauptet behauptete behauptet | person | that
    notice | merken merkt merkte gemerkt | person | that
    know knew known | wissen weiß wusste gewusst | person | that ; whether
    try | versuchen versucht versuchte versucht | person | infinitive
    begin began begun | an+fangen fängt fing gefangen | person animal | infinitive
    promise | versprechen verspricht versprach versprochen | person | that ; infinitive
    decide | beschließen beschließt beschloss beschlossen | person | infinitive
    learn learnt | lernen lernt lernte gelernt | person | infinitive
    rain | regnen regnet regnete geregnet | weather | -
    snow | schneien schneit schneite geschneit | weather | -
"""

# Adverbs and fixed phrases: English | German | links, if they are not word by word in order.
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
