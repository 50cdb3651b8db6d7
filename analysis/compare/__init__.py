"""Compare two runs: match their settings and cases, and show what changed and how the runs themselves differ.

`runs` matches settings and cases, and counts. `tables` (of this room) shows the tables and the figure, and has the
function `compare`, which a command calls.

It imports `page`, `stats` and `load`.
"""
