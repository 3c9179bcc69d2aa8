"""Tables of nouns and adjectives.

Nouns by kind: English singular, plural | German gender, singular, genitive (only m and n), plural. The genitive of a
feminine noun equals its nominative. A masculine genitive in -n marks weak declension (den Jungen). ``-`` as the English
plural marks a mass noun (Milch).

Adjectives: English positive, comparative | German positive[/stem before endings], comparative | noun kinds. ``more`` as
the English comparative means "more ADJECTIVE". ``-`` marks adjectives without a comparative.
"""

from __future__ import annotations

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
