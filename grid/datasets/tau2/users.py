"""What is told of the user: to whoever plays them, or, where nobody does, to the agent as a ticket."""

from __future__ import annotations

from grid.worlds.tau2.tasks import Task

PARTS = {
    "reason_for_call": "Why they get in touch",
    "known_info": "What they know",
    "unknown_info": "What they do not know",
    "task_instructions": "What else holds for them",
}
"""What a user's instructions are about, by their names in the data."""
TICKET = (
    "A customer has written in, and nobody can be asked back. What follows was written for somebody who plays the "
    "customer; take it as all that they know, want and would say, and that they agree to whatever does what they want.",
    "When you finish, your answer is what they are told.",
)


def scenario(guidelines: str, task: Task) -> tuple[str, ...]:
    """What somebody is told who plays the user: the data's guidelines, a persona where there is one, instructions."""
    persona = ("Persona:", task.persona) if task.persona else ()
    return (guidelines, *persona, "Instructions:", *_instructions(task))


def ticket(task: Task) -> str:
    """The user's instructions as a ticket: who solves it knows more from the start than one who has to ask."""
    return "\n".join((*TICKET, *_instructions(task)))


def _instructions(task: Task) -> tuple[str, ...]:
    named = {**PARTS, **{name: name for name in task.instructions if name not in PARTS}}
    return tuple(f"{named[part]}: {task.instructions[part]}" for part in named if part in task.instructions)
