"""Engines complete prompts (`sample`) or give the exact probabilities of options (`choose`).

Read it in this order: `choice` (exact probabilities of numbered options: egb_slate, algorithm 3), `answer_schema`
(answers and plans under a schema), `functions` (native tools), `messages` (a prompt as the messages of a chat, with
calls and their results, for servers and chat templates alike), `language_model` (shared by the engines with weights: a
prompt in the tokenizer's chat template, choices). Each folder is an engine: `vllm` and `transformers` (`vllm/engine`
starts vLLM), `http` (servers with OpenAI's interface: `http/client` sends a request, and sends it again after a failure
that may pass; `http/chat` makes the request's body and reads the answer; `http/completions` asks for several answers,
and probes the server before a sweep), and three engines that are no language models: `lexical`, `simulated` and `null`.
`providers` lets a library carry the same requests to any provider.

`places` finds the point of a case that a prompt is about, for engines that know the reference, and counts tokens for
engines without weights; `wheels` fetches weights; `hosted` has what a replica needs around its engine: a probe before
the first cell, its progress, its log. This package imports `core` and `text`. Before a sweep starts, each engine
declares which requests it cannot answer.
"""
