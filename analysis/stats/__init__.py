"""Statistics over clusters of cases: series and arrays go in, numbers come out.

`intervals` first: how the intervals and p values of all tables are computed; a bootstrap that only one table needs is
in that table's file. Then what stands by itself: `power` (how many cases a study needs) with its model of successes,
`latent`; `calibration` of confidences and handing decisions over; `agreement` of scorers of plans; regressions, with
`spec` (what a user's file asks for, and its formula) and `design` (rows and columns of it).

It reads no results folder, and imports nothing of the other rooms but how a user's files are read.
"""
