"""Statistics over clusters of cases: series and arrays go in, numbers come out.

`intervals` comes first: how the intervals and p values of all tables are computed; a bootstrap that only one table
needs is in that table's file. Then further subjects: `power` (how many cases a study needs) with its model of
successes, `latent`; `calibration` of confidences, and handing decisions over; `agreement` of scorers of plans;
regressions, with `spec` (what a user's file asks for, and its formula) and `design` (its rows and columns).

It reads no results folder, and imports nothing from the other rooms, except the reader of users' files.
"""
