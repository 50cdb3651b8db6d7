"""The commands, which `main` lists; each is a file that reads its arguments and calls the code that does the work.

`sweep` calls `grid.sweeps`, which composes settings with Hydra, runs them and prints the first screen
(`analysis.screen`). Other commands include `report`, `view`, `power`, `replicas` and `new`; `bench` runs the
measurements in `benchmarks`. This package may import every other package; no other package imports this one.
"""

import grid.core.moved  # noqa: F401 - old names of modules load
