"""A small workplace in the form in which WorkBench is released, and calls made wrong on purpose."""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grid.core.types import ToolCall
from grid.datasets.workbench import ADDRESSES, QUERIES, TABLES, TOOLS
from grid.datasets.workbench_table import Workplace

PEOPLE = ("ada.morrow", "jonas.vale", "mira.holt", "theo.lind")
ROWS: dict[str, list[tuple[str, ...]]] = {
    "data/processed/calendar_events.csv": [
        ("00000003", "Roof inspection", "ada.morrow@firm.com", "2023-11-20 09:00:00", "30"),
        ("00000001", "Budget round", "jonas.vale@firm.com", "2023-11-28 13:00:00", "60"),
        ("00000000", "Budget round", "mira.holt@firm.com", "2023-12-01 09:30:00", "90"),
        ("00000004", "Planning", "ada.morrow@firm.com", "2023-12-01 14:00:00", "30"),
        ("00000002", "planning (roof)", "theo.lind@firm.com", "2023-12-04 10:00:00", "60"),
        ("00000005", "Farewell", "jonas.vale@firm.com", "2023-12-08 16:00:00", "120"),
        ("00000006", "Roof inspection", "ada.morrow@firm.com", "2023-12-11 11:00:00", "30"),
    ],
    "data/processed/emails.csv": [
        ("00000002", "inbox", "ada.morrow@firm.com", "Roof", "2023-11-01 08:00:00", "Sam,\\n\\nthe roof leaks."),
        ("00000000", "inbox", "mira.holt@firm.com", "Budget", "2023-11-10 09:12:00", "Have you seen the budget?"),
        ("00000003", "outbox", "jonas.vale@firm.com", "Re: Planning", "2023-11-27 10:00:00", "Fine by me."),
        ("00000001", "inbox", "ada.morrow@firm.com", "Roof again", "2023-11-28 17:30:00", "It still leaks, Sam"),
        ("00000004", "inbox", "theo.lind@firm.com", "Budget", "2023-11-29 12:00:00", 'He said "no", Sam.'),
        ("00000005", "outbox", "theo.lind@firm.com", "Re: Budget", "2023-11-29 13:00:00", "Then we wait."),
        ("00000006", "inbox", "ada.morrow@firm.com", "Planning", "2023-11-29 15:00:00", "Roof first, budget last"),
    ],
    "data/processed/project_tasks.csv": [
        ("00000001", "Mend the roof", "ada.morrow@firm.com", "Backlog", "2023-11-27", "Design"),
        ("00000000", "Add a search page", "jonas.vale@firm.com", "In Progress", "2023-12-01", "Front end"),
        ("00000002", "Fix the login", "jonas.vale@firm.com", "In Review", "2023-11-29", "Back end"),
        ("00000003", "Draw a logo", "mira.holt@firm.com", "Completed", "2023-11-20", "Design"),
        ("00000004", "Sort the budget", "ada.morrow@firm.com", "Backlog", "2023-12-08", "Back end"),
    ],
    "data/processed/customer_relationship_manager_data.csv": [
        ("00000000", "ada.morrow@firm.com", "Kim Reed", "kim.reed@hill", "", "2023-11-01", "Software", "Lead",
         "2023-12-10", "2023-11-01: Had a call. "),
        ("00000002", "jonas.vale@firm.com", "Lou Marsh", "lou.marsh@dale", "555-0101", "2023-11-20", "Hardware",
         "Won", "2023-12-12", ""),
        ("00000001", "ada.morrow@firm.com", "Pat Kimball", "pat@hill", "555-0102", "2023-11-29", "Training",
         "Proposal", "2023-12-01", ""),
        ("00000003", "theo.lind@firm.com", "Lee Reed", "lee.reed@mill", "", "2023-10-12", "Software", "Lead",
         "2023-11-30", "2023-10-12: Saw the demo. "),
    ],
    "data/processed/analytics_data.csv": [
        ("2023-11-28", "0007", "3", "12", "direct", "True"),
        ("2023-11-26", "0004", "1", "2", "referral", "False"),
        ("2023-11-28", "0001", "8", "4", "search engine", "False"),
        ("2023-11-29", "0007", "5", "31", "social media", "True"),
        ("2023-11-26", "0002", "2", "7", "direct", "True"),
    ],
}  # fmt: skip
CASES: dict[str, list[tuple[str, list[str], str, str]]] = {
    "analytics": [
        ("Plot the visits since Sunday as a bar chart",
         ['analytics.create_plot.func(time_min="2023-11-26", time_max="2023-11-29", value_to_plot="total_visits", '
          'plot_type="bar")'], "Plot {metric} since {day}", "['analytics']"),
        ("If we had more than 90 visits on Monday, plot them", [], "If {metric} more than {n}", "['analytics']"),
    ],
    "calendar": [
        ("Cancel my next meeting with Mira", ['calendar.delete_event.func(event_id="00000000")'],
         "Cancel my next meeting with {name}", "['calendar']"),
        ("Cancel my next meeting with Jonas", ['calendar.delete_event.func(event_id="00000005")'],
         "Cancel my next meeting with {name}", "['calendar']"),
        ("Book half an hour with Theo tomorrow at 3, call it Tea",
         ['calendar.create_event.func(event_name="Tea", participant_email="theo.lind@firm.com", '
          'event_start="2023-12-01 15:00:00", duration="30")'], "Book {duration}", "['calendar']"),
    ],
    "customer_relationship_manager": [
        ("Give Kim Reed to Jonas",
         ['customer_relationship_manager.update_customer.func(customer_id="00000000", field="assigned_to_email", '
          'new_value="jonas.vale@firm.com")'], "Give {customer} to {name}", "['customer_relationship_manager']"),
        ("Delete all of Ada's customers",
         ['customer_relationship_manager.delete_customer.func(customer_id="00000000")',
          'customer_relationship_manager.delete_customer.func(customer_id="00000001")'], "Delete all of {name}",
         "['customer_relationship_manager']"),
    ],
    "email": [
        ("Forward Mira's last email to Theo and Ada",
         ['email.forward_email.func(email_id="00000000", recipient="theo.lind@firm.com")',
          'email.forward_email.func(email_id="00000000", recipient="ada.morrow@firm.com")'], "Forward {x}",
         "['email']"),
        ("Tell Ada 'Hi Ada,\\n\\nit\\'s mended.' with the title Roof",
         ['email.send_email.func(recipient="ada.morrow@firm.com", subject="Roof", body="Hi Ada,\\n\\nit\'s mended.")'],
         "Tell {name}", "['email']"),
    ],
    "multi_domain": [
        ("Add Jo Finch as a lead of whoever has the fewest tasks, and tell them so with the title Lead",
         ['customer_relationship_manager.add_customer.func(customer_name="Jo Finch", '
          'assigned_to_email="mira.holt@firm.com", status="Lead")',
          'email.send_email.func(recipient="mira.holt@firm.com", subject="Lead", body="Jo Finch is yours.")'],
         " Add {customer}", "['crm', 'project_management', 'email']"),
    ],
    "project_management": [
        ("Put Jonas's tasks in review on the list of completed ones",
         ['project_management.update_task.func(task_id="00000002", field="list_name", new_value="Completed")'],
         "Put {name}", "['project_management']"),
        ("Move Mira's overdue tasks back to the backlog", [], "Move {name}", "['project_management']"),
    ],
}  # fmt: skip
"""Query, gold answer, template, domains."""


def write(root: Path) -> str:
    """The files under a folder; its path."""
    for name, columns in TABLES.items():
        _write(root / name, [columns, *ROWS[name]])
    _write(root / ADDRESSES, [(f"{name}@firm.com",) for name in PEOPLE])
    for kind, name in QUERIES.items():
        rows = [
            (query, str(answer), template, template.lower(), domains)
            for query, answer, template, domains in CASES[kind]
        ]
        _write(root / name, [("query", "answer", "base_template", "chosen_template", "domains"), *rows])
    return str(root)


def _write(path: Path, rows: Sequence[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


ODD = (
    "", "nobody", "@", "a.b@c", "Sam", "ROOF", "roof", "re", ".", "(", "[a-c]", "a|e", "^b", "o+", "2023-12-01",
    "2023-11-29", "2023-11-30 12:00:00", "December 1, 2023", "soon", "2023-13-45", "NaT", "60", "0", "qualified",
    "In review", "IN PROGRESS", "won", "notes", "error", "event_id", "task_id", "customer_id", "2023-12-01T09:00:00Z",
)  # fmt: skip
"""What arguments are made of besides what the tables hold and what tools list."""
_BREAKING = ('"', "\\", "\n")  # what the authors' way to write calls as code does not bear


class Mutations:
    """Sequences of calls made from gold ones, and from nothing."""

    def __init__(self, place: Workplace, golds: Sequence[Sequence[ToolCall]], seed: int) -> None:
        self._golds, self._rng = golds, random.Random(seed)
        tables = (*place.changing(), place.visits)
        self._cells = {
            name: [str(cell) for cell in table.column(name) if _plain(cell)]
            for table in tables
            for name in table.columns
        }
        self._addresses = place.directory

    def pair(self) -> tuple[list[ToolCall], Sequence[ToolCall]]:
        """(what was made, the gold answer)."""
        gold = self._rng.choice(self._golds)
        made = [call for call in gold if all(map(_plain, call.arguments.values()))]
        for _ in range(self._rng.randint(1, 4)):
            self._rng.choice(
                (self._drop, self._again, self._swap, self._change, self._change, self._insert, self._more)
            )(made)
        return made, gold

    def _place(self, made: list[ToolCall]) -> int:
        return self._rng.randrange(len(made)) if made else -1

    def _drop(self, made: list[ToolCall]) -> None:
        if made:
            made.pop(self._place(made))

    def _again(self, made: list[ToolCall]) -> None:
        if made:
            made.insert(self._place(made), made[self._place(made)])

    def _swap(self, made: list[ToolCall]) -> None:
        self._rng.shuffle(made)

    def _change(self, made: list[ToolCall]) -> None:
        if not made:
            return
        place = self._place(made)
        call, arguments = made[place], dict(made[place].arguments)
        if not arguments:
            return
        name = self._rng.choice(list(arguments))
        how = self._rng.randrange(5)
        if how == 0:
            del arguments[name]
        elif how == 1:
            arguments[name] = str(arguments[name]).swapcase()
        else:
            arguments[name] = self._value(call.tool, name)
        made[place] = ToolCall(call.tool, arguments)

    def _insert(self, made: list[ToolCall]) -> None:
        made.insert(self._rng.randint(0, len(made)), self._any())

    def _more(self, made: list[ToolCall]) -> None:
        for _ in range(self._rng.randint(1, 4)):
            self._insert(made)

    def _any(self) -> ToolCall:
        tool = self._rng.choice(list(TOOLS))
        parameters = TOOLS[tool].spec.parameters
        given = [p for p in parameters if self._rng.random() < (0.97 if p.required else 0.4)]
        arguments: dict[str, Any] = {p.name: self._value(tool, p.name) for p in given}
        if self._rng.random() < 0.02:
            arguments["unheard_of"] = "x"
        return ToolCall(tool, arguments)

    def _value(self, tool: str, name: str) -> str:
        """Mostly one that fits."""
        parameter = next((p for p in TOOLS[tool].spec.parameters if p.name == name), None)
        drawn = self._rng.random()
        if drawn < 0.2:
            return self._rng.choice(ODD)
        if parameter and parameter.values:
            return self._rng.choice(parameter.values)
        if name == "new_value":
            return self._rng.choice(self._rng.choice(list(self._cells.values())) or ["x"])
        known = self._cells.get(name) or self._cells.get(name.removesuffix("_min").removesuffix("_max"))
        if known:
            return self._rng.choice(known)
        if name in ("recipient", "name"):
            address = self._rng.choice(self._addresses)
            return address if name == "recipient" else address.partition(".")[0].title()
        dates = "time_min", "time_max", "date_min", "date_max"
        if name in dates:
            return self._rng.choice(self._cells["event_start" if "calendar" in tool else "due_date"])
        return self._rng.choice(self._rng.choice([self._cells[c] for c in ("event_name", "subject", "task_name")]))


def _plain(value: object) -> bool:
    return isinstance(value, str) and not any(mark in value for mark in _BREAKING)
