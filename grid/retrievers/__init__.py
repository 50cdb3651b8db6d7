"""Which tools a decision is offered, out of a pool: by words, by meaning, all of them, or the right ones first.

Read it in this order: `scored` (BM25, dense and hybrid retrieval: tools, and any texts, paragraphs and questions too,
by words or by meaning), `oracle`, `unranked`; `sources` says where an embedding model comes from. It imports `core`,
`text` and `engines`.
"""
