"""Which tools a decision is offered, out of a pool: by words, by meaning, all of them, or the right ones first.

Read it in this order: `scored` (what retrievers by score share: how tools, and any other texts, are ranked, and how
many are kept), `bm25` (by words), `dense` (by meaning), `oracle` (the right ones first), `unranked` (all of them).
`sources` says where an embedding model comes from. `conf/retriever` names their classes. The room imports `core`,
`text` and `engines`.
"""
