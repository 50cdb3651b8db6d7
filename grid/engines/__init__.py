"""Who answers: an engine completes prompts (`sample`), or gives the exact probabilities of options (`choose`).

Read it in this order: `choice` (egb_slate, algorithm 3, for any tokenizer), `names`, `rendering` (a prompt as a
chat), `answer_schema` (answers and plans under a schema), `functions` (native tools), `language_model` (what engines
with weights share). A folder an engine: `vllm`, `transformers`, `http` (servers with OpenAI's interface), and those
that are no language models, `lexical`, `simulated` and `null`.

`informed`, `places`, `recovering` and `plan_writing` serve the engines that are told the reference; `sources` and
`wheels` fetch weights; `hosted`, `probe`, `progress`, `spans`, `tokens` and `own_log` are small. It imports `core`
and `text`. What an engine cannot do it says before a sweep starts.
"""
