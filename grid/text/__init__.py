"""Reading text that a model, a server or a file wrote: with limits, and nothing in it is ever evaluated.

Read it in this order: `objects` (JSON in an answer, also where it is not quite JSON), `calls` and `native` (a call in
the forms that models and servers write), `left_calls` (one that stands in prose), `answers` (a decision, a plan, a
score, a vote, a verdict, a refusal, a short answer), `chains`, `references` (how an argument names an earlier
output).

`arguments` holds a call against its tool; `words` and `misspelling` compare texts; `http` and `plain_yaml` read what
their names say. It imports `core` alone.
"""
