"""The authors' code of ToolTree (in the checkout AGENT_GRID_TOOLTREE), run in the game of `tests/support/search.py`.

Their search, nodes and pruning run as they are. The planner's and the judge's model are a `Script`, the tools its
letters, and the jitter that breaks ties is ours.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from grid.core.util import derive_seed
from tests.support.places import behind
from tests.support.search import Script

CODE = "AGENT_GRID_TOOLTREE"


def official(name: str) -> ModuleType:
    """One module of it, as `src.mcts.node`; skips the test where there is no checkout."""
    root = os.environ.get(CODE)
    if not root:
        pytest.skip(f"{CODE} names no checkout of ToolTree's code")
    sys.path.insert(0, root)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(root)


@dataclass
class Theirs:
    """Their search in the game: what was judged, in order, and its tree and result by place."""

    script: Script
    tools: str
    seed: int
    judged_before: list[str] = field(default_factory=list)
    executed: list[str] = field(default_factory=list)
    result: str = ""
    visits: dict[str, int] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)

    def run(self, monkeypatch: pytest.MonkeyPatch, **keys: Any) -> Theirs:
        """Search; `keys` are those of their configuration."""
        code, nodes = official("src.mcts.tree_search"), official("src.mcts.node")
        config = official("src.config").MCTSConfig(**keys)
        self._jitter(monkeypatch, nodes)
        search = code.ToolTreeSearch(config, self._tools(), self._judge(), None)
        cards = [{"name": name} for name in self.tools]
        trajectory, _ = search.search("Go to the right place.", {}, cards)
        self.result = " ".join(_word(step["action"], step["args"]) for step in trajectory)
        for node in _below(search._last_root):
            place = " ".join(_word(step["tool"], step["args"]) for step in node.state["trajectory"])
            if node.visit_count:
                self.visits[place], self.values[place] = node.visit_count, node.q_value
        return self

    def _judge(self) -> Any:
        def before(query: str, context: Any, card: Any, draft: Any) -> tuple[float, str]:
            place = behind(_place(context), _word(card["name"], draft))
            self.judged_before.append(place)
            return _score(self.script.pre, place), ""

        def after(query: str, context: Any, card: Any, args: Any, output: Any) -> tuple[float, str]:
            place = behind(_place(context), _word(card["name"], args))
            self.executed.append(place)
            return _score(self.script.post, place), ""

        return SimpleNamespace(pre_evaluate=before, post_evaluate=after)

    def _tools(self) -> Any:
        def draft(card: Any, context: Any, model: Any, query: str) -> dict[str, str]:
            word = self.script.drafted.get(behind(_place(context), card["name"]), card["name"])
            return {"x": word[1:]} if word[1:] else {}

        return SimpleNamespace(
            tool_registry=SimpleNamespace(check_schema_compatibility=lambda card, context: True),
            generate_arg_draft=draft,
            execute=lambda name, args: {"at": _word(name, args)},
        )

    def _jitter(self, monkeypatch: pytest.MonkeyPatch, nodes: ModuleType) -> None:
        """Ours, by a node's label, instead of a random number: it is drawn for the children in their order."""
        drawn: list[float] = []
        plain = nodes.MCTSNode.best_child

        def best_child(node: Any, exploration: float) -> Any:
            drawn[:] = [derive_seed(self.seed, "jitter", self._label(child)) for child in node.selectable_children()]
            return plain(node, exploration)

        monkeypatch.setattr(nodes, "random", SimpleNamespace(random=lambda: drawn.pop(0)))
        monkeypatch.setattr(nodes.MCTSNode, "best_child", best_child)

    def _label(self, node: Any) -> str:
        if node.parent is None:
            return "0"
        return f"{self._label(node.parent)}.{self.tools.index(node.action['tool_name'])}"


def _below(node: Any) -> Iterator[Any]:
    for child in node.children:
        yield child
        yield from _below(child)


def _place(context: Mapping[str, Any]) -> str:
    made: Sequence[Mapping[str, Any]] = context.get("history", ())
    return " ".join(_word(one["tool"], one["args"]) for one in made)


def _word(tool: str, args: Mapping[str, Any]) -> str:
    return tool + str(args.get("x", ""))


def _score(known: Mapping[str, Any], place: str) -> float:
    return float(known.get(place, 0.5))
