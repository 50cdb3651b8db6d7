"""Reading text that a model, a server or a file wrote: with limits, and nothing in it is ever evaluated.

Read it in this order: `objects` (JSON in an answer, also where it is not quite JSON), `calls` and `native` (a call in
the forms that models and servers write), `left_calls` (one that stands in prose), `answers` (a decision, a plan, a
score, a vote, a verdict, a refusal, a short answer, a predicted chain), `references` (how an argument names an earlier
output, and whether it fits its tool).

`words` compares texts; `http` reads what its name says. It imports `core` alone.
"""
