"""Parsing of text from a model, a server or a file, with limits and without ever evaluating text as code.

Read the modules in this order: `objects` (finds JSON in an answer, even if it is not quite valid), `calls` and `native`
(a call in the forms that models and servers write), `left_calls` (calls in an answer's text that the server did not
recognise), `answers` (reads an answer of the requested kind: a call, plan, score, vote, verdict, refusal, short answer
or predicted chain), `references` (how an argument refers to an earlier output, and whether arguments fit their tool).

`words` extracts the words by which texts are compared; `http` reads statuses (to tell which failures are temporary),
Retry-After headers and URLs. This package imports only `core`.
"""
