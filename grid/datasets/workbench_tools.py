"""WorkBench's calendar, mailbox, customers and projects: their fields, and the tools that read and write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date

import pandas as pd

from grid.datasets.workbench_table import (
    MESSAGE,
    NOW,
    Cell,
    Outcome,
    RefusedError,
    Workplace,
    exists,
    looked_up,
    matches,
    moment,
    needed,
    next_number,
    not_before,
    one_of,
    require,
    shown,
    text,
    tool,
)

CALENDAR_FIELDS = ("event_id", "event_name", "participant_email", "event_start", "duration")
_MOST = 5
_EVENT_ID = needed("event_id", "The event's identifier, of 8 digits.")


@tool(
    "calendar.get_event_information_by_id",
    "Tells one field of an event.",
    _EVENT_ID,
    needed("field", "Which field.", *CALENDAR_FIELDS),
    returns=CALENDAR_FIELDS,
)
def get_event(place: Workplace, event_id: str | None = None, field: str | None = None) -> Outcome:
    """A field of the event."""
    return place, looked_up(place.events, "event_id", event_id, field)


@tool(
    "calendar.search_events",
    f"Finds events by name or participant and by when they start, {_MOST} at most.",
    text("query", "What the event's name or its participant's address must contain, in any case of letters."),
    text("time_min", "Only events that start at this time or later: YYYY-MM-DD HH:MM:SS."),
    text("time_max", "Only events that start at this time or earlier: YYYY-MM-DD HH:MM:SS."),
    returns=("events",),
)
def search_events(
    place: Workplace, query: str = "", time_min: str | None = None, time_max: str | None = None
) -> Outcome:
    """The first events found, in the calendar's order."""
    names, people = (list(place.events.column(name)) for name in ("event_name", "participant_email"))
    hits = zip(matches(query, names, "query"), matches(query, people, "query"), strict=True)
    found = [event for event, hit in zip(place.events.records(), hits, strict=True) if any(hit)]
    if time_min:
        found = [event for event in found if not_before(event["event_start"], time_min)]
    if time_max:
        found = [event for event in found if not_before(time_max, event["event_start"])]
    return place, {"events": [shown(event) for event in found[:_MOST]]}


@tool(
    "calendar.create_event",
    "Puts a new event into the calendar.",
    needed("event_name", "What the event is called."),
    needed("participant_email", "The participant's email address."),
    needed("event_start", "When it starts: YYYY-MM-DD HH:MM:SS."),
    needed("duration", "How many minutes it takes."),
    returns=("event_id",),
    writes=True,
)
def create_event(
    place: Workplace,
    event_name: str | None = None,
    participant_email: str | None = None,
    event_start: str | None = None,
    duration: str | None = None,
) -> Outcome:
    """The new event's identifier."""
    require(event_name=event_name, participant_email=participant_email, event_start=event_start, duration=duration)
    event_id = str(next_number(place.events, "event_id")).zfill(8)
    whose = participant_email and participant_email.lower()
    values = dict(zip(CALENDAR_FIELDS, (event_id, event_name, whose, event_start, duration), strict=True))
    return replace(place, events=place.events.added(0, values)), {"event_id": event_id}


@tool("calendar.delete_event", "Takes an event out of the calendar.", _EVENT_ID, returns=(MESSAGE,), writes=True)
def delete_event(place: Workplace, event_id: str | None = None) -> Outcome:
    """A message that the event was deleted."""
    require(event_id=event_id)
    exists(place.events, "event_id", event_id)
    return replace(place, events=place.events.without("event_id", event_id)), {MESSAGE: "The event was deleted."}


@tool(
    "calendar.update_event",
    "Changes one field of an event.",
    _EVENT_ID,
    needed("field", "Which field is changed."),
    needed("new_value", "What it becomes."),
    returns=(MESSAGE,),
    writes=True,
)
def update_event(
    place: Workplace, event_id: str | None = None, field: str | None = None, new_value: str | None = None
) -> Outcome:
    """A message that the event was updated. As in the published code, a new field is added to all events."""
    if not event_id or not field or not new_value:
        raise RefusedError("event_id, field and new_value are needed")
    exists(place.events, "event_id", event_id)
    new = new_value.lower() if field == "participant_email" else new_value
    events = place.events.where("event_id", event_id, field, new)
    return replace(place, events=events), {MESSAGE: "The event was updated."}


CALENDAR = (get_event, search_events, create_event, delete_event, update_event)


# WorkBench's mailbox: six tools.


EMAIL_FIELDS = ("email_id", "inbox/outbox", "sender/recipient", "subject", "sent_datetime", "body")
_EMAIL_ID = needed("email_id", "The email's identifier, of 8 digits.")


@tool(
    "email.get_email_information_by_id",
    "Tells one field of an email.",
    _EMAIL_ID,
    needed("field", "Which field.", *EMAIL_FIELDS),
    returns=EMAIL_FIELDS,
)
def get_email(place: Workplace, email_id: str | None = None, field: str | None = None) -> Outcome:
    """A field of the email."""
    return place, looked_up(place.emails, "email_id", email_id, field)


@tool(
    "email.search_emails",
    f"Finds emails by their words and by the day on which they were sent, the {_MOST} latest at most.",
    text("query", "Words that must all stand in the subject, the body or the address, in any case of letters."),
    text("date_min", "Only emails of this day or later: YYYY-MM-DD."),
    text("date_max", "Only emails of this day or earlier: YYYY-MM-DD."),
    returns=("emails",),
)
def search_emails(
    place: Workplace, query: str = "", date_min: str | None = None, date_max: str | None = None
) -> Outcome:
    """The latest emails found, latest first.

    As in the published code, the call fails if emails that were just sent must be sorted together with other emails.
    """
    words = query.lower().split()
    found = [email for email in place.emails.records() if all(word in _searched(email) for word in words)]
    if len({type(email["sent_datetime"]) for email in found}) > 1:
        raise RefusedError("emails that were just sent are among these, and cannot be put in order with the others")
    dated = sorted(found, key=lambda email: str(email["sent_datetime"]), reverse=True)
    if date_min:
        dated = [email for email in dated if _day(email["sent_datetime"]) >= _day(date_min)]
    if date_max:
        dated = [email for email in dated if _day(email["sent_datetime"]) <= _day(date_max)]
    return place, {"emails": [shown(email) for email in dated[:_MOST]]}


def _searched(email: Mapping[str, Cell]) -> str:
    return f"{email['subject']} {email['body']} {email['sender/recipient']}".lower()


def _day(given: object) -> date:
    found = moment(given)
    if pd.isna(found):
        raise RefusedError(f"no date: {given!s:.40}")
    return found.date()


@tool(
    "email.send_email",
    "Sends an email.",
    needed("recipient", "The recipient's email address."),
    needed("subject", "The subject line."),
    needed("body", "The email's text."),
    returns=(MESSAGE,),
    writes=True,
)
def send_email(
    place: Workplace, recipient: str | None = None, subject: str | None = None, body: str | None = None
) -> Outcome:
    """A message that the email was sent."""
    require(recipient=recipient, subject=subject, body=body)
    return _sent(place, str(recipient), str(subject), str(body)), {MESSAGE: "The email was sent."}


def _sent(place: Workplace, recipient: str, subject: str, body: str) -> Workplace:
    """Send an email; its row is labelled with the number of rows, as in the published code.

    After a deletion, the sent email's row may therefore replace another email.
    """
    if "@" not in recipient or "." not in recipient:
        raise RefusedError("the recipient is no email address")
    email_id = str(next_number(place.emails, "email_id"))
    row: tuple[Cell, ...] = (email_id, "outbox", recipient.lower(), subject, NOW, body)
    values = dict(zip(EMAIL_FIELDS, row, strict=True))
    return replace(place, emails=place.emails.put(len(place.emails.rows), values))


@tool("email.delete_email", "Deletes an email.", _EMAIL_ID, returns=(MESSAGE,), writes=True)
def delete_email(place: Workplace, email_id: str | None = None) -> Outcome:
    """A message that the email was deleted."""
    require(email_id=email_id)
    exists(place.emails, "email_id", email_id)
    return replace(place, emails=place.emails.without("email_id", email_id)), {MESSAGE: "The email was deleted."}


@tool(
    "email.forward_email",
    "Sends an email on to someone else.",
    _EMAIL_ID,
    needed("recipient", "The address of whoever it is sent on to."),
    returns=(MESSAGE,),
    writes=True,
)
def forward_email(place: Workplace, email_id: str | None = None, recipient: str | None = None) -> Outcome:
    """A message that the email was forwarded."""
    require(email_id=email_id, recipient=recipient)
    email = _email(place, email_id)
    return _passed_on(place, str(recipient), f"FW: {email['subject']}", email["body"]), {
        MESSAGE: "The email was forwarded."
    }


@tool(
    "email.reply_email",
    "Answers an email.",
    _EMAIL_ID,
    needed("body", "The answer's text."),
    returns=(MESSAGE,),
    writes=True,
)
def reply_email(place: Workplace, email_id: str | None = None, body: str | None = None) -> Outcome:
    """A message that the reply was sent."""
    require(email_id=email_id, body=body)
    email = _email(place, email_id)
    sent = _passed_on(place, str(email["sender/recipient"]), email["subject"], body)
    return sent, {MESSAGE: "The reply was sent."}


def _email(place: Workplace, email_id: str | None) -> dict[str, Cell]:
    exists(place.emails, "email_id", email_id)
    return place.emails.having("email_id", email_id).records()[0]


def _passed_on(place: Workplace, recipient: str, subject: Cell, body: Cell) -> Workplace:
    require(subject=str(subject), body=str(body))
    return _sent(place, recipient, str(subject), str(body))


EMAIL = (get_email, search_emails, send_email, delete_email, forward_email, reply_email)


# WorkBench's customer relationship manager, with four tools, and the company's directory, with one.


CUSTOMERS_FIELDS = (
    "customer_id", "assigned_to_email", "customer_name", "customer_email", "customer_phone", "last_contact_date",
    "product_interest", "status", "follow_up_by", "notes",
)  # fmt: skip
STATUSES = ("Qualified", "Won", "Lost", "Lead", "Proposal")
PRODUCTS = ("Software", "Hardware", "Services", "Consulting", "Training")
_SEARCHED = ("customer_name", "customer_email", "product_interest", "status", "assigned_to_email")
_RANGES = ("last_contact_date", "follow_up_by")
_CUSTOMER_ID = needed("customer_id", "The customer's identifier, of 8 digits.")


@tool(
    "customer_relationship_manager.search_customers",
    f"Finds customers whose fields contain what is given, in any case of letters, {_MOST} at most. At least one "
    "argument is needed.",
    text("customer_name", "What the name contains."),
    text("customer_email", "What the customer's address contains."),
    text("product_interest", f"What the product of interest contains: {', '.join(PRODUCTS)}."),
    text("status", f"What the status contains: {', '.join(STATUSES)}."),
    text("assigned_to_email", "What the address of whoever looks after the customer contains."),
    text("last_contact_date_min", "Only those last contacted on this day or later: YYYY-MM-DD."),
    text("last_contact_date_max", "Only those last contacted on this day or earlier: YYYY-MM-DD."),
    text("follow_up_by_min", "Only those to follow up by this day or later: YYYY-MM-DD."),
    text("follow_up_by_max", "Only those to follow up by this day or earlier: YYYY-MM-DD."),
    returns=("customers",),
)
def search_customers(place: Workplace, **given: str | None) -> Outcome:
    """The first customers found, in the table's order. Days are compared as texts, as in the published code."""
    if not any(given.values()):
        raise RefusedError("give at least one thing to search by")
    found: list[dict[str, Cell]] = place.customers.records()
    for name in _SEARCHED:
        pattern = given.get(name)
        if pattern:
            hits = matches(pattern, [customer[name] for customer in found], name)
            found = [customer for customer, hit in zip(found, hits, strict=True) if hit]
    for name in _RANGES:
        first, last = given.get(f"{name}_min"), given.get(f"{name}_max")
        if first:
            found = [customer for customer in found if (day := customer[name]) is not None and str(day) >= first]
        if last:
            found = [customer for customer in found if (day := customer[name]) is not None and str(day) <= last]
    return place, {"customers": [shown(customer) for customer in found[:_MOST]]}


@tool(
    "customer_relationship_manager.update_customer",
    "Changes one field of a customer.",
    _CUSTOMER_ID,
    needed("field", "Which field is changed.", *CUSTOMERS_FIELDS[1:]),
    needed(
        "new_value",
        f"What it becomes. A status is one of {', '.join(STATUSES)}; a product of interest one of "
        f"{', '.join(PRODUCTS)}.",
    ),
    returns=(MESSAGE,),
    writes=True,
)
def update_customer(
    place: Workplace, customer_id: str | None = None, field: str | None = None, new_value: str | None = None
) -> Outcome:
    """A message that the customer was updated."""
    if not customer_id or not field or not new_value:
        raise RefusedError("customer_id, field and new_value are needed")
    if field == "status":
        one_of("status", new_value, STATUSES)
    if field == "product_interest":
        one_of("product_interest", new_value, PRODUCTS)
    exists(place.customers, "customer_id", customer_id)
    if field not in place.customers.columns:
        raise RefusedError(f"there is no field {field:.40}; there are {', '.join(CUSTOMERS_FIELDS[1:])}")
    new = new_value.lower() if field in ("customer_email", "assigned_to_email") else new_value
    customers = place.customers.where("customer_id", customer_id, field, new)
    return replace(place, customers=customers), {MESSAGE: "The customer was updated."}


@tool(
    "customer_relationship_manager.add_customer",
    "Adds a customer.",
    needed("customer_name", "The customer's name."),
    needed("assigned_to_email", "The email address of whoever looks after the customer."),
    needed("status", "How far the customer is.", *STATUSES),
    text("customer_email", "The customer's email address."),
    text("customer_phone", "The customer's telephone number."),
    text("last_contact_date", "The day of the last contact: YYYY-MM-DD."),
    text("product_interest", "What the customer is interested in.", *PRODUCTS),
    text("notes", "What else is worth knowing."),
    text("follow_up_by", "The day by which to follow up: YYYY-MM-DD."),
    returns=("customer_id",),
    writes=True,
)
def add_customer(place: Workplace, **given: str | None) -> Outcome:
    """The new customer's identifier."""
    require(**{name: given.get(name) for name in ("customer_name", "assigned_to_email", "status")})
    customer_id = str(next_number(place.customers, "customer_id")).zfill(8)
    lowered = {name: value.lower() for name in ("assigned_to_email", "customer_email") if (value := given.get(name))}
    row = {"notes": "", **given, **lowered, "customer_id": customer_id}
    return replace(place, customers=place.customers.added(0, row).renumbered()), {"customer_id": customer_id}


@tool(
    "customer_relationship_manager.delete_customer",
    "Deletes a customer.",
    _CUSTOMER_ID,
    returns=(MESSAGE,),
    writes=True,
)
def delete_customer(place: Workplace, customer_id: str | None = None) -> Outcome:
    """A message that the customer was deleted."""
    require(customer_id=customer_id)
    exists(place.customers, "customer_id", customer_id)
    customers = place.customers.without("customer_id", customer_id)
    return replace(place, customers=customers), {MESSAGE: "The customer was deleted."}


@tool(
    "company_directory.find_email_address",
    "Finds the email addresses of employees by name.",
    needed("name", "The employee's name, or a part of it."),
    returns=("email_addresses",),
)
def find_email_address(place: Workplace, name: str = "") -> Outcome:
    """All addresses that contain the name."""
    require(name=name)
    hits = matches(name.lower(), place.directory, "name", ignore_case=False)
    return place, {"email_addresses": [address for address, hit in zip(place.directory, hits, strict=True) if hit]}


CUSTOMERS = (search_customers, update_customer, add_customer, delete_customer, find_email_address)


# WorkBench's project management: five tools.


PROJECTS_FIELDS = ("task_id", "task_name", "assigned_to_email", "list_name", "due_date", "board")
LISTS = ("Backlog", "In Progress", "In Review", "Completed")
BOARDS = ("Back end", "Front end", "Design")
_TASK_ID = needed("task_id", "The task's identifier, of 8 digits.")


@tool(
    "project_management.get_task_information_by_id",
    "Tells one field of a task.",
    _TASK_ID,
    needed("field", "Which field.", *PROJECTS_FIELDS),
    returns=PROJECTS_FIELDS,
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
    """All tasks found, in the table's order."""
    sought = {name: given[name] for name in PROJECTS_FIELDS if given.get(name)}
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


@tool("project_management.delete_task", "Deletes a task.", _TASK_ID, returns=(MESSAGE,), writes=True)
def delete_task(place: Workplace, task_id: str | None = None) -> Outcome:
    """A message that the task was deleted."""
    require(task_id=task_id)
    exists(place.tasks, "task_id", task_id)
    return replace(place, tasks=place.tasks.without("task_id", task_id)), {MESSAGE: "The task was deleted."}


@tool(
    "project_management.update_task",
    "Changes one field of a task.",
    _TASK_ID,
    needed("field", "Which field is changed.", *PROJECTS_FIELDS[1:]),
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
    """A message that the task was updated."""
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


PROJECTS = (get_task, search_tasks, create_task, delete_task, update_task)
