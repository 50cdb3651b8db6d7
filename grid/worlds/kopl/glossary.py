"""What KoPL's tools speak of, as planners are told (planning_horizon §4.1)."""

GLOSSARY = (
    "- entity: a person, a place, a work or another single thing, with a name. Several may have one name.",
    "- concept: a kind of entities, with narrower concepts below it. A concept is found by its name as entities are.",
    "- attribute: a key of an entity and its value, of one of four types: a text, a number (with its unit where it has "
    "one), a year, or a date.",
    "- relation: what leads from one entity, the subject, to another, the object. It is followed forward, from subject "
    "to object, or backward.",
    "- fact: one attribute of an entity with its value, or one relation between two entities.",
    "- qualifier: a key and a value that say more of one fact, such as since when it holds. Its value is of the same "
    "four types.",
    "- entity set: what most tools take and return. A set that was filtered by an attribute or reached by a relation "
    "keeps the facts by which its entities were found: qualifier filters look at those.",
)
