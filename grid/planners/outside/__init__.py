"""Agents from outside, which have their own loops: an agent's actions become the requests and steps of an episode.

Read it in this order: `agent` (the planners: a method in this process, or a command), `session` (the agent's work in
one turn: its requests go to the acting model, its calls become steps), `chat` (OpenAI's form of a chat request and its
answer), `responses` (OpenAI's newer form, translated into the form in `chat`), `gateway` (the server on the loopback,
including MCP), `process` (a command's process, and how it is ended), `keeping` (processes that outlive an episode).
"""
