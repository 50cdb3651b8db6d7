"""Planners, one module for each paper: each planner has one method, `solve(episode)`, and a file in `conf/planner`.

Read `react` first, then `zero_shot`, `horizon` (single-step and full: planning_horizon), `apb` (holistic, plan-first
and step-wise: agent_planning_benchmark), `self_consistency`, `reflexion` (with a control planner), `egb` (egb_slate §5:
where to branch). The planners that search a tree share the kernel `search`: `tooltree`, `mcts`, `lats`, `tot`, `dfsdt`,
`astar`, `best_first`. `refuser` is a baseline. `outside` is for agents with loops of their own: programs and agent
libraries.

Several planners share `votes` and `side_by_side`; `refining` (plans are criticised and rewritten), `remembering`
(traces of other cases) and `restoring` (a judge's wrong decisions are corrected) can be set for any planner. This
package imports `episode`, `engines`, `text` and `core`: a planner does not depend on any data set, world or config.
"""
