"""How many cases and trials show a difference in success between two planners.

`agent-grid power results/PILOT --difference 5` reads how cases, clusters and trials vary from a sweep of both planners;
`agent-grid power --simulated planner=react,egb_logits --difference 5` from the simulated policy, and `agent-grid power
--rate 0.3 --difference 5` takes what you say. The test is the report's: the paired difference over cases, its interval
over clusters. Power is told by formula, and beside it how often the test finds the difference in simulated studies.
"""

from __future__ import annotations

import sys

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from grid.core.errors import GridError
from grid.sweeps.arguments import refusal
from launch.power_arguments import parsed

DONE, CANNOT_RUN = 0, 2


def main() -> int:
    """Exit status 0, or 2 for what cannot be answered."""
    given = sys.argv[1:]
    try:
        arguments = parsed(given, __doc__)
        from launch.power_table import answer  # not before the command line is checked: it takes seconds to import

        answer(arguments)
    except (GridError, HydraException, OmegaConfBaseException) as error:
        print(f"error: {refusal(error, [one for one in given if '=' in one])}", file=sys.stderr)
        return CANNOT_RUN
    return DONE


if __name__ == "__main__":
    sys.exit(main())
