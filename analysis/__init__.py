"""Tables, figures, pages and a viewer, all made from a sweep's stored rows.

The packages are listed from the ground up; each imports only packages that come before it in the list. `yaml_files`
reads the files that users write, and `errors` has the error for specifications and data that an analysis refuses.

- `page`: tables and figures as objects, and the code that writes them.
- `stats`: intervals, p values, power, calibration, agreement and regressions, all computed from numbers; no results
  folder is read.
- `load`: a results folder as data frames and as SQL, and the facts that a reader has to know before reading the
  figures.
- `tables`: the tables of a sweep, with one file per subject.
- `papers`: published figures next to ours, and the planning-horizon study.
- `figures`: all drawings made from a folder's results.
- `compare`: two runs side by side.
- `viewer`: one page per episode, and the export of episodes for other viewers.

On top are the modules that commands call. `report` lists all tables of a results folder. `summary` writes quotable
sentences about these tables. `screen` prints the summary that a sweep shows at its end, and `gallery` makes the page
that lists all presets.

This package imports the store, and constants and small functions from other packages of the grid; nothing in it runs a
cell.
"""

import grid.core.moved  # noqa: F401 - old names of modules load
