"""The viewer's pages as files that link to one another, for people without a viewer: a folder that can be sent."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from analysis.viewer import matrix
from analysis.viewer.addresses import Exported, Filters, file_name
from analysis.viewer.index import Index
from analysis.viewer.pages import Pages
from analysis.viewer.runs import Run
from grid.core.errors import StoreError

_STATIC = Path(__file__).parent / "static"
_FOLDERS = ("cases", "episode", "tree", "asked")


@dataclass
class _Chosen:
    """The cases of a place that are exported, and the cells of their episodes."""

    filters: Filters
    codes: list[int]
    cells: list[str] = field(default_factory=list)


def export(runs: Sequence[Run], folder: Path, most: int, only: Sequence[str] = ()) -> str:
    """Write the pages of complete cases; return a sentence about the export.

    Every place gets an equal share of `most` episodes, starting with the cases that the largest number of planners
    failed, but at least one case, even if there are then more than `most` episodes. If `only` names cells, the cases of
    these cells are written instead, whatever `most` says.

    Raises:
        StoreError: the folder is not empty or cannot be written to, the results cannot be read, or no cell of `only`
            exists.
    """
    _empty(folder)
    chosen, total = list[_Chosen](), 0
    for run in runs:
        index = run.index()
        run.classify(wait=True)
        total += sum(one.cells for one in index.summaries.values())
        chosen += _of_cells(run, index, only) if only else _failed_first(runs, run, index, most // len(runs))
    cells = {(one.filters.run, cell) for one in chosen for cell in one.cells}
    if only and not cells:
        raise StoreError(f"--cell={only[0][:80]}: there is no such episode in these results")
    note = (
        f"{len(cells):,} of {total:,} episodes are in this export: "
        + (
            "the episodes of the chosen cases"
            if only
            else f"for each setting, an equal share of {most:,}, but at least one case; whole cases, those that most "
            "planners failed first"
        )
        + ". Filters, other branches and refreshing need the viewer: agent-grid view."
    )
    try:
        _write(runs, folder, chosen, cells, note)
    except OSError as error:
        raise StoreError(f"--export={folder}: the export cannot be written ({error.strerror})") from None
    return note


def _empty(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise StoreError(f"--export={folder}: the folder must be new or empty, but it has files")
    except OSError as error:
        raise StoreError(f"--export={folder}: the folder cannot be created or read ({error.strerror})") from None


def _failed_first(runs: Sequence[Run], run: Run, index: Index, most: int) -> Iterator[_Chosen]:
    pages, share = Pages(runs), max(most // max(len(index.places), 1), 1)
    for place in index.places:
        filters = Filters(run.key, *place)
        table, _ = pages.matrix(run, index, filters)
        found = _Chosen(filters, [])
        for code in table.order().tolist():
            cells = _cells(index, table, [code])
            if found.cells and len(found.cells) + len(cells) > share:
                break
            found.codes.append(code)
            found.cells += cells
        yield found


def _of_cells(run: Run, index: Index, only: Sequence[str]) -> Iterator[_Chosen]:
    pages = Pages([run])
    query = "SELECT DISTINCT setting, enum_code(case_id)::BIGINT FROM e WHERE cell_id IN $cells"
    wanted = index.ask(query, {"cells": list(only)})
    for place in index.places:
        own = {one.key for one in index.of_place(place)}
        filters = Filters(run.key, *place)
        codes = list(dict.fromkeys(code for key, code in wanted if key in own))
        if codes:
            table, _ = pages.matrix(run, index, filters)
            yield _Chosen(filters, codes, _cells(index, table, codes))


def _cells(index: Index, table: matrix.Matrix, codes: Sequence[int]) -> list[str]:
    query = "SELECT cell_id FROM e WHERE setting IN $settings AND enum_code(case_id) IN $codes"
    settings = [one.key for one in table.settings]
    return [cell for (cell,) in index.ask(query, {"settings": settings, "codes": list(codes)})]


def _write(
    runs: Sequence[Run], folder: Path, chosen: Sequence[_Chosen], cells: set[tuple[str, str]], note: str
) -> None:
    shutil.copytree(_STATIC, folder / "static")
    for name in _FOLDERS:
        (folder / name).mkdir()
    trees = {
        (one.filters.run, cell)
        for one in chosen
        for cell in _with_trees(next(run for run in runs if run.key == one.filters.run).index(), one.cells)
    }
    files = {
        (
            *(getattr(one.filters, name) for name in ("run", "model", "dataset", "robustness")),
            page,
        ): f"cases/{at}-{page}.html"
        for at, one in enumerate(chosen, 1)
        for page in range(1, -(-len(one.codes) // matrix.PAGE) + 1)
    }
    top = Exported(cells, trees, files)
    inner = replace(top, up="../")
    pages = Pages(runs, note)
    _page(folder / "index.html", pages.sweeps(top).html)
    for one in chosen:
        for start in range(0, len(one.codes), matrix.PAGE):
            filters = one.filters.but(page=start // matrix.PAGE + 1)
            found = pages.cases(inner, filters, codes=one.codes)
            _page(folder / str(inner.cases(filters)).removeprefix("../"), found.html)
        for cell in one.cells:
            name = f"{one.filters.run or '1'}-{file_name(cell)}.html"
            _page(folder / "episode" / name, pages.episode(inner, one.filters, cell).html)
            _page(folder / "asked" / name, pages.asked(inner, one.filters, cell).html)
            if (one.filters.run, cell) in trees:
                _page(folder / "tree" / name, pages.tree(inner, one.filters, cell).html)


def _with_trees(index: Index, cells: Sequence[str]) -> list[str]:
    query = "SELECT DISTINCT cell_id FROM $files WHERE n_nodes > 0 AND cell_id IN $cells"
    return [row["cell_id"] for row in index.rows("episodes", query, {"cells": list(cells)})]


def _page(path: Path, html: str) -> None:
    path.write_text(html, encoding="utf-8", errors="replace")
