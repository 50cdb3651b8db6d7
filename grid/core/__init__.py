"""What every other room speaks of, and nothing else: it imports nothing of the project but itself.

Read it in this order: `types` (tools, calls, observations, steps, trajectories), `problem` (what a data set gives:
cases, references, outcomes), `world` (what tools do, and what resolves a case), `retriever` (which tools are
offered), `engine` (prompts, the answers that are wanted, and the two verbs `sample` and `choose`), `roles` (who is
asked besides the planner), `metric` (what is measured, and what each name means), `errors`.

The rest is small: `untrusted` reads and shows what others wrote, `cache` keeps what is made once, `chains`,
`reference` (what a case is held against), `plan_answers` and `verdicts` are forms of plans and of answers, `seeds`
makes a seed of names, `strict` checks what YAML gives a class; and `moved` has the names that modules had before.
"""
