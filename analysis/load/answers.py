"""Facts about answers: which models gave them, and which answers have no token counts or could not be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from operator import or_
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.load import frames
from analysis.load.frames import SETTING
from analysis.load.queries import LABELLED, Asked, ask
from grid import store
from grid.core.engine import ACTOR, ASKED
from grid.core.errors import ErrorKind
from grid.core.types import BETWEEN
from grid.store.schema import SOURCE, SPENT

_LABELS = {ACTOR: "model", **{role: role for role in ASKED}}
_COUNTS = {role: SPENT[role]["uncounted_answers"] for role in _LABELS}
_CALLS = SPENT[ACTOR]["llm_calls"]
_TEXTS = [*_LABELS.values(), "planner", "engine_version", *SOURCE]
_DATED = re.compile(r"[-@:](\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|0\d\d)$")
"""The end of a model's name that gives the model's version: -2024-08-06, @20241022, -2411, -0613, -002."""
_SHOWN = 5  # maximum number of names in a line


def served(root: Path) -> list[str]:
    """Lines about models whose server gave no token counts, or for which another model may have answered.

    Lines about agents that sent no request to the setting's model come first. Further lines name the servers, providers
    and configurations that answered if there are several.

    Raises:
        StoreError: the folder cannot be read.
    """
    told = [*(pc.field(name) > 0 for name in _COUNTS.values()), *(pc.field(name).is_valid() for name in SOURCE)]
    columns = [*_TEXTS, *_COUNTS.values(), _CALLS]
    rows = frames.rows(root, columns, reduce(or_, told), _TEXTS)  # most cells have none of these values
    cells: pd.DataFrame = rows.to_pandas()
    alone = (cells[_COUNTS[ACTOR]].fillna(0) > 0) & (cells[_CALLS] == 0)
    others = cells.assign(model=cells["model"].cat.rename_categories(frames.models(root)))
    return [*_alone(root, cells[alone]), *_uncounted(root, cells[~alone]), *_others(others)]


def same_model(asked: str, answered: str) -> bool:
    """Whether two names mean the same model; versions at the end of a name, owners and capital letters are ignored."""
    return _plain(asked) == _plain(answered)


def _plain(name: str) -> str:
    """`openai/gpt-4o-2024-08-06` becomes `gpt-4o`, and so does `gpt-4o-latest`."""
    return _DATED.sub("", name.casefold().rpartition("/")[2]).removesuffix("-latest")


def _alone(root: Path, cells: pd.DataFrame) -> Iterator[str]:
    """Lines about agents that used their own model: their success says nothing about the setting's model."""
    for planner, part in cells.groupby("planner", observed=True, sort=True):
        of = frames.rows(root, ["planner"], pc.field("planner") == str(planner)).num_rows
        yield (
            f"warning: {planner}: in {len(part):,} of {of:,} cells the agent sent no request to the setting's model. "
            "The tokens and money of these cells are not known, so means of tokens and money leave these cells out; "
            "their success is that of the agent's own model, if it has one"
        )


def _uncounted(root: Path, cells: pd.DataFrame) -> Iterator[str]:
    for role, label in _LABELS.items():
        own = cells[cells[_COUNTS[role]].fillna(0) > 0]
        for model, part in own.groupby(label, observed=True, sort=True):
            name = frames.models(root).get(str(model), str(model))
            whose = name if role == ACTOR else f"{name} as {role}"
            of = frames.rows(root, [label], pc.field(label) == str(model)).num_rows
            yield (
                f"warning: {whose}: for {int(part[_COUNTS[role]].sum()):,} answers the server gave no token counts, "
                f"or contradictory ones; {len(part):,} of {of:,} cells have no values of tokens and money for this "
                "model. These cells are left out of means of tokens and money, and may exceed budgets of tokens and of "
                "money"
            )


def _others(cells: pd.DataFrame) -> Iterator[str]:
    told = cells[cells[list(SOURCE)].notna().any(axis=1)].astype(dict.fromkeys(_TEXTS, object))
    for model, own in told.groupby("model", sort=True):
        places = _counted(own["engine_version"].str.extract(r"@([^@]+)$", expand=False))
        if len(places) > 1:
            yield f"{model}: its cells were served at {_shown(places)}"
        asked = sorted({version.rpartition("@")[0] for version in own["engine_version"].dropna()})
        names = _counted(own["answered_by"])
        other = [name for name in names if not any(same_model(one, name) for one in asked)]
        if other or len(names) > len(asked):
            which = (
                "a model other than the requested one answered" if other else "several versions of the model answered"
            )
            yield f"warning: {model}: {which}: requests named {', '.join(asked)}, and answers came from {_shown(names)}"
        elif set(names) - set(asked):
            yield (
                f"{model}: requests named {', '.join(asked)}, and answers came from {_shown(names)}, which counts as "
                "the same model"
            )
        for column, called in (
            ("system_fingerprint", "configurations (system_fingerprint)"),
            ("provider", "providers"),
        ):
            found = _counted(own[column])
            if len(found) > 1:
                yield f"warning: {model}: answers came from {len(found):,} {called}: {_shown(found)}"


def _counted(names: pd.Series[str]) -> dict[str, int]:
    """Map each name to its number of cells, with the most frequent name first; a cell may have several names."""
    parts = names.dropna().str.split(BETWEEN, regex=False).explode()
    return {str(name): int(count) for name, count in parts.value_counts().items()}


def _shown(names: dict[str, int]) -> str:
    told = [f"{name} ({count:,} {'cell' if count == 1 else 'cells'})" for name, count in names.items()]
    more = [f"{len(told) - _SHOWN:,} more"] * (len(told) > _SHOWN)
    return ", ".join([*told[:_SHOWN], *more])


# Unreadable answers: if most of a setting's answers could not be read, the setting has no meaningful result.


MOST = 0.5
"""If more than this share of a setting's answers could not be read, there is a warning."""
MANY = 0.01
"""If more than this share of any row's answers could not be read, the table gets a column with these shares."""
COLUMNS = ("n_messages", "cut_answers", "budget_reached")
"""Further columns of `episodes` to read, for shares of unreadable or cut answers and of cells that a budget ended."""
_MESSAGES = ["cell_id", "role", "n", "unreadable"]
_QUERY = f"""WITH a AS (SELECT cell_id, role::VARCHAR AS role, n AS answers, coalesce(len(unreadable), 0) AS unread
  FROM messages WHERE n IS NOT NULL
  UNION ALL SELECT cell_id, '{ACTOR}', 1, (chosen_tool IS NULL)::INT
  FROM steps WHERE cell_id IN (SELECT cell_id FROM e WHERE n_messages IS NULL)
  UNION ALL SELECT cell_id, '{ACTOR}', 1, 1 FROM e WHERE n_messages IS NULL AND error_kind = '{ErrorKind.MODEL}')
SELECT {LABELLED}, role, sum(answers)::BIGINT AS answers, sum(unread)::BIGINT AS unread
FROM e JOIN a USING (cell_id) GROUP BY ALL ORDER BY ALL"""  # noqa: S608  names are ours


def unreadable(root: Path, episodes: pd.DataFrame | None = None) -> list[str]:
    """A line for each setting and role if more than half of the role's answers could not be read.

    Args:
        root: the folder.
        episodes: the folder's cells with `n_messages`, if they have been read already.

    Raises:
        StoreError: the folder cannot be read.
    """
    found = by_setting(root, episodes).rows
    lines = []
    for row in found[found["unread"] > MOST * found["answers"]].to_dict("records"):
        whose = "answers" if row["role"] == ACTOR else f"the {row['role']}'s answers"
        disturbed = f" ({row['robustness']})" if row["robustness"] != "none" else ""
        lines.append(
            f"warning: {row['model']}, {row['planner']} on {row['dataset']}{disturbed}: "
            f"{100 * row['unread'] / row['answers']:.0f}% of {whose} ({row['answers']:,} in all) could not be "
            f"read, so the figures of this setting say little; to see the answers: agent-grid view {root}"
        )
    return lines


def by_setting(root: Path, episodes: pd.DataFrame | None = None) -> Asked:
    """The number of sampled answers (`answers`) and of unreadable answers (`unread`) by setting and role.

    If a cell's requests were not kept (`store.transcripts`), each decision on any branch counts as an answer of the
    acting model. A plan that could not be read in any attempt counts as an answer too. `episodes` are all cells of the
    folder with `n_messages`, if they have been read already.
    """

    def made() -> Asked:
        cells = frames.episodes(root, ["n_messages"]) if episodes is None else episodes
        unkept = pa.array(cells["cell_id"][cells["n_messages"].isna()], pa.string())
        asked = store.read(root, "messages", _MESSAGES, pc.field("n").is_valid(), ["role"])
        theirs = pc.field("cell_id").isin(unkept) if len(unkept) else pc.scalar(False)
        steps = store.read(root, "steps", ["cell_id", "chosen_tool"], theirs)
        return ask(cells, _QUERY, messages=asked, steps=steps)

    return frames.once(root, "unreadable", made, few=True)


def shares(root: Path, episodes: pd.DataFrame) -> pd.DataFrame:
    """The share `unreadable` of the acting model's answers, by setting; NaN if there are no answers."""
    counted = by_setting(root, episodes).rows
    acting = counted[counted["role"] == ACTOR]
    return acting[SETTING].assign(unreadable=acting["unread"] / acting["answers"].where(acting["answers"] > 0))
