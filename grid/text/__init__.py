"""Reading text that a model, a server or a file wrote: with limits, and nothing in it is ever evaluated.

Read it in this order: `objects` (JSON in an answer, also where it is not quite JSON), `calls` and `native` (a call in
the forms that models and servers write), `left_calls`, `answers` (a decision, a plan, a score, a vote), `chains`,
`verdicts` and `refusals` (what is said of plans), `references` (how an argument names an earlier output).

`arguments` holds a call against its tool; `words`, `short_answers` and `misspelling` compare texts; `http` and
`plain_yaml` read what their names say. It imports `core` alone.
"""
