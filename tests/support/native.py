"""For tests of native tool calls: answers in models' own formats, an engine that gives them, a case without outline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from grid.core.engine import NATIVE, SAMPLE, Choice, Home, Prompt, Sampled
from grid.core.types import Case, Json, Plan, ToolSpec, Usage, to_json
from grid.episode.episode import Episode
from grid.episode.progress import Budget
from tests.support.world import PLAN, TOOLS, Counting, small_world

HERMES = (
    "{%- if tools %}<|im_start|>system\n{{ messages[0].content if messages[0].role == 'system' }}\n<tools>"
    "{%- for tool in tools %}\n{{ tool | tojson }}{%- endfor %}\n</tools>\n"
    'Calls: <tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n'
    "{%- endif %}{% for message in messages %}{% if not (tools and message.role == 'system') %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}{% for call in message.tool_calls %}<tool_call>\n"
    "{{ call.function | tojson }}\n</tool_call>{% endfor %}<|im_end|>\n{% endif %}{% endfor %}<|im_start|>assistant\n"
)
"""A chat template in the manner of Hermes: definitions and form behind the system's message."""

Written = tuple[str, dict[str, Json]]
FIND: Written = ("find", {"order": "A-1"})
QUOTE: Written = ("quote", {"item": "OUTPUT_FROM_STEP_0.item"})
BOOK: Written = ("book", {"quote": "OUTPUT_FROM_STEP_1.quote"})


def tagged(*calls: Written, words: str = "") -> str:
    """Calls as Hermes and Qwen write them."""
    texts = [f"<tool_call>\n{to_json({'name': name, 'arguments': given})}\n</tool_call>" for name, given in calls]
    return "\n".join([words, *texts] if words else texts)


@dataclass
class Native:
    """Takes functions, and gives the answers in their order; each costs 100 tokens in and 7 out."""

    answers: Sequence[str]
    prompts: list[Prompt] = field(default_factory=list)
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, NATIVE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "test"
    sampler: ClassVar[None] = None
    version: str = "native"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        text = self.answers[min(len(self.prompts), len(self.answers) - 1)]
        self.prompts.append(prompt)
        return Sampled((text,) * n, Usage(n, 0, 100 * n, 0, 7 * n))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        raise TypeError("no choices")


def episode(
    engine: Native,
    *,
    outlined: bool = False,
    world: Counting | None = None,
    tools: Sequence[ToolSpec] = tuple(TOOLS.values()),
) -> Episode:
    """The small case, without its outline."""
    return Episode(
        Case("small", "Please book again what I bought in order A-1.", PLAN if outlined else Plan(())),
        world or small_world(),
        engine,
        lambda case, substep: tuple(tools),
        Budget(),
        1,
        order_seed=3,
    )
