"""Statistics over clusters of cases: functions from series and arrays to numbers.

`intervals` comes first: it computes the intervals and p values of all tables. A bootstrap that only one table needs is
in that table's file. `power` computes how many cases a study needs, with `latent`, its model of successes.
`calibration` is about confidences, and about handing decisions over to people. `agreement` is about scorers of plans.
Regressions have two files: `spec` (a user's file and its formula) and `design` (the rows and columns of a fit).

This package reads no results folder. It imports nothing from the other rooms, except the reader of users' files.
"""
