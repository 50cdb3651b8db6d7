"""WorkBench's customer relationship manager: four tools, and the company's directory, which has one."""

from __future__ import annotations

from dataclasses import replace

from grid.worlds.workbench.table import (
    MESSAGE,
    Cell,
    Outcome,
    RefusedError,
    Workplace,
    exists,
    matches,
    needed,
    next_number,
    one_of,
    require,
    shown,
    text,
    tool,
)

FIELDS = (
    "customer_id", "assigned_to_email", "customer_name", "customer_email", "customer_phone", "last_contact_date",
    "product_interest", "status", "follow_up_by", "notes",
)  # fmt: skip
STATUSES = ("Qualified", "Won", "Lost", "Lead", "Proposal")
PRODUCTS = ("Software", "Hardware", "Services", "Consulting", "Training")
_SEARCHED = ("customer_name", "customer_email", "product_interest", "status", "assigned_to_email")
_RANGES = ("last_contact_date", "follow_up_by")
_MOST = 5
_ID = needed("customer_id", "The customer's identifier, of 8 digits.")


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
    """The first ones, in the table's order. Days are compared as texts, as published."""
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
    _ID,
    needed("field", "Which field is changed.", *FIELDS[1:]),
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
    """That it was done."""
    if not customer_id or not field or not new_value:
        raise RefusedError("customer_id, field and new_value are needed")
    if field == "status":
        one_of("status", new_value, STATUSES)
    if field == "product_interest":
        one_of("product_interest", new_value, PRODUCTS)
    exists(place.customers, "customer_id", customer_id)
    if field not in place.customers.columns:
        raise RefusedError(f"there is no field {field:.40}; there are {', '.join(FIELDS[1:])}")
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


@tool("customer_relationship_manager.delete_customer", "Deletes a customer.", _ID, returns=(MESSAGE,), writes=True)
def delete_customer(place: Workplace, customer_id: str | None = None) -> Outcome:
    """That it is gone."""
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
    """All addresses that contain it."""
    require(name=name)
    hits = matches(name.lower(), place.directory, "name", ignore_case=False)
    return place, {"email_addresses": [address for address, hit in zip(place.directory, hits, strict=True) if hit]}


TOOLS = (search_customers, update_customer, add_customer, delete_customer, find_email_address)
