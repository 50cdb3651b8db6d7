"""Results as tables, figures, pages and a viewer: all that is read from stored rows.

The rooms, from the ground up; each imports only rooms that come before it. `yaml_files` reads the files of users,
`errors` has the error for what it refuses.

- `page`: tables and figures as objects, and how they are written.
- `stats`: intervals, p values, power, calibration, agreement, regressions: numbers from numbers, without a folder.
- `load`: a results folder as frames and as SQL, and what has to be known before its figures are read.
- `tables`: the tables of a sweep, each in the file of its subject.
- `papers`: published figures beside ours, and the planning-horizon study.
- `figures`: all drawings of a folder.
- `compare`: two runs side by side.
- `viewer`: the episodes, one page each, and their export for other viewers.

On top are the modules that commands call: `report` lists all tables of a folder, `summary` says what can be quoted from
them, `screen` is what a sweep shows at its end, `gallery` the page of all presets.

It imports the store, and constants of the rooms below; nothing here runs a cell.
"""

import grid.core.moved  # noqa: F401 - old names of modules load
