"""WorkBench's analytics of a website's visits: six tools, one of which makes plots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from grid.core.types import Json, Parameter
from grid.worlds.workbench.table import (
    Cell,
    Outcome,
    RefusedError,
    Workplace,
    needed,
    one_of,
    require,
    shown,
    text,
    tool,
)

FIELDS = ("date_of_visit", "visitor_id", "page_views", "session_duration_seconds", "traffic_source", "user_engaged")
SOURCES = ("direct", "referral", "search engine", "social media")
PLOTTED = (
    "total_visits", "session_duration_seconds", "user_engaged", "visits_direct", "visits_referral",
    "visits_search_engine", "visits_social_media",
)  # fmt: skip
PLOTS = ("bar", "line", "scatter", "histogram")
_Visit = Mapping[str, Cell]


def _range(needed_too: bool = False) -> tuple[Parameter, Parameter]:
    return (
        text("time_min", "The first day: YYYY-MM-DD.", required=needed_too),
        text("time_max", "The last day: YYYY-MM-DD.", required=needed_too),
    )


@tool(
    "analytics.get_visitor_information_by_id",
    "Tells all visits of one visitor.",
    needed("visitor_id", "The visitor's identifier, of 4 digits."),
    returns=("visits",),
)
def get_visitor(place: Workplace, visitor_id: str | None = None) -> Outcome:
    """The visits, in the table's order."""
    require(visitor_id=visitor_id)
    found = place.visits.having("visitor_id", visitor_id).records()
    if not found:
        raise RefusedError(f"nobody has the visitor_id {visitor_id:.40}")
    return place, {"visits": [shown(visit) for visit in found]}


@tool(
    "analytics.create_plot",
    "Plots a figure over the days of a range, and keeps the plot.",
    *_range(needed_too=True),
    needed("value_to_plot", "The figure.", *PLOTTED),
    needed("plot_type", "The kind of plot.", *PLOTS),
    returns=("file_path",),
    writes=True,
)
def create_plot(
    place: Workplace,
    time_min: str | None = None,
    time_max: str | None = None,
    value_to_plot: str | None = None,
    plot_type: str | None = None,
) -> Outcome:
    """What the plot is called. No file is written, here as in the benchmark: the path is a row of a table."""
    require(time_min=time_min, time_max=time_max)
    one_of("value_to_plot", value_to_plot, PLOTTED)
    one_of("plot_type", plot_type, PLOTS)
    path = f"plots/{time_min}_{time_max}_{value_to_plot}_{plot_type}.png"
    return replace(place, plots=place.plots.added(len(place.plots.rows), {"file_path": path})), {"file_path": path}


@tool("analytics.total_visits_count", "Counts the visits of each day.", *_range(), returns=("total_visits",))
def total_visits(place: Workplace, time_min: str | None = None, time_max: str | None = None) -> Outcome:
    """By day; days without a visit are left out."""
    return place, {"total_visits": _daily(place, time_min, time_max, len)}


@tool("analytics.engaged_users_count", "Counts the engaged users of each day.", *_range(), returns=("engaged_users",))
def engaged_users(place: Workplace, time_min: str | None = None, time_max: str | None = None) -> Outcome:
    """By day; days without a visit are left out."""

    def engaged(visits: Sequence[_Visit]) -> int:
        return sum(visit["user_engaged"] is True for visit in visits)

    return place, {"engaged_users": _daily(place, time_min, time_max, engaged)}


@tool(
    "analytics.traffic_source_count",
    "Counts the visits of each day that came from one source, or all of them.",
    *_range(),
    text("traffic_source", "The source; all, where none is given.", *SOURCES),
    returns=("visits_from_source",),
)
def traffic_source(
    place: Workplace, time_min: str | None = None, time_max: str | None = None, traffic_source: str | None = None
) -> Outcome:
    """By day; days without a visit are left out."""

    def coming(visits: Sequence[_Visit]) -> int:
        return sum(not traffic_source or visit["traffic_source"] == traffic_source for visit in visits)

    return place, {"visits_from_source": _daily(place, time_min, time_max, coming)}


@tool(
    "analytics.get_average_session_duration",
    "Tells how many seconds a visit took on average, for each day.",
    *_range(),
    returns=("average_session_duration",),
)
def average_duration(place: Workplace, time_min: str | None = None, time_max: str | None = None) -> Outcome:
    """By day, in seconds; days without a visit are left out."""

    def mean(visits: Sequence[_Visit]) -> float:
        return sum(float(str(visit["session_duration_seconds"])) for visit in visits) / len(visits)

    return place, {"average_session_duration": _daily(place, time_min, time_max, mean)}


def _daily(
    place: Workplace, first: str | None, last: str | None, figure: Callable[[Sequence[_Visit]], float]
) -> dict[str, Json]:
    """A figure of each day's visits. Days are compared as texts, as published."""
    days: dict[str, list[_Visit]] = {}
    for visit in place.visits.records():
        day = str(visit["date_of_visit"])
        if (not first or day >= first) and (not last or day <= last):
            days.setdefault(day, []).append(visit)
    return {day: figure(days[day]) for day in sorted(days)}


TOOLS = (get_visitor, create_plot, total_visits, engaged_users, traffic_source, average_duration)
