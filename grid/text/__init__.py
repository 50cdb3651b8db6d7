"""Reading text that a model, a server or a file wrote: with limits, and nothing in it is ever evaluated.

Read it in this order: `objects` (finds JSON in an answer, also if it is not quite JSON), `calls` and `native` (a call
in the forms that models and servers write), `left_calls` (a call that stands in prose), `answers` (an answer as the
call, plan, score, vote, verdict, refusal, short answer or predicted chain that was asked for), `references` (how an
argument names an earlier output, and whether it fits its tool).

`words` compares texts; `http` reads a server's statuses (which failures may pass), its Retry-After and addresses. This
package imports only `core`.
"""
