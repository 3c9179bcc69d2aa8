"""Table of verbs: English forms | German forms | noun kinds of the subject | frames.

English: base [past [participle]]. ``+`` precedes a particle that a pronoun can come before (pick him up), ``_`` any
other particle (look for him). German: infinitive, third person, past, participle; ``prefix+`` marks a separable prefix,
a final ``*`` a perfect with ``sein``.

Frames: ``-`` no object; ``acc KINDS``; ``dat KINDS``; ``both KINDS KINDS`` dative and accusative, English with or
without ``to``; ``to KINDS KINDS`` the same, English always with ``to``; ``for/auf/acc KINDS`` a prepositional object;
``place`` where something is; ``goal`` where it goes; ``that``, ``whether``, ``infinitive`` a clause.
"""

from __future__ import annotations

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
