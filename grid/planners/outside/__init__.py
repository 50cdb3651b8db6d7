"""Agents from outside: a loop that is not ours decides, and what it does becomes an episode's requests and steps.

Read it in this order: `agent` (the planners: a method in this process, or a command), `session` (what an agent may do:
its requests go to the acting model, its calls become steps), `chat` (OpenAI's form of a request and an answer),
`responses` (OpenAI's newer form, translated to that form), `gateway` (the server on the loopback, MCP included),
`process` (a command's process, and its end), `keeping` (processes that outlive an episode).
"""
