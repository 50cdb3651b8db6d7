"""Results as tables, figures, pages and a viewer: all that is read off stored rows.

Read it in this order. `load` gives frames of a results folder, `queries` the SQL that stands under a table.
`intervals` has all intervals and p values, `measures` means of groups of cells, `tables` rates, costs and paired
differences of settings. `table` says what a table is: columns that know how a row is written and what the caption
says of it; `render` makes terminal text, Markdown, CSV and LaTeX of it, `html` the page, `figures` what drawings
share. `report` lists all tables of a folder and `drawings` all figures, `summary` says on top of a page what can be
quoted, `screen` is what a sweep ends with, `gallery` the page of all presets.

A table is in the file of its subject: `results` with `baselines`, `sheets` (costs, entropy), `differences`, `pass_k`,
`disturbances`, `remembered`, `restoration`, `win_rates`, `rewards`, `tool_use`, `replacements`, `trajectories`,
`branches`, `thresholds`, `two_numbers`, `measured` (any metric by its name), `by_value`, `ranks`, and in the folders
`calibration`, `failures`, `frontier`, `search`, `plans`. The planning-horizon study is `study` with `horizon`,
`examples`, `reading`, and its regression `spec`, `formula`, `design`, `regression`. `published` holds the papers'
figures, `comparison` two runs side by side, `agreement` judges against labels, `power` how many cases a study needs,
`viewer` the episodes, `inspect_logs` writes them for others' viewers.

What has to be known before figures are read: `provenance`, `planted`, `unknowns`, `unreadable`, `served`, `partial`,
`lacking`, `left_out`, `spending`, `grading`, `heading`. Files are read by `yaml_files`, refused by `errors`.

It imports the store, and constants of the rooms below; nothing here runs a cell.
"""

import grid.core.moved  # noqa: F401 - old names of modules load
