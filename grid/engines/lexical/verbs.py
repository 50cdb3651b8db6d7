"""What the lexical engine knows of substeps that take no tool: the stems with which they begin.

Learned from one half of SLATE's workflows (`python launch/bench.py verbs` makes the list anew): the stems that there
more often begin a substep without a tool than one with a tool. The other half, and all of UltraTool, was not looked at.
"""

from __future__ import annotations

_LEARNED = (
    "advis answer ask check choos clarifi close compar conclud consid convinc decid describ distinguish "
    "draft explain extract go interpret judg list mention name note outlin phrase read reason recal recap "
    "reckon recognis reflect remind report restat run separ sort state sum summaris take tell think "
    "understand weigh wish word work "
)
NO_TOOL_STEMS = frozenset(_LEARNED.split())
