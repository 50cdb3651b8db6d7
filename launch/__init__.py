"""The commands: `main` names them, each is a file that reads its arguments and calls what does the work.

`sweep` hands over to `grid.sweeps`, which composes settings with Hydra, runs them and prints `analysis.screen`.
`report`, `view`, `power`, `replicas`, `new` and the others stand beside it; `bench` measures (`benchmarks`). It imports
everything, and nothing imports it.
"""

import grid.core.moved  # noqa: F401 - old names of modules load
