"""A local server that answers in every form of `forms.py`, and a sweep over all of them.

    python -m tests.support.endpoint --list            the forms by name, with what is right
    python -m tests.support.endpoint                   serve them: each has a base URL of its own, /FORM/v1
    python -m tests.support.endpoint --table [FORM]    a sweep over all, and a table: form, what is right, what came out

The sweep runs ReAct and zero_shot on two cases of BFCL's form: one in which the call is right, and one in which no call
is (`irrelevance`): there success is an abstention, which must have been read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grid.cells.rows import Outcome
from grid.cells.run import Stamp, run_cell
from grid.core.engine import ACTOR
from grid.engines.http.client import Serving
from grid.engines.http.engine import OpenAIHTTP
from grid.settings.build import Built, build
from grid.settings.config import BudgetConfig
from grid.settings.roles import Price
from grid.settings.setting import Keep, Setting, cells
from tests.support import bfcl
from tests.support.configs import setting_of
from tests.support.forms import FORMS, Form, Mode, Right, Turn, answered
from tests.support.http_server import Asked, LocalServer, Reply, models

PLANNERS = ("react", "zero_shot")
_RIGHT, _ABSTAIN = "simple_python", "irrelevance"
_ADD = bfcl.function("add", "The sum of two numbers.", ["a", "b"], a=bfcl.typed("integer"), b=bfcl.typed("integer"))
_QUESTIONS = {_RIGHT: ("What is 1 plus 2?", [{"add": {"a": [1], "b": [2]}}]), _ABSTAIN: ("Who wrote Faust?", [])}
_SUCCESS: dict[Right, tuple[bool | None, bool | None]] = {
    "read": (True, False),
    "unreadable": (False, False),
    "words": (False, True),
    "failed": (None, None),
    "ended": (False, False),
}
"""What success must be in the two cases."""


def play(asked: Asked) -> Reply:
    """Answer a request to /FORM/v1: the form's answer, or a good one to what asks for another tool (a probe)."""
    _, name, path = asked.path.split("/", 2)
    if path == "v1/models":
        return models("m")
    said = json.dumps(asked.body)
    native = "tools" in asked.body
    turn = Turn("native" if native else "prompt", over="taken" in said, plan='"plan\\"' in said or "at once" in said)
    return FORMS[name].reply(turn) if "Faust" in said or "1 plus 2" in said else answered(replace(turn, over=True))


@dataclass(frozen=True)
class Came:
    """What came out of a form with one planner: both cases' rows, and how many answers of each could not be read."""

    form: Form
    mode: Mode
    planner: str
    rows: Sequence[dict[str, Any]]
    unreadable: Sequence[int]

    @property
    def right(self) -> Right:
        """What is right for this planner."""
        return self.form.otherwise.get((self.mode, self.planner), self.form.right)

    @property
    def success(self) -> tuple[bool | None, ...]:
        """Of the case in which the call is right, and of the one in which none is."""
        return tuple(row["success"] for row in self.rows)

    @property
    def told(self) -> bool:
        """Whether the rows tell what was wrong: unreadable answers, a failure and whose."""
        match self.right:
            case "unreadable":
                return all(self.unreadable)
            case "failed":
                return all(row["error_kind"] == "infrastructure" for row in self.rows)
            case "ended":
                return all(row["error_kind"] in ("model", "context") for row in self.rows)
        return all(row["status"] == "ok" for row in self.rows)

    @property
    def as_is_right(self) -> bool:
        """Whether all is as it must be."""
        named = [
            row[name] == (value * row["llm_calls"] if isinstance(value, int) else value)
            for row in self.rows
            for name, value in self.form.row.items()
        ]
        return self.success == _SUCCESS[self.right] and self.told and all(named)

    def line(self) -> str:
        """A line of the table."""
        row = self.rows[0]
        kinds = {row["error_kind"] for row in self.rows} - {None}
        said = [
            f"{self.form.name:<34}{self.right:<12}{self.mode:<8}{self.planner:<11}",
            f"{'/'.join({True: '1', False: '0', None: '-'}[one] for one in self.success):<8}",
            f"{sum(self.unreadable):>6} {sum(row['cut_answers'] or 0 for row in self.rows):>4}",
            f"{'-' if row['output_tokens'] is None else row['output_tokens']:>6}  {', '.join(kinds):<16}",
            "" if self.as_is_right else "WRONG",
        ]
        return "".join(said).rstrip()


HEAD = f"{'form':<34}{'right':<12}{'tools':<8}{'planner':<11}{'success':<8}unread  cut tokens  failed"


async def tried(forms: Iterable[Form], url: str, root: Path) -> list[Came]:
    """What comes out of forms, in their order, at a server that `play`s at `url`."""
    for category, (question, gold) in _QUESTIONS.items():
        row = {"id": f"{category}_0", "question": [[{"role": "user", "content": question}]], "function": [_ADD]}
        answers = [{"id": row["id"], "ground_truth": gold}] if gold else []
        bfcl.write_category(root, category, [row], answers)
    settings = {
        (planner, category): _setting(planner, category, root) for planner in PLANNERS for category in _QUESTIONS
    }
    found = await asyncio.gather(*(_came(form, mode, url, settings) for form in forms for mode in form.modes))
    return [came for several in found for came in several]


def _setting(planner: str, category: str, root: Path) -> tuple[Setting, Built]:
    data = {"path": str(root), "category": category}
    labels = {"model": "openai_http", "dataset": "bfcl", "planner": planner, "retriever": "none", "pool": "case"}
    setting = setting_of(data, {"max_calls": 2, "max_retries": 1}, {"model": "m"}, **labels)
    return setting, replace(build(setting, BudgetConfig()), prices={ACTOR: Price(input=1.0, cached=0.1, output=10.0)})


async def _came(
    form: Form, mode: Mode, url: str, settings: Mapping[tuple[str, str], tuple[Setting, Built]]
) -> list[Came]:
    """What comes out of a form in a mode with each planner."""
    serving = Serving(tries=2, max_in_flight=4)
    engine = OpenAIHTTP(base_url=url.replace("/v1", f"/{form.name}/v1"), model="m", tools=mode, serving=serving)
    await engine.load()
    ended: dict[str, list[Outcome]] = {planner: [] for planner in PLANNERS}
    for (planner, _), (setting, built) in settings.items():
        (cell,) = cells(setting, built.dataset.version, built.dataset.case_ids(), 1)
        built = replace(built, engine=engine)
        ended[planner].append(
            await run_cell(built, setting, cell, Stamp("forms", None), "attempt", keep=Keep.of("all"))
        )
    return [
        Came(
            form,
            mode,
            planner,
            [outcome.episode for outcome in outcomes],
            [sum(len(message.unreadable) for message in outcome.messages) for outcome in outcomes],
        )
        for planner, outcomes in ended.items()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 where a form's outcome is not as it must be."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.endpoint", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--list", action="store_true", help="list the forms, then serve them")
    parser.add_argument("--table", nargs="*", metavar="FORM", help="sweep over all forms, or these, and print a table")
    asked = parser.parse_args(arguments)
    if asked.list:
        for form in FORMS.values():
            print(f"{form.name:<34}{form.right:<12}{'+'.join(form.modes):<15}{form.says}")
    with LocalServer(play) as server:
        if asked.table is None:
            print(f"serving at {server.url.replace('/v1', '/FORM/v1')}; Ctrl-C ends it", flush=True)
            try:
                server.ended.wait()
            except KeyboardInterrupt:
                return 0
        with tempfile.TemporaryDirectory() as root:
            forms = [FORMS[name] for name in asked.table or FORMS]
            found = asyncio.run(tried(forms, server.url, Path(root)))
    print(HEAD, *(came.line() for came in found), sep="\n")
    wrong = sum(not came.as_is_right for came in found)
    print(f"{len(found)} outcomes of {len(forms)} forms, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
