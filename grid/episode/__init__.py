"""What planners are written with: the episode that a planner is given, and what it asks of models in it.

Read it in this order: `episode` (the object, which keeps to its budget), `progress` (what a budget allows, and what
was spent), `requests` (each request: counted, recorded; a try after an answer that could not be used), `options` (which
tools a decision is offered), `prompts` (the sections of a prompt), `acting` (a path of decisions, what each sees, and
how long it may be; the keys that all planners share; refusing a case), `asking` (one decision: its sections in their
order, its answer), `planning` (whole plans), `answering` (the answer in words after the calls) and `outline` (substeps
that are drafted first), `judging` (a model's score), `tree` (nodes of a search).

Whole plans are diagnosed by `plan_judging`, its prompts included.

It imports `core`, `text`, `engines` and `worlds`, and no planner, data set or metric.
"""
