"""Agents from outside: a loop that is not ours decides, and what it does becomes an episode's requests and steps.

Read it in this order: `agent` (the planners: a method in this process, or a command), `session` (what an agent may do,
and how a request becomes the acting model's and a call a step), `chat` (OpenAI's form of a request and an answer),
`responses` (their newer form, written as that one), `gateway` (the server on the loopback, MCP included), `process` (a
command's process, and its end), `keeping` (processes that outlive an episode).
"""
