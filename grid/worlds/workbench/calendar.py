"""WorkBench's calendar: five tools."""

from __future__ import annotations

from dataclasses import replace

from grid.worlds.workbench.table import (
    MESSAGE,
    Outcome,
    RefusedError,
    Workplace,
    exists,
    looked_up,
    matches,
    needed,
    next_number,
    not_before,
    require,
    shown,
    text,
    tool,
)

FIELDS = ("event_id", "event_name", "participant_email", "event_start", "duration")
_MOST = 5
_ID = needed("event_id", "The event's identifier, of 8 digits.")


@tool(
    "calendar.get_event_information_by_id",
    "Tells one field of an event.",
    _ID,
    needed("field", "Which field.", *FIELDS),
    returns=FIELDS,
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
    """The first ones, in the calendar's order."""
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
    values = dict(zip(FIELDS, (event_id, event_name, whose, event_start, duration), strict=True))
    return replace(place, events=place.events.added(0, values)), {"event_id": event_id}


@tool("calendar.delete_event", "Takes an event out of the calendar.", _ID, returns=(MESSAGE,), writes=True)
def delete_event(place: Workplace, event_id: str | None = None) -> Outcome:
    """That it is gone."""
    require(event_id=event_id)
    exists(place.events, "event_id", event_id)
    return replace(place, events=place.events.without("event_id", event_id)), {MESSAGE: "The event was deleted."}


@tool(
    "calendar.update_event",
    "Changes one field of an event.",
    _ID,
    needed("field", "Which field is changed."),
    needed("new_value", "What it becomes."),
    returns=(MESSAGE,),
    writes=True,
)
def update_event(
    place: Workplace, event_id: str | None = None, field: str | None = None, new_value: str | None = None
) -> Outcome:
    """That it was done. As published, a field that events do not have becomes one."""
    if not event_id or not field or not new_value:
        raise RefusedError("event_id, field and new_value are needed")
    exists(place.events, "event_id", event_id)
    new = new_value.lower() if field == "participant_email" else new_value
    events = place.events.where("event_id", event_id, field, new)
    return replace(place, events=events), {MESSAGE: "The event was updated."}


TOOLS = (get_event, search_events, create_event, delete_event, update_event)
