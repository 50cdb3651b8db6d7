"""Published figures beside ours, and the study that this project repeats from end to end.

`files` comes first: it reads published tables from `analysis/papers/tables/PAPER_tableN.yaml`. `beside` says which
setting of a sweep belongs beside which row of such a table. `published` shows rows and settings together. `order` says
whether methods are in the same order as in the paper. `study` has the tables of planning_horizon, and `horizon` the
comparisons of that study, also in words. `agreement` compares scorers of plans with one another and with people, as
agent_planning_benchmark does.

It imports `page`, `stats`, `load` and `tables`.
"""
