"""Published figures next to ours, and the study that this project repeats from end to end.

`files` comes first: it reads published tables from `analysis/papers/tables/*.yaml`. `beside` matches the settings of a
sweep with the rows of such a table. `published` shows these rows and settings together. `order` tests whether methods
are in the same order as in the paper. `study` has the tables of planning_horizon, and `horizon` computes the
comparisons of that study and puts them into words. `agreement` compares scorers of plans with one another and with
people, as agent_planning_benchmark does.

This package imports `page`, `stats`, `load` and `tables`.
"""
