"""The building blocks of planners: the episode that a planner is given, and its requests to models.

Read it in this order: `episode` (the object, which keeps to its budget), `progress` (what a budget allows, and what was
spent), `requests` (each request: counted, recorded; a further try, which shows the rejected answer, cut), `options`
(the options of a decision, and their order), `prompts` (the text of the sections that prompts share), `acting` (a path
of decisions, what each looks at, and how long it may be; the config keys that all planners share; refusing a case),
`conversation` (the history as messages, for models that take them, and the message for an answer that could not be
read), `asking` (one decision: which sections, in which order, and reading its answer), `planning` (asks for a whole
plan, reads it and runs it), `answering` (the answer in words after the calls), `outline` (substeps that are drafted
first), `judging` (a model's score), `tree` (nodes of a search).

`plan_judging` asks a model what is wrong with a plan, and has the prompts for that.

It imports `core`, `text`, `engines` and `worlds`, and no planner, data set or metric.
"""
