"""Planners, one file for each paper: each has one method, `solve(episode)`, and a file in `conf/planner`.

Begin with `react`, then `zero_shot`, `horizon` (single-step and full: planning_horizon), `apb` (holistic, plan-first
and step-wise: agent_planning_benchmark), `self_consistency`, `reflexion` (with a control planner), `egb` (egb_slate §5:
where to branch). The planners that search a tree share the kernel `search`: `tooltree`, `mcts`, `lats`, `tot`, `dfsdt`,
`astar`, `best_first`. `refuser` is a baseline. `outside` is for agents with loops of their own: programs, and libraries
of agents.

Several planners share `votes` and `side_by_side`; `refining` (plans are criticised and written again), `remembering`
(traces of other cases) and `restoring` (a judge's wrong decisions are corrected) are settings around any planner. This
package imports `episode`, `text` and `core`: a planner knows no data set, world or config.
"""
