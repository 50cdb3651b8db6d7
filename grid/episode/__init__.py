"""What planners are written with: the episode that a planner is given, and what it asks of models in it.

Read it in this order: `episode` (the object), `requests` and `progress` (what it counts and records), `options` and
`view` (what a decision sees), `prompts` (its sections and their order), `asking` (one decision), `acting` (a loop of
them; the keys that all planners share), `planning` and `drafting` (whole plans), `answering`, `turns` and `outline`
(what is done for every planner, around it), `again` and `refusing`, `judging` (a model's score), `tree` (nodes of a
search).

Whole plans are diagnosed by `plan_judging`, its prompts included; `chains` has their steps.

It imports `core`, `text`, `engines` and `worlds`, and no planner, data set or metric.
"""
