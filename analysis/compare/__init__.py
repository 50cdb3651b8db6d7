"""Two runs side by side: settings and cases matched, what changed, and how the runs themselves differ.

`runs` matches them and counts, `tables` (of this room) shows the tables and the figure; a command calls its `compare`.

It imports `page`, `stats` and `load`.
"""
