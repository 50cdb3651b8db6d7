"""Names of invented things."""

from __future__ import annotations

import random

from grid.datasets.freebase.witness import Christening
from grid.worlds.sparql.queries import ENTITY


def test_ids_and_names_are_new_and_of_their_class() -> None:
    released = {f"m.02l{number}x": f"{number} + [{number * 37},{number * 91}]" for number in range(10, 30)}
    classes = {identity: ["gene.locus"] for identity in released}
    people = {f"m.0{number}pp": name for number, name in enumerate(["Ada Holm", "Bo Lind", "Kim Aas", "Lo Berg"], 100)}
    people |= {"m.0107pp": "Eva Ny", "m.0108pp": "Ole Dal"}
    given = Christening(released | people, classes | {identity: ["people.person"] for identity in people})
    rng = random.Random(0)
    ids = [given.id(["gene.locus"], rng) for _ in range(300)]
    assert len({*ids, *released}) == 320
    assert all(ENTITY.fullmatch(made) and made.startswith("m.02l") for made in ids)
    loci = [given.name(["gene.locus"], rng) for _ in range(100)]
    assert all("+ [" in name and name[0].isdigit() for name in loci)
    names = [given.name(["people.person"], rng) for _ in range(100)]
    taken = [name.casefold() for name in (*released.values(), *people.values(), *loci, *names)]
    assert len(set(taken)) == len(taken)
    assert sum(len(name.split()) == 2 for name in names) > 90
    assert Christening({}, {}).name(["a.b"], rng)
    assert ENTITY.fullmatch(Christening({}, {}).id(["a.b"], rng))
