"""Tables, figures, pages and a viewer, all made from a sweep's stored rows.

The rooms, from the ground up; each imports only rooms that come before it. `yaml_files` reads the files that users
write, `errors` has the error for what an analysis refuses.

- `page`: tables and figures as objects, and how they are written.
- `stats`: intervals, p values, power, calibration, agreement, regressions: numbers go in, numbers come out, and no
  results folder is read.
- `load`: a results folder as frames and as SQL, and what a reader has to know before the figures.
- `tables`: the tables of a sweep, each in the file of its subject.
- `papers`: published figures beside ours, and the planning-horizon study.
- `figures`: all drawings of a folder.
- `compare`: two runs side by side.
- `viewer`: the episodes, one page each, and their export for other viewers.

On top are the modules that commands call. `report` lists all tables of a folder. `summary` has the sentences about them
that can be quoted. `screen` is what a sweep shows at its end, and `gallery` is the page of all presets.

This package imports the store, and constants of the packages below it; nothing here runs a cell.
"""

import grid.core.moved  # noqa: F401 - old names of modules load
