"""WorkBench's mailbox: six tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date

import pandas as pd

from grid.worlds.workbench.table import (
    MESSAGE,
    NOW,
    Cell,
    Outcome,
    RefusedError,
    Workplace,
    exists,
    looked_up,
    moment,
    needed,
    next_number,
    require,
    shown,
    text,
    tool,
)

FIELDS = ("email_id", "inbox/outbox", "sender/recipient", "subject", "sent_datetime", "body")
_MOST = 5
_ID = needed("email_id", "The email's identifier, of 8 digits.")


@tool(
    "email.get_email_information_by_id",
    "Tells one field of an email.",
    _ID,
    needed("field", "Which field.", *FIELDS),
    returns=FIELDS,
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
    """The latest first. As published, those of the data and those sent since cannot be put in one order."""
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
    """That it was sent."""
    require(recipient=recipient, subject=subject, body=body)
    return _sent(place, str(recipient), str(subject), str(body)), {MESSAGE: "The email was sent."}


def _sent(place: Workplace, recipient: str, subject: str, body: str) -> Workplace:
    """The outbox's new row is labelled by how many there are: as published it replaces one, where one was deleted."""
    if "@" not in recipient or "." not in recipient:
        raise RefusedError("the recipient is no email address")
    email_id = str(next_number(place.emails, "email_id"))
    row: tuple[Cell, ...] = (email_id, "outbox", recipient.lower(), subject, NOW, body)
    values = dict(zip(FIELDS, row, strict=True))
    return replace(place, emails=place.emails.put(len(place.emails.rows), values))


@tool("email.delete_email", "Deletes an email.", _ID, returns=(MESSAGE,), writes=True)
def delete_email(place: Workplace, email_id: str | None = None) -> Outcome:
    """That it is gone."""
    require(email_id=email_id)
    exists(place.emails, "email_id", email_id)
    return replace(place, emails=place.emails.without("email_id", email_id)), {MESSAGE: "The email was deleted."}


@tool(
    "email.forward_email",
    "Sends an email on to someone else.",
    _ID,
    needed("recipient", "The address of whoever it is sent on to."),
    returns=(MESSAGE,),
    writes=True,
)
def forward_email(place: Workplace, email_id: str | None = None, recipient: str | None = None) -> Outcome:
    """That it was forwarded."""
    require(email_id=email_id, recipient=recipient)
    email = _email(place, email_id)
    return _passed_on(place, str(recipient), f"FW: {email['subject']}", email["body"]), {
        MESSAGE: "The email was forwarded."
    }


@tool(
    "email.reply_email",
    "Answers an email.",
    _ID,
    needed("body", "The answer's text."),
    returns=(MESSAGE,),
    writes=True,
)
def reply_email(place: Workplace, email_id: str | None = None, body: str | None = None) -> Outcome:
    """That it was answered."""
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


TOOLS = (get_email, search_emails, send_email, delete_email, forward_email, reply_email)
