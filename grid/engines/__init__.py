"""Who answers: an engine completes prompts (`sample`), or gives the exact probabilities of options (`choose`).

Read it in this order: `choice` (egb_slate, algorithm 3, for any tokenizer; tools' names as options), `answer_schema`
(answers and plans under a schema), `functions` (native tools), `language_model` (what engines with weights share: a
prompt as a chat, choices). A folder an engine: `vllm`, `transformers`, `http` (servers with OpenAI's interface), and
those that are no language models, `lexical`, `simulated` and `null`.

`places` (where a prompt stands in a case, and what the reference does there) serves the engines that are told the
reference, and counts tokens for those without weights; `wheels` fetches weights; `hosted` is what replicas need of an
engine: a probe before the first cell, progress, its own log. It imports `core` and `text`. What an engine cannot do it
says before a sweep starts.
"""
