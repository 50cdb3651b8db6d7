"""Statistics over clusters of cases: functions that compute numbers from series and arrays.

`intervals` comes first: it computes the intervals and p values of all tables. A bootstrap that only one table needs is
in that table's file. `power` computes the number of cases that a study needs, using `latent`, a model of successes.
`calibration` is about confidences, and about handing decisions over to people. `agreement` is about scorers of plans.
Regressions have two files: `spec` (a user's file and its formula) and `design` (the rows and columns of a fit).

This package reads no results folder. Except for the reader of users' files, it imports nothing from other packages of
the analysis.
"""
