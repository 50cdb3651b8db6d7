"""Planners, a file a paper: each has one method, `solve(episode)`, and a file in `conf/planner`.

Begin with `react`, then `zero_shot`, `horizon` (single-step and full: planning_horizon), `apb` (holistic, plan-first
and step-wise: agent_planning_benchmark), `self_consistency`, `reflexion` (with its control), `egb` (egb_slate §5: where
to branch). Those that search a tree share `search`, the kernel: `tooltree`, `mcts`, `lats`, `tot`, `dfsdt`, `astar`,
`best_first`. `refuser` is a baseline. `outside` is for loops that are not ours: programs, and agents' libraries.

`votes` and `side_by_side` are what several share; `refining` (plans are criticised and written again), `remembering`
(what other cases showed) and `restoring` (a judge's wrong decisions set right) are settings around any planner. It
imports `episode`, `text` and `core`: a planner knows no data set, world or config.
"""
