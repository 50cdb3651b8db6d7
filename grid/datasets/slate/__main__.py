"""Publish SLATE: `python -m grid.datasets.slate --card | --export FOLDER`; `agent-grid data slate` describes SLATE."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from grid.core.errors import GridError, said
from grid.datasets.slate.dataset import Slate


def main() -> int:
    """Return the exit status: 0, or 2 if SLATE cannot be written."""
    parser = argparse.ArgumentParser(prog="python -m grid.datasets.slate", description=__doc__)
    parser.add_argument("--card", action="store_true", help="print the dataset card of the first seed, in Markdown")
    parser.add_argument(
        "--export",
        type=Path,
        metavar="FOLDER",
        help="write the files, the card and the scorer into a folder, for others",
    )
    parser.add_argument(
        "--seeds", type=int, nargs="+", metavar="SEED", default=[0, 1, 2], help="the library's seeds (default 0 1 2)"
    )
    parser.add_argument("--path", metavar="FOLDER", help="use the files of a folder instead of making them")
    arguments = parser.parse_args()
    if not (arguments.card or arguments.export):
        parser.error("give --card or --export FOLDER; `agent-grid data slate` shows the contents of SLATE")
    try:
        publish(Slate(path=arguments.path, library_seed=arguments.seeds[0]), arguments.seeds, arguments.export)
    except (GridError, ModuleNotFoundError) as error:
        return said(error)
    return 0


def publish(dataset: Slate, seeds: Sequence[int], folder: Path | None) -> None:
    """Print the card or, if a folder is given, write the card and all other files into it."""
    from grid.datasets.slate.export import (
        card,  # scikit-learn is slow to import
        empty,
        export,
    )

    if folder is None:
        print(card(dataset, seeds), end="")
        return
    empty(folder)
    print(f"measuring {len(seeds):,} libraries for the card, about half a minute each", file=sys.stderr, flush=True)
    for path in export(dataset, folder, card(dataset, seeds)):
        print(path)


if __name__ == "__main__":
    sys.exit(main())
