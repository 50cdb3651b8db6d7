"""Results as tables, figures, pages and a viewer: all that is read off stored rows.

Rooms, from the ground up; each imports those before it, and none behind it. Files of users are read by `yaml_files`,
refused by `errors`.

- `page`: what a table and a figure are, and how they are written.
- `stats`: intervals, p values, power, calibration, agreement, regressions: numbers of numbers, without a folder.
- `load`: a results folder as frames and as SQL, and what has to be known before its figures are read.
- `tables`: the tables of a sweep, each in the file of its subject.
- `papers`: published figures with ours beside, and the planning-horizon study.
- `figures`: all drawings of a folder.
- `compare`: two runs side by side.
- `viewer`: the episodes, a page each, and for others' viewers.

On top stand those whom commands ask: `report` lists all tables of a folder, `summary` says what can be quoted of them,
`screen` is what a sweep ends with, `gallery` the page of all presets.

It imports the store, and constants of the rooms below; nothing here runs a cell.
"""

import grid.core.moved  # noqa: F401 - old names of modules load
