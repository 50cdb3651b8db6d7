"""Import runs of other tools into a results folder: `agent-grid import inspect LOG.eval --into results/<name>`.

`inspect`: logs of Inspect (UK AI Security Institute), `.eval` or `.json`; this format needs an extra: pip install
'agent-grid[inspect]'. `tau2`: the file of results that τ²-bench's own runner writes. The commands `report`, `view` and
`power` then work as they do for a sweep. Values that a file lacks are null. Importing the same file a second time adds
nothing.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import sys
from dataclasses import replace
from pathlib import Path

from grid.core.errors import ConfigError, DataError, GridError, one_line, said
from grid.core.places import folder_at
from grid.imports import inspect_logs, tau2_results
from grid.imports.episodes import Found, Source, add

_TOOLS = {one.TOOL: one.opened for one in (inspect_logs, tau2_results)}
_LABEL = 200  # maximum length in characters


def main() -> int:
    """Exit status 0, or 2 if a file cannot be imported; the files before it then stay imported."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", choices=[*_TOOLS], help="the tool that wrote the files")
    parser.add_argument("files", type=Path, nargs="+", help="logs or results files")
    parser.add_argument(
        "--into", type=folder_at, required=True, help="a results folder: new, or from an earlier import or sweep"
    )
    parser.add_argument(
        "--model", metavar="NAME", help="the model's label; planners are paired if their model labels are the same"
    )
    parser.add_argument(
        "--dataset", metavar="NAME", help="the data set's label; cases are paired if their data set labels are the same"
    )
    parser.add_argument(
        "--success",
        metavar="SCORER",
        help="the score that decides success (default: for inspect, the first scorer; for tau2, the reward)",
    )
    given = parser.parse_args()
    try:
        for path in given.files:
            source, found = take(path, given.tool, given.into, given.success, model=given.model, dataset=given.dataset)
            for line in _told(source, found):
                print(line)
    except GridError as error:
        return said(error)
    print(f"agent-grid report {one_line(given.into)} shows the tables")
    return 0


def take(path: Path, tool: str, into: Path, success: str | None = None, **labels: str | None) -> tuple[Source, Found]:
    """Add a file's samples to a results folder; samples that the folder already has are unchanged.

    Returns the file's source, and the numbers of samples that were found.

    `labels`: the labels `model` and `dataset` for the rows; without them, the file's own labels are used.

    Raises:
        ConfigError: a label is not 1 to 200 printable characters, the package that reads the file is not installed, or
            the file does not have the given scorer.
        DataError: the file cannot be read.
        StoreError: the folder cannot be written to, a sweep writes to it, or it already contains this file's run, but
            with a different score deciding success.
    """
    told = {name: label for name, label in labels.items() if label is not None}
    for name, label in told.items():
        if not (label.isprintable() and 0 < len(label) <= _LABEL):
            raise ConfigError(f"--{name}", label, f"1 to {_LABEL} printable characters")
    source, read = _TOOLS[tool](path, _sha256(path), success)
    source = replace(source, **told)
    return source, add(into, source, read, dt.datetime.now(dt.UTC))


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else error
        raise DataError(Path(one_line(path, 200)), None, f"cannot be read ({told})") from None


def _told(source: Source, found: Found) -> list[str]:
    """Lines about the imported samples and about the score that decides success, and the notes."""
    expected = f", of {source.planned:,} planned samples" if source.planned else ""
    rule = f"success by {source.success}" if source.success else "no score, so success is not known"
    what = f"{one_line(source.file, 100)}: {source.model}, {source.planner} on {source.dataset}"
    return [
        f"{what}: {found.new:,} new samples, {found.there:,} already in the folder{expected}; {rule}",
        *(f"  {count:,} {note}" for note, count in found.notes.items()),
    ]


if __name__ == "__main__":
    sys.exit(main())
