"""`python -m grid.datasets.traject_bench --stats FOLDER`: what the folder holds, beside the paper's tables 8 and 9."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from grid.core.errors import ConfigError, DataError
from grid.core.untrusted import shown_lines
from grid.datasets.traject_bench.dataset import TrajectBench
from grid.datasets.traject_bench.stats import queries_tables, tools_table


def main() -> int:
    """Exit status 2 where the files cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m grid.datasets.traject_bench", description=__doc__)
    parser.add_argument("path", metavar="FOLDER", help="the released public_data folder, or the one above it")
    parser.add_argument("--stats", action="store_true", required=True, help="print the tables")
    arguments = parser.parse_args()
    console = Console(soft_wrap=True, highlight=False)
    try:
        root = TrajectBench(path=arguments.path).root
        for table in (tools_table(root), *queries_tables(root)):
            console.print(table)
    except (ConfigError, DataError) as error:
        console.print(shown_lines(str(error)), markup=False)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
