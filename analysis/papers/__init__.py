"""Published figures with ours beside, and the one study that this project repeats from end to end.

`files` first: it reads the tables that papers published, `analysis/papers/tables/PAPER_tableN.yaml`. `beside` says
which setting of a sweep stands beside which row, `published` shows them, `order` whether methods stand in the same
order. `study` is planning_horizon's own: its tables, with `horizon` (its comparisons and what they say in words).
`agreement` holds scorers of plans against one another and against people, as agent_planning_benchmark does.

It imports `page`, `stats`, `load` and `tables`.
"""
