"""A small schema and questions over it, in the forms in which GrailQA, AgentBench and WebQSP are released."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grid.datasets.freebase.facts import CLASSES, INVERSES, ROLES, Ontology, read_ontology
from grid.datasets.freebase.records import Question, read_questions

XSD = "http://www.w3.org/2001/XMLSchema#"
_ROLES = """
film.film film.film.directed_by film.director
film.director film.director.film film.film
film.film film.film.genre film.film_genre
film.film_genre film.film_genre.films_in_this_genre film.film
film.film film.film.starring film.performance
film.performance film.performance.film film.film
film.performance film.performance.actor film.actor
film.actor film.actor.film film.performance
film.film film.film.runtime type.float
film.film film.film.initial_release_date type.datetime
film.film film.film.sequel film.film
film.film film.film.prequel film.film
film.film film.film.country location.country
film.film film.film.edited_by film.editor
film.editor film.editor.film film.film
film.film_genre film.film_genre.parent_genre film.film_genre
people.person people.person.place_of_birth location.location
people.person people.person.date_of_birth type.datetime
people.person people.person.height_meters type.float
people.person people.person.children people.person
people.person people.person.parents people.person
people.person people.person.jobs people.employment
people.employment people.employment.person people.person
people.employment people.employment.from type.datetime
people.employment people.employment.to type.datetime
people.employment people.employment.salary type.int
people.employment people.employment.company business.company
business.company business.company.employees people.employment
business.company business.company.founded type.datetime
business.company business.company.seat location.location
location.location location.location.contains location.location
location.location location.location.containedby location.location
location.location location.location.area type.float
location.country location.country.capital location.location
location.country location.country.founded type.datetime
common.topic common.topic.image common.image
common.topic common.topic.subjects common.topic
common.topic common.topic.notable_for common.topic
common.image common.image.appears_in common.topic
common.image common.image.taken type.datetime
common.image common.image.width type.int
media.catalogue media.catalogue.holds common.topic
media.catalogue media.catalogue.made type.datetime
media.list media.list.names common.topic
media.list media.list.length type.int
media.prize media.prize.winners common.topic
media.prize media.prize.year type.int
media.fair media.fair.shows common.topic
media.fair media.fair.visitors type.int
media.stamp media.stamp.depicts common.topic
media.song media.song.about common.topic
media.poem media.poem.about common.topic
media.quiz media.quiz.asks_about common.topic
media.essay media.essay.discusses common.topic
"""
_TOPICS = (
    "film.film film.director film.film_genre film.actor film.editor people.person business.company location.location "
    "location.country common.image media.catalogue media.list media.prize media.fair media.stamp media.song media.poem "
    "media.quiz media.essay"
)
_ABOVE = {
    "film.director": "people.person",
    "film.actor": "people.person",
    "film.editor": "people.person",
    "location.country": "location.location",
}
_INVERSES = (
    "film.film.directed_by film.director.film",
    "film.film.genre film.film_genre.films_in_this_genre",
    "film.film.starring film.performance.film",
    "film.performance.actor film.actor.film",
    "film.film.sequel film.film.prequel",
    "film.film.edited_by film.editor.film",
    "people.person.children people.person.parents",
    "people.person.jobs people.employment.person",
    "people.employment.company business.company.employees",
    "location.location.contains location.location.containedby",
)
ENTITIES = {
    "m.0ada": "Ada Holm",
    "m.0bob": "Bo Lind",
    "m.0dra": "Drama",
    "m.0com": "Comedy",
    "m.0os1": "Oslo",
    "m.0nor": "Norway",
    "m.0acm": 'Acme "Ltd" } ; DROP ALL #',
}
FILMS = {
    "m.0f1a": "Quiet Harvest",
    "m.0f2b": "Loud Harvest",
    "m.0f3c": "The Winter\nRoad",
    "m.0f4d": "A Glass of Rain",
    "m.0f5e": "It's 'Over' \\ Now",
    "m.0f6f": "Nine Lanterns",
}
_DATE, _FLOAT = f"^^{XSD}date", f"^^{XSD}float"
FORMS: list[tuple[str, str, list[str]]] = [
    (
        "which films did Ada Holm direct?",
        "(AND film.film (JOIN film.film.directed_by m.0ada))",
        ["m.0f1a", "m.0f2b", "m.0f3c"],
    ),
    (
        "which dramas did ada holm direct?",
        "(AND (JOIN film.film.genre m.0dra) (JOIN film.film.directed_by m.0ada))",
        ["m.0f1a", "m.0f3c"],
    ),
    (
        "which genre do films by Bo Lind have?",
        "(JOIN (R film.film.genre) (JOIN film.film.directed_by m.0bob))",
        ["m.0com"],
    ),
    ("how many films did Bo Lind direct?", "(COUNT (AND film.film (JOIN film.film.directed_by m.0bob)))", ["4"]),
    (
        "what is the longest film by ada holm?",
        "(ARGMAX (AND film.film (JOIN film.film.directed_by m.0ada)) film.film.runtime)",
        ["m.0f2b"],
    ),
    (
        "which comedy came out first?",
        "(ARGMIN (JOIN film.film.genre m.0com) film.film.initial_release_date)",
        ["m.0f4d", "m.0f5e"],
    ),
    (
        "which films are at least 150.5 minutes long?",
        f"(AND film.film (ge film.film.runtime 150.5{_FLOAT}))",
        ["m.0f6f"],
    ),
    (
        "which film came out on 1999-03-31?",
        f"(AND film.film (JOIN film.film.initial_release_date 1999-03-31{_DATE}))",
        ["m.0f4d"],
    ),
    (
        "which job did Bo Lind have in 2003?",
        "(TC (JOIN (R people.person.jobs) m.0bob) people.employment.from 2003)",
        ["m.0jb1"],
    ),
    (
        "for whom does Ada Holm work now?",
        "(JOIN (R people.employment.company) (TC (JOIN (R people.person.jobs) m.0ada) people.employment.from NOW))",
        ["m.0acm"],
    ),
    (
        "who of oslo acted in a film by Ada Holm?",
        "(AND (JOIN people.person.place_of_birth m.0os1) (JOIN film.actor.film (JOIN film.performance.film "
        "(JOIN film.film.directed_by m.0ada))))",
        ["m.0ac1", "m.0ac2"],
    ),
    (
        "who was born in a place in Norway?",
        "(AND people.person (JOIN people.person.place_of_birth (JOIN (R location.location.contains) m.0nor)))",
        ["m.0ac1", "m.0bob"],
    ),
]
NAMES = {**ENTITIES, **FILMS, "m.0ac1": "Kim Aas", "m.0ac2": "Lo Berg"}


def write_ontology(folder: Path) -> Path:
    """The three files of the schema."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ROLES).write_text(_ROLES.strip() + "\n")
    below = [(name, "common.topic") for name in _TOPICS.split()] + list(_ABOVE.items())
    (folder / CLASSES).write_text("".join(f"{name} meta.subclassOf {parent} .\n" for name, parent in below))
    (folder / INVERSES).write_text("".join("\t".join(pair.split()) + "\n" for pair in _INVERSES))
    return folder


def ontology(folder: Path) -> Ontology:
    """The schema, read."""
    return read_ontology(write_ontology(folder))


def answers(values: list[str]) -> list[dict[str, Any]]:
    """Answers as GrailQA and AgentBench write them."""
    return [
        {"answer_type": "Entity", "answer_argument": value, "entity_name": NAMES.get(value, "null")}
        if value.startswith("m.")
        else {"answer_type": "Value", "answer_argument": value}
        for value in values
    ]


def grailqa(number: int) -> dict[str, Any]:
    """One record as ToG ships GrailQA's dev set."""
    text, form, values = FORMS[number]
    named = [identity for identity in ENTITIES if identity in form]
    nodes = [{"node_type": "entity", "id": one, "friendly_name": ENTITIES[one].lower()} for one in named]
    return {
        "qid": 1000 + number,
        "question": text,
        "answer": answers(values),
        "s_expression": form,
        "level": "i.i.d.",
        "topic_entity": {one: ENTITIES[one] for one in named},
        "graph_query": {"nodes": [*nodes, {"node_type": "class", "id": "film.film", "friendly_name": "Film"}]},
    }


def agentbench(number: int) -> dict[str, Any]:
    """One record as AgentBench has it."""
    record = grailqa(number)
    return {
        "question": record["question"],
        "qid": f"{number}_test",
        "source": "grailqa",
        "entities": {ENTITIES[one]: one for one in ENTITIES if one in record["s_expression"]},
        "s_expression": record["s_expression"],
        "actions": [],
        "answer": record["answer"],
    }


def webqsp(number: int) -> dict[str, Any]:
    """One record as RNG-KBQA writes WebQSP: the first parse has no logical form."""
    text, form, values = FORMS[number]
    named = [one for one in ENTITIES if one in form]
    parse = {
        "TopicEntityName": ENTITIES[named[0]] if named else None,
        "TopicEntityMid": named[0] if named else None,
        "PotentialTopicEntityMention": ENTITIES[named[0]].lower() if named else None,
        "Constraints": [{"EntityName": ENTITIES[one], "Argument": one} for one in named[1:]],
        "SExpr": form,
        "Answers": [
            {"AnswerType": "Entity", "AnswerArgument": value, "EntityName": NAMES.get(value)} for value in values
        ],
    }
    return {
        "QuestionId": f"WebQTest-{number}",
        "RawQuestion": text.capitalize(),
        "ProcessedQuestion": text,
        "Parses": [parse | {"SExpr": "null"}, parse],
    }


def kbqa_o1(number: int) -> dict[str, Any]:
    """One record as KBQA-o1 prepares it: without any name."""
    text, form, values = FORMS[number]
    return {"ID": f"o1-{number}", "question": text, "answer": values, "sexpr": form, "sparql": "", "function_list": []}


def write(folder: Path, name: str = "grailqa_v1.0_dev.json", form: Any = grailqa) -> str:
    """A folder with all questions in one file, and the ontology."""
    write_ontology(folder / "ontology")
    records = [form(number) for number in range(len(FORMS))]
    (folder / name).write_text(json.dumps(records), encoding="utf-8")
    return str(folder)


def questions(folder: Path) -> list[Question]:
    """The questions, read."""
    write(folder)
    return read_questions(folder / "grailqa_v1.0_dev.json")[0]
