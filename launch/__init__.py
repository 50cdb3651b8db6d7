"""The commands: `main` names them; each is a file that reads its arguments and calls the code that does the work.

`sweep` calls `grid.sweeps`, which composes settings with Hydra, runs them and prints `analysis.screen`. `report`,
`view`, `power`, `replicas`, `new` and the others are further commands; `bench` measures (`benchmarks`). This package
imports everything, and no other package imports it.
"""

import grid.core.moved  # noqa: F401 - old names of modules load
