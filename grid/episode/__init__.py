"""The building blocks of planners: the episode that a planner is given, and its requests to models.

Read it in this order: `episode` (the episode itself, which keeps to its budget), `progress` (the budget, and what was
used), `requests` (counts and records each request; a further try shows a part of the rejected answer), `options` (the
options of a decision, and their order), `prompts` (the text of the sections that prompts share), `acting` (a path of
decisions, the view of each decision, and the greatest length of a path; the config keys that all planners share; calls
that are refused), `conversation` (the history as messages, for models that get messages, and the message after an
answer that could not be read), `asking` (one decision: the sections of its prompt in their order, and reading its
answer), `planning` (asks for a whole plan, reads it and runs it), `answering` (the answer in words after the calls),
`outline` (substeps that the model drafts first), `judging` (a model's score), `tree` (nodes of a search).

`plan_judging` asks a model what is wrong with a plan, and has the prompts for that.

The package imports `core`, `text`, `engines` and `worlds`, and no planner, data set or metric.
"""
