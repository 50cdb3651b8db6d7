"""Published figures beside ours, and the one study that this project repeats from end to end.

`files` comes first: it reads the tables that papers published, `analysis/papers/tables/PAPER_tableN.yaml`. `beside`
says which setting of a sweep belongs beside which row, `published` shows them, `order` says whether methods are in the
same order. `study` is planning_horizon's own: its tables, with `horizon` (its comparisons and what they say in words).
`agreement` compares scorers of plans with one another and with people, as agent_planning_benchmark does.

It imports `page`, `stats`, `load` and `tables`.
"""
