"""The building blocks of planners: the episode that a planner works on, and its requests to models.

Read this package in this order: `episode` (the episode itself, which enforces its budget), `progress` (the budget and
its use), `requests` (counts and records each request; a retry shows a part of the rejected answer), `options` (the
options of a decision, and their order), `prompts` (the text of the sections that prompts share), `acting` (a path of
decisions, the view of each decision, and the maximum length of a path; the config keys that all planners share; calls
that are refused), `conversation` (the history as messages, for models that receive messages, and the message after an
answer that could not be read), `asking` (one decision: the sections of its prompt in order, and the parsing of its
answer), `planning` (asks for a whole plan, parses it and runs it), `answering` (the final answer after the calls),
`outline` (substeps that the model drafts first), `judging` (a model's score), `tree` (nodes of a search).

`plan_judging` asks a model for the errors in a plan; it contains the prompts for this.

The package imports `core`, `text`, `engines` and `worlds`, and no planner, data set or metric.
"""
