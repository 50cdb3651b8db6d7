"""Reading text from a model, a server or a file: with limits, and without ever evaluating it as code.

Read it in this order: `objects` (finds JSON in an answer, also if it is not quite JSON), `calls` and `native` (a call
in the forms that models and servers write), `left_calls` (calls in an answer's text that the server did not recognise),
`answers` (reads an answer of the kind that was asked for: a call, plan, score, vote, verdict, refusal, short answer or
predicted chain), `references` (how an argument names an earlier output, and whether arguments fit their tool).

`words` has the words by which texts are compared; `http` reads statuses (which failures may pass), Retry-After headers
and URLs. This package imports only `core`.
"""
