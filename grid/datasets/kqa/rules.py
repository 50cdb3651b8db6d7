"""What the authored stock must hold to: every name known, every wording whole, no word for two keys."""

from __future__ import annotations

import re

from grid.datasets.kqa.stock import AttributeSpec, EntityClass, RelationSpec, ValueSpec, WorldStock
from grid.datasets.kqa.words import Words


def problems(world: WorldStock, pools: dict[str, list[str]], words: Words) -> list[str]:
    """Every rule that the stock breaks, as one line each; empty when it is sound."""
    found = [
        f"concept {name}: no parent {c.parent}"
        for name, c in world.concepts.items()
        if c.parent and c.parent not in world.concepts
    ]
    for name, cls in world.classes.items():
        found += [f"class {name}: {text}" for text in _class_problems(cls, world, pools, words)]
    for name, concept in world.concepts.items():
        found += [
            f"concept {name}: {other} is a concept of its own" for other in concept.also if other in world.concepts
        ]
    return found + _word_problems(world, words)


def _class_problems(cls: EntityClass, world: WorldStock, pools: dict[str, list[str]], words: Words) -> list[str]:
    attributes = cls.origin | cls.attributes
    found = [f"no concept {name}" for name in cls.concepts if name not in world.concepts]
    found += [f"no wording for attribute {key}" for key in attributes if key not in words.attributes]
    found += [f"no wording for relation {name}" for name in cls.relations if name not in words.relations]
    found += [f"no concept {spec.among}" for spec in cls.relations.values() if spec.among not in world.concepts]
    owners: list[AttributeSpec | RelationSpec] = [*attributes.values(), *cls.relations.values()]
    qualifiers = [(key, spec) for owner in owners for key, spec in owner.qualifiers.items()]
    found += [f"no wording for qualifier {key}" for key, _ in qualifiers if key not in words.qualifiers]
    specs: list[ValueSpec] = [*attributes.values(), *(spec for _, spec in qualifiers)]
    strings = [spec.string for spec in specs if spec.string]
    found += [f"no pool {pool}" for pool in strings if "{" not in pool and pool not in pools]
    patterns = [cls.name] if isinstance(cls.name, str) else cls.name
    slots = {slot for pattern in patterns for slot in re.findall(r"\{(\w+)\}", pattern)}
    return found + [f"no pool {slot}" for slot in sorted(slots) if slot not in pools]


def _word_problems(world: WorldStock, words: Words) -> list[str]:
    found: list[str] = []
    for key, attribute in words.attributes.items():
        texts = [
            text for compared in (attribute.where, attribute.check) for found in compared.values() for text in found
        ]
        found += [f"attribute {key}: {text!r} lacks {{v}}" for text in texts if "{v}" not in text]
        found += [f"attribute {key}: {text!r} lacks {{e}}" for text in attribute.ask if "{e}" not in text]
    for name, relation in words.relations.items():
        texts = [*relation.object, *relation.subject, *relation.objects, *relation.subjects, *relation.states]
        found += [f"relation {name}: {text!r} lacks {{x}}" for text in texts if "{x}" not in text]
        asked = [text for wordings in relation.when.values() for text in wordings]
        found += [f"relation {name}: {t!r} lacks {{s}} or {{t}}" for t in asked if not ("{s}" in t and "{t}" in t)]
        found += [f"relation {name}: no wording for subjects"] * (not relation.subjects)
        found += [f"relation {name}: no wording for objects"] * (not relation.objects)
    return found + _ambiguous(world, words)


def _ambiguous(world: WorldStock, words: Words) -> list[str]:
    """What stands for two keys, or is the name of another: nobody could tell which is meant."""
    found = []
    for name, cls in world.classes.items():
        for keys in ({**cls.origin, **cls.attributes}, cls.relations):
            meant: dict[str, str] = {}
            for key in keys:
                for word in words.called.get(key, []):
                    other = meant.setdefault(word, key)
                    found += [f"class {name}: {word!r} stands for {other} and for {key}"] * (other != key)
                    found += [f"class {name}: {word!r} stands for {key}, and is a key"] * (word in keys and word != key)
                    found += [f"class {name}: {word!r} is no other word for {key}"] * (word == key)
    return found
