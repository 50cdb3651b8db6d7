"""Compare two runs: match their settings and cases, and show how results changed and how the runs themselves differ.

`runs` matches settings and cases, and computes their differences. `tables` (in this package) makes the tables and the
figure, and has the function `compare`, which a command calls.

This package imports `page`, `stats` and `load`.
"""
