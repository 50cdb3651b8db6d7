"""What came out: tables, figures, regressions, comparisons and the viewer, of results folders alone.

Read it in this order: `load` (rows as frames), `intervals` and `significance`, `tables` (rates and differences),
`render` and `sheets` (a table as it is shown), `screen` (what a sweep ends with), `report` (all tables) and `html` (the
page); `figures` and `drawings`; `formula`, `design` and `gee` (regressions); `power`; `published` (papers' own figures
beside ours); `comparison` (of two runs); `viewer`. It imports the store, and constants of `grid`.
"""

import grid.core.moved  # noqa: F401 - old names of modules load
