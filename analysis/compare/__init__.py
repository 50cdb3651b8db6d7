"""Two runs side by side: settings and cases matched, what changed, and what was different about the runs.

`runs` matches them and counts, `tables` (of this room) shows it, figures too; a command asks its `compare`.

It imports `page`, `stats` and `load`.
"""
