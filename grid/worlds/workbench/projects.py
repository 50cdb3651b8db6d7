"""WorkBench's project management: five tools."""

from __future__ import annotations

from dataclasses import replace

from grid.worlds.workbench.table import (
    MESSAGE,
    Cell,
    Outcome,
    RefusedError,
    Workplace,
    exists,
    looked_up,
    matches,
    needed,
    next_number,
    one_of,
    require,
    shown,
    text,
    tool,
)

FIELDS = ("task_id", "task_name", "assigned_to_email", "list_name", "due_date", "board")
LISTS = ("Backlog", "In Progress", "In Review", "Completed")
BOARDS = ("Back end", "Front end", "Design")
_ID = needed("task_id", "The task's identifier, of 8 digits.")


@tool(
    "project_management.get_task_information_by_id",
    "Tells one field of a task.",
    _ID,
    needed("field", "Which field.", *FIELDS),
    returns=FIELDS,
)
def get_task(place: Workplace, task_id: str | None = None, field: str | None = None) -> Outcome:
    """A field of the task."""
    return place, looked_up(place.tasks, "task_id", task_id, field)


@tool(
    "project_management.search_tasks",
    "Finds all tasks whose fields contain what is given, in any case of letters. At least one argument is needed.",
    text("task_name", "What the name contains."),
    text("assigned_to_email", "What the address of whoever has the task contains."),
    text("list_name", f"What the list's name contains: {', '.join(LISTS)}."),
    text("due_date", "What the day by which it is due contains: YYYY-MM-DD."),
    text("board", f"What the board's name contains: {', '.join(BOARDS)}."),
    returns=("tasks",),
)
def search_tasks(place: Workplace, **given: str | None) -> Outcome:
    """All of them, in the table's order."""
    sought = {name: given[name] for name in FIELDS if given.get(name)}
    if not sought:
        raise RefusedError("give at least one thing to search by")
    found: list[dict[str, Cell]] = place.tasks.records()
    for name, pattern in sought.items():
        hits = matches(str(pattern), [task[name] for task in found], name)
        found = [task for task, hit in zip(found, hits, strict=True) if hit]
    return place, {"tasks": [shown(task) for task in found]}


@tool(
    "project_management.create_task",
    "Adds a task to a board.",
    needed("task_name", "What the task is called."),
    needed("assigned_to_email", "The email address of whoever gets it; someone who has tasks already."),
    needed("list_name", "The list that it is put on.", *LISTS),
    needed("due_date", "The day by which it is due: YYYY-MM-DD."),
    needed("board", "The board that it is put on.", *BOARDS),
    returns=("task_id",),
    writes=True,
)
def create_task(
    place: Workplace,
    task_name: str | None = None,
    assigned_to_email: str | None = None,
    list_name: str | None = None,
    due_date: str | None = None,
    board: str | None = None,
) -> Outcome:
    """The new task's identifier."""
    values = {"task_name": task_name, "list_name": list_name, "due_date": due_date, "board": board}
    require(assigned_to_email=assigned_to_email, **values)
    whose = str(assigned_to_email).lower()
    _has_tasks(place, whose)
    one_of("list_name", list_name, LISTS)
    one_of("board", board, BOARDS)
    task_id = str(next_number(place.tasks, "task_id")).zfill(8)
    row = {"task_id": task_id, "assigned_to_email": whose, **values}
    return replace(place, tasks=place.tasks.added(0, row).renumbered()), {"task_id": task_id}


@tool("project_management.delete_task", "Deletes a task.", _ID, returns=(MESSAGE,), writes=True)
def delete_task(place: Workplace, task_id: str | None = None) -> Outcome:
    """That it is gone."""
    require(task_id=task_id)
    exists(place.tasks, "task_id", task_id)
    return replace(place, tasks=place.tasks.without("task_id", task_id)), {MESSAGE: "The task was deleted."}


@tool(
    "project_management.update_task",
    "Changes one field of a task.",
    _ID,
    needed("field", "Which field is changed.", *FIELDS[1:]),
    needed(
        "new_value",
        f"What it becomes. A list is one of {', '.join(LISTS)}; a board one of {', '.join(BOARDS)}; a task can be "
        "given to those who have tasks already.",
    ),
    returns=(MESSAGE,),
    writes=True,
)
def update_task(
    place: Workplace, task_id: str | None = None, field: str | None = None, new_value: str | None = None
) -> Outcome:
    """That it was done."""
    if not task_id or not field or not new_value:
        raise RefusedError("task_id, field and new_value are needed")
    new = new_value.lower() if field == "assigned_to_email" else new_value
    if field == "board":
        one_of("board", new, BOARDS)
    if field == "list_name":
        one_of("list_name", new, LISTS)
    if field == "assigned_to_email":
        _has_tasks(place, new)
    exists(place.tasks, "task_id", task_id)
    if field not in place.tasks.columns:
        raise RefusedError(f"there is no field {field:.40}; there are {', '.join(place.tasks.columns)}")
    return replace(place, tasks=place.tasks.where("task_id", task_id, field, new)), {MESSAGE: "The task was updated."}


def _has_tasks(place: Workplace, address: str) -> None:
    if address not in {str(cell).lower() for cell in place.tasks.column("assigned_to_email")}:
        raise RefusedError(f"nobody in the team has the address {address:.60}")


TOOLS = (get_task, search_tasks, create_task, delete_task, update_task)
