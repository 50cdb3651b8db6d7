"""What planners are written with: the episode that a planner is given, and what it asks of models in it.

Read it in this order: `episode` (the object, which keeps to its budget), `progress` (what a budget allows, and what
was spent), `requests` (each request: counted, recorded), `options` and `view` (what a decision sees), `prompts` (the
sections of a prompt), `asking` (one decision: its sections in their order, its answer), `acting` (a path of decisions,
and how long it may be; the keys that all planners share; refusing a case), `planning` (whole plans), `answering` (the
answer in words after the calls) and `outline` (substeps that are drafted first), `again` (a try after an answer that
could not be used), `judging` (a model's score), `tree` (nodes of a search).

Whole plans are diagnosed by `plan_judging`, its prompts included.

It imports `core`, `text`, `engines` and `worlds`, and no planner, data set or metric.
"""
