"""What the lexical engine knows of whether a substep needs a tool: the stems that speak for one and those against.

Learned from one half of SLATE's workflows (`tests/studies/lexical_needs.py` makes the lists anew): the stems that there
are twice as frequent in one kind of substep as in the other. The other half, and all of UltraTool, was not looked at.
"""

from __future__ import annotations

from collections.abc import Collection

_NONE = (
    "after against amount answer apart befor besid both come compar count decid end enough figur go last leav letter "
    "long messag mind money more no not noth number pay repli result right say seller stay step through two whether "
    "wish word worth"
)
_TOOL = (
    "account articl back book card case charg claim code counter discount file free late link list mail meet "
    "membership new order owner page part place plan present purchas record refund renew review second site supplier "
    "term those unit until up voucher"
)
FOR_NONE, FOR_TOOL = frozenset(_NONE.split()), frozenset(_TOOL.split())


def needs_none(stems: Collection[str]) -> bool:
    """Whether more of a substep's stems speak against a tool than for one."""
    found = set(stems)
    return len(found & FOR_NONE) > len(found & FOR_TOOL)
