"""Which names are one entity and which name is several, decided from documents written out here."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from easy_knowledge_retriever.operations.merging import Identity
from easy_knowledge_retriever.operations.name_rows import recounted, with_rows
from easy_knowledge_retriever.operations.naming import naming_of
from easy_knowledge_retriever.operations.resolution import Identifier, Names
from easy_knowledge_retriever.types import Chunk, EntityMention, Extraction, NameRow, Naming


def naming(*texts: tuple[str, Mapping[str, str]]) -> Naming:
    """How a document uses its names that says these texts, one a chunk, each with the names in it and their types."""
    chunks, extractions = [], []
    for number, (text, names) in enumerate(texts):
        chunks.append(Chunk(f"c{number}", "d", "d", "v", number, text, 0, len(text)))
        mentions = tuple(EntityMention(name, kind) for name, kind in names.items())
        extractions.append(Extraction(f"c{number}", "d", "llm", mentions))
    return naming_of(chunks, extractions)


def test_a_name_may_end_with_a_blank() -> None:
    assert set(naming(("Wide Water \n is sung.", {"Wide Water ": "Work"})).uses) == {"wide water"}


def names_of(*documents: Naming) -> Names:
    """What these documents together say."""
    names = Names({})
    for document in documents:
        names = names.changed(recounted(names.groups, Naming(), document))
    return names


def read(*documents: tuple[str, Mapping[str, str]]) -> Names:
    """What documents of one text each say."""
    return names_of(*(naming(document) for document in documents))


MERGED = [
    ("The Beatles sang.", "The Beatles", "Organization", "Some Beatles sang.", "Beatles", "Organization", "article"),
    ("all of The Beatles sang.", "The Beatles", "", "Some Beatles sang.", "Beatles", "", "article"),
    ("in La Sorbonne", "La Sorbonne", "Organization", "en Sorbonne", "Sorbonne", "Organization", "article"),
    ("chez L'Oréal", "L'Oréal", "", "chez Oréal", "Oréal", "", "article"),
    ("the The United States", "The United States", "", "in United States", "United States", "Location", "article"),
    ("Dr. John Smith", "Dr. John Smith", "Person", "John Smith", "John Smith", "Person", "honorific"),
    ("Sir Isaac Newton", "Sir Isaac Newton", "", "Isaac Newton", "Isaac Newton", "Person", "honorific"),
    ("Mme Marie Curie", "Mme Marie Curie", "", "Marie Curie", "Marie Curie", "", "honorific"),
    ("M. Jean Dupont", "M. Jean Dupont", "", "Jean Dupont", "Jean Dupont", "Person", "honorific"),
    ("e-mail", "e-mail", "", "email", "email", "", "spacing"),
    ("in New-York", "New-York", "Location", "in New York", "New York", "Location", "spacing"),
    ("the U.S.", "U.S.", "Location", "the US", "US", "Organization", "spacing"),
    ("J. R. R. Tolkien", "J. R. R. Tolkien", "Person", "J.R.R. Tolkien", "J.R.R. Tolkien", "Person", "spacing"),
    ("a data base", "data base", "", "a database", "database", "Concept", "spacing"),
    ("Saint-Étienne", "Saint-Étienne", "", "Saint Etienne", "Saint Etienne", "", "spacing"),
    ("neural networks learn", "Neural Networks", "Concept", "a neural network", "Neural Network", "Method", "plural"),
    ("neural networks learn", "neural networks", "", "a neural network", "neural network", "", "plural"),
    ("Transformers", "Transformers", "Method", "Transformer", "Transformer", "Method", "plural"),
    ("some transformers", "Transformers", "", "one transformer", "Transformer", "", "plural"),
    ("many LLMs", "LLMs", "", "an LLM", "LLM", "Concept", "plural"),
    ("des réseaux neuronaux", "réseaux neuronaux", "", "un réseau neuronal", "réseau neuronal", "", "plural"),
    ("les systèmes d'IA", "systèmes d'IA", "", "un système d'IA", "système d'IA", "Concept", "plural"),
    ("the solar panels", "Solar Panels", "Artifact", "the solar panel", "Solar Panel", "Artifact", "plural"),
    ("European Union (EU)", "European Union (EU)", "", "European Union", "European Union", "", "acronym"),
]
APART = [
    ("in Paris", "Paris", "Location", "un pari", "pari", "Concept"),
    ("they saw Paris", "Paris", "", "un pari", "pari", ""),
    ("on Mars", "Mars", "NaturalObject", "in Mar", "Mar", ""),
    ("with James", "James", "Person", "Jame", "Jame", "Person"),
    ("the Rolling Stones sang", "Rolling Stones", "", "in Rolling Stone", "Rolling Stone", ""),
    ("see Star Wars", "Star Wars", "Content", "a star war", "star war", ""),
    ("the United Nations", "United Nations", "Organization", "united nation", "united nation", ""),
    ("the Great Lakes", "Great Lakes", "Location", "a great lake", "great lake", "Location"),
    ("use Windows", "Windows", "Artifact", "a window", "window", "Artifact"),
    ("by Apple", "Apple", "Organization", "two apples", "apples", "NaturalObject"),
    ("over HTTPS", "HTTPS", "", "over HTTP", "HTTP", ""),
    ("see The Office", "The Office", "Content", "an office", "office", "Location"),
    ("read Le Monde", "Le Monde", "", "dans le monde", "monde", ""),
    ("in La Victoria", "La Victoria", "", "in Victoria", "Victoria", ""),
    ("of The Who", "The Who", "", "the WHO", "WHO", ""),
    ("Dr. House", "Dr. House", "Person", "a house", "house", ""),
    ("Captain Bird Lake", "Captain Bird Lake", "Person", "Bird Lake", "Bird Lake", "Location"),
    ("with Mo", "Mo", "Person", "the M.O. of it", "M.O.", ""),
    ("Jordan Ames", "Jordan-Ames", "Person", "Jordan Ames", "Jordan Ames", "Organization"),
    ("Sir John Smith (1580-1631)", "Sir John Smith", "Person", "John Smith (1938-1994)", "John Smith", "Person"),
    ("see Article 1", "Article 1", "", "see Articles 1", "Articles 1", ""),
    ("Louis XIV", "Louis XIV", "Person", "Louis XV", "Louis XV", "Person"),
]


@pytest.mark.parametrize(("text", "variant", "kind", "other_text", "head", "head_kind", "how"), MERGED)
def test_variants_are_one_entity(
    text: str, variant: str, kind: str, other_text: str, head: str, head_kind: str, how: str
) -> None:
    names = read((text, {variant: kind}), (other_text, {head: head_kind}))
    identify = Identifier(names, {})
    assert identify("d", variant) == identify("d", head)
    kinds = {names.fold(key).kind for key in names.keys()}
    assert kinds == {None, how}


@pytest.mark.parametrize(("text", "one", "kind", "other_text", "other", "other_kind"), APART)
def test_names_that_only_look_alike_stay_apart(
    text: str, one: str, kind: str, other_text: str, other: str, other_kind: str
) -> None:
    names = read((text, {one: kind}), (other_text, {other: other_kind}))
    identify = Identifier(names, {})
    assert identify("d", one) != identify("d", other)


def test_an_acronym_is_what_a_chunk_says_it_stands_for() -> None:
    stated = ("The European Union (EU) met.", {"European Union": "Organization", "EU": "Organization"})
    unsaid = ("The EU met the European Union.", {"European Union": "Organization", "EU": "Organization"})
    assert read(stated).fold("eu") == ("european union", "acronym")
    assert read(unsaid).fold("eu") == ("eu", None)
    turned = ("The EU (European Union) met.", {"European Union": "", "EU": ""})
    assert read(turned).fold("eu") == ("european union", "acronym")
    assert read(stated, ("E.U. law", {"E.U.": ""})).fold("e.u").key == "european union"


def test_the_name_may_be_a_variant_of_the_one_that_is_stated() -> None:
    names = read(
        ("Large language models (LLMs) write.", {"Large language models": "Concept", "LLMs": "Concept"}),
        ("An LLM is a large language model.", {"LLM": "Concept", "large language model": "Concept"}),
    )
    assert {names.fold(key).key for key in names.keys()} == {"large language model"}


def test_an_acronym_of_two_names_is_none_of_them() -> None:
    union = ("The European Union (EU) met.", {"European Union": "", "EU": ""})
    university = ("The European University (EU) taught.", {"European University": "", "EU": ""})
    assert read(union, university).fold("eu") == ("eu", None)
    again = ("The The European Union (EU) met.", {"The European Union": "", "EU": ""})
    assert read(union, again).fold("eu").key == "european union"


def test_an_acronym_is_no_person_if_its_name_is_something_else() -> None:
    names = read(("The American Legion (AL) met.", {"American Legion": "Organization"}), ("A man called AL.", {"AL": "Person"}))
    assert names.fold("al") == ("al", None)


def test_a_name_of_a_person_and_of_something_else_is_two_entities() -> None:
    person, planet = naming(("Mercury", {"Mercury": "Person"})), naming(("Mercury", {"Mercury": "NaturalObject"}))
    vague = naming(("Mercury", {"Mercury": "Concept"}))
    identify = Identifier(names_of(person, planet, vague), {"a": person.uses, "b": planet.uses, "c": vague.uses})
    assert identify("a", "Mercury") == Identity("mercury (person)", "Person")
    assert identify("b", "Mercury") == identify("c", "Mercury") == identify("unknown", "MERCURY") == Identity("mercury", "")
    assert identify("a", "Mercury").shown("Mercury") == "Mercury (Person)"
    names = names_of(person, person, planet)
    assert names.entities("mercury") == ("mercury", "mercury (thing)")


def test_a_slip_of_the_reader_makes_no_second_entity() -> None:
    person, company = naming(("Ford", {"Ford": "Person"})), naming(("Ford", {"Ford": "Organization"}))
    assert names_of(*[company] * 3, person).senses("ford") != ()
    assert names_of(*[company] * 4, person).senses("ford") == ()
    country, body = naming(("Mali", {"Mali": "Location"})), naming(("Mali", {"Mali": "Organization"}))
    assert names_of(country, body).senses("mali") == ()
    undecided = naming(("Ford", {"Ford": "Person"}), ("Ford again", {"Ford": "Organization"}))
    assert undecided.uses["ford"].kind == ""


def test_people_with_other_lives_are_others() -> None:
    explorer = naming(("John Smith (1580–1631) sailed.", {"John Smith": "Person"}))
    again = naming(("John Smith (born 1579) sailed.", {"John Smith": "Person"}))
    player = naming(("John Smith, born in 1938, played.", {"John Smith": "Person"}))
    nobody = naming(("John Smith slept.", {"John Smith": "Person"}))
    uses = {"a": explorer.uses, "b": again.uses, "c": player.uses, "d": nobody.uses}
    identify = Identifier(names_of(explorer, again, player, nobody), uses)
    assert identify("a", "John Smith") == identify("b", "John Smith") == identify("d", "John Smith") == Identity("john smith", "")
    assert identify("c", "John Smith") == Identity("john smith (1938)", "1938")
    assert names_of(explorer, again).senses("john smith") == ()


@pytest.mark.parametrize(
    ("text", "life"),
    [
        ("Ida Brandt (1938–1994) was", "1938-1994"),
        ("Ida Brandt (12 May 1938 – 3 June 1994) was", "1938-1994"),
        ("Ida Brandt (12 mai 1938 - 3 juin 1994) fut", "1938-1994"),
        ("Ida Brandt (born May 12, 1938) is", "1938"),
        ("Ida Brandt (née en 1938) est", "1938"),
        ("Ida Brandt was born in Lund in 1938 and", "1938"),
        ("Ida Brandt (1938-1945) was", ""),
        ("Ida Brandt (head of state 1938-1994) was", ""),
        ("Ida Brandt (1938) was", ""),
        ("Ida Brandt met Jon (1938-1994), who", ""),
    ],
)
def test_life_dates_stand_right_after_a_name(text: str, life: str) -> None:
    assert naming((text, {"Ida Brandt": "Person"})).uses["ida brandt"].life == life


@pytest.mark.parametrize(
    ("description", "life"),
    [
        ("English explorer born in 1580.", "1580"),
        ("Ida Brandt (1580-1631) sailed.", "1580-1631"),
        ("Mother of Anna, born in 1580.", ""),
    ],
)
def test_a_description_may_give_them(description: str, life: str) -> None:
    chunk = Chunk("c", "d", "d", "v", 0, "Ida Brandt", 0, 10)
    said = Extraction("c", "d", "llm", (EntityMention("Ida Brandt", "Person", description),))
    assert naming_of([chunk], [said]).uses["ida brandt"].life == life


def test_what_is_counted_up_is_counted_down() -> None:
    union = naming(("The European Union (EU) met.", {"European Union": "Organization", "EU": "Organization"}))
    person = naming(("Ida Brandt (1938–1994) was in the EU", {"Ida Brandt": "Person", "EU": ""}))
    both = names_of(union, person)
    alone = both.changed(recounted(both.groups, union, Naming()))
    assert {group: rows for group, rows in alone.groups.items() if rows} == names_of(person).groups
    replaced = both.changed(recounted(both.groups, union, person))
    assert replaced.row("eu").documents == 2
    nothing = alone.changed(recounted(alone.groups, person, Naming()))
    assert not any(nothing.groups.values())


def test_the_order_of_documents_is_of_no_account() -> None:
    documents = [naming((text, {variant: kind})) for text, variant, kind, *_ in MERGED]
    documents += [naming((text, {head: kind})) for *_, text, head, kind, _ in MERGED]
    assert names_of(*documents).groups == names_of(*reversed(documents)).groups


def test_a_user_takes_a_name_out_and_in_again() -> None:
    names = read(("Some Beatles sang.", {"Beatles": "Organization"}), ("The Beatles", {"The Beatles": "Organization"}))
    assert names.fold("the beatles").key == "beatles"
    apart = names.changed(with_rows(names.groups, {"the beatles": NameRow(1, apart=True)}))
    assert apart.fold("the beatles") == ("the beatles", None)
    assert apart.differing(names) == {"the beatles"}


def test_a_decision_goes_with_the_name_it_is_about() -> None:
    fab, band = naming(("the Fab Four", {"Fab Four": ""})), naming(("some Beatles", {"Beatles": ""}))
    names = names_of(fab, band)
    decided = {
        "fab four": NameRow(1, looks={"proper": 1}, into="beatles"),
        "beatles": NameRow(1, looks={"proper": 1}, merged=("fab four",)),
    }
    names = names.changed(with_rows(names.groups, decided))
    assert names.fold("fab four") == ("beatles", "manual")
    without_target = names.changed(recounted(names.groups, band, Naming()))
    assert without_target.row("fab four") == names_of(fab).row("fab four")
    without_source = names.changed(recounted(names.groups, fab, Naming()))
    assert without_source.row("beatles") == names_of(band).row("beatles")
    assert names.changed(recounted(names.groups, fab, fab)).fold("fab four").key == "beatles"


def test_merges_in_a_ring_end() -> None:
    rows = {"a": NameRow(1, into="b"), "b": NameRow(1, into="c"), "c": NameRow(1, into="a")}
    names = Names(with_rows({}, rows))
    assert {names.fold(key).key for key in rows} <= {"a", "b", "c"}
