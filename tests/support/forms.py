"""The forms in which servers and models give one call, `add(a=1, b=2)`, and what is right to make of each.

A form says how a turn's answer comes back: in a message's calls (`native`), left in its text by a server whose parser
does not know the model (`LEFT`), or as the object that a prompt asks for (`prompt`). All say the same call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from tests.support.http_server import Reply

Right = Literal["read", "unreadable", "words", "failed", "ended"]
"""What is right: the call is read; it is not, and that is told; words are read, which call nothing; the server failed,
which tells nothing of the model; the model's own failure ended the case."""
Mode = Literal["native", "prompt"]

NAME, ARGUMENTS = "add", {"a": 1, "b": 2}
USAGE = {"prompt_tokens": 40, "completion_tokens": 9, "total_tokens": 49}
_A, _CALL = json.dumps(ARGUMENTS), json.dumps({"name": NAME, "arguments": ARGUMENTS})
_PARAMETERS = json.dumps({"name": NAME, "parameters": ARGUMENTS})
_CODE = f"{NAME}(a=1, b=2)"
_BARS = "\uff5c"  # DeepSeek's wide bar
_TAGS = "<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n</parameter>\n"


@dataclass(frozen=True)
class Turn:
    """What is to be said: the call, or that the work is over; `plan`: as all calls at once, in one object."""

    mode: Mode
    over: bool
    plan: bool

    @property
    def text(self) -> str:
        """The object that a prompt asks for."""
        call = {"tool": NAME, "arguments": ARGUMENTS}
        end = {"tool": "finish", "arguments": {"answer": "done"}}
        if self.plan:
            return json.dumps({"plan": [call]})
        return json.dumps({"action": end if self.over else call})

    @property
    def message(self) -> dict[str, Any]:
        """The message of a server without a fault."""
        if self.mode == "prompt":
            return {"role": "assistant", "content": self.text}
        if self.over:
            return {"role": "assistant", "content": "That is done."}
        return {"role": "assistant", "content": None, "tool_calls": calls()}


def calls(name: str = NAME, arguments: Any = _A) -> list[dict[str, Any]]:
    """A message's calls: the one, under a name and with arguments that may be odd."""
    return [{"id": "call_0", "type": "function", "function": {"name": name, "arguments": arguments}}]


@dataclass(frozen=True)
class Form:
    """A form by its name: what it is, what is right, how a turn comes back in it, and in which modes there is one.

    `row` has columns that episodes must have, those of tokens for each answer, `otherwise` what is right for a mode and
    planner instead.
    """

    name: str
    says: str
    right: Right
    reply: Callable[[Turn], Reply]
    modes: tuple[Mode, ...] = ("native", "prompt")
    row: Mapping[str, Any] = field(default_factory=dict)
    otherwise: dict[tuple[Mode, str], Right] = field(default_factory=dict)


def answered(turn: Turn, *, finish: str | None = None, usage: Any = USAGE, more: Any = None, **message: Any) -> Reply:
    """A turn's message, some of it changed, as a server sends it; `more` are keys of the whole body."""
    made = turn.message | message
    reason = finish or ("tool_calls" if made.get("tool_calls") else "stop")
    body = {"id": "x", "model": "m", "choices": [{"index": 0, "message": made, "finish_reason": reason}]}
    return Reply(body=body | ({} if usage is None else {"usage": usage}) | (more or {}))


def _counted(turn: Turn, **usage: Any) -> Reply:
    """A good answer with other counts of tokens; None: without that key."""
    given = USAGE | usage
    return answered(turn, usage={key: value for key, value in given.items() if value is not None})


def _in_parts(turn: Turn) -> Reply:
    """Content as a list of parts, a thought among them."""
    text = turn.message["content"]
    parts = [{"type": "thinking", "thinking": "They are to be added."}]
    return answered(turn, content=[*parts, *([{"type": "text", "text": text}] if text else [])])


def _left(text: str, turn: Turn) -> Reply:
    return answered(turn) if turn.over else answered(turn, content=text, tool_calls=None)


LEFT: dict[str, tuple[str, Right]] = {
    "hermes": (f"<tool_call>\n{_CALL}\n</tool_call>", "read"),
    "hermes_behind_words": (f"I will add them.\n<tool_call>{_CALL}</tool_call>", "read"),
    "hermes_without_end": (f"<tool_call>{_CALL}", "read"),
    "hermes_broken_off": (f"<tool_call>{_CALL[:-12]}", "unreadable"),
    "qwen_coder": (f"<tool_call>\n<function=add>\n{_TAGS}</function>\n</tool_call>", "read"),
    "qwen_coder_without_opening": (f"I add them now.\n<function=add>\n{_TAGS}</function>\n</tool_call>", "read"),
    "qwen_coder_without_ends": ("<function=add>\n<parameter=a>\n1\n<parameter=b>\n2\n</function>", "read"),
    "qwen_coder_broken_off": (
        "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>",
        "unreadable",
    ),
    "llama_function": (f"<function=add>{_A}</function>", "read"),
    "llama_parameters": (_PARAMETERS, "read"),
    "llama_python_tag": (f"<|python_tag|>{_PARAMETERS}", "read"),
    "llama_python_call": (f"<|python_tag|>{NAME}.call(a=1, b=2)", "unreadable"),
    "list_of_code": (f"[{_CODE}]", "read"),
    "code": (_CODE, "read"),
    "code_behind_words": (f"I will add them:\n{_CODE}", "read"),
    "code_with_places": (f"{NAME}(1, 2)", "read"),
    "code_in_fence": (f"```python\n{_CODE}\n```", "read"),
    "code_in_backticks": (f"`{_CODE}`", "unreadable"),
    "code_with_colons": (f"{NAME}(a: 1, b: 2)", "unreadable"),
    "code_broken_off": (f"{NAME}(a=1, b=", "unreadable"),
    "code_of_more": (f"```python\nfor n in range(2):\n    {_CODE}\n```", "unreadable"),
    "gemma_tool_code": (f"```tool_code\n{_CODE}\n```", "read"),
    "gemini_default_api": (f"```tool_code\nprint(default_api.{_CODE})\n```", "read"),
    "function_gemma": ("<start_function_call>call:add{a:1,b:<escape>2<escape>}<end_function_call>", "unreadable"),
    "lfm": (f"<|tool_call_start|>[{_CODE}]<|tool_call_end|>", "read"),
    "olmo": (f"<function_calls>\n{_CODE}\n</function_calls>", "read"),
    "minimax": (
        '<minimax:tool_call>\n<invoke name="add">\n<parameter name="a">1</parameter>\n<parameter name="b">2</parameter>'
        "\n</invoke>\n</minimax:tool_call>",
        "read",
    ),
    "step": (
        '<steptml:invoke name="add"><steptml:parameter name="a">1</steptml:parameter><steptml:parameter name="b">2'
        "</steptml:parameter></steptml:invoke>",
        "read",
    ),
    "deepseek": (
        f"<{_BARS}tool▁calls▁begin{_BARS}><{_BARS}tool▁call▁begin{_BARS}>function<{_BARS}tool▁sep{_BARS}>add\n"
        f"```json\n{_A}\n```<{_BARS}tool▁call▁end{_BARS}><{_BARS}tool▁calls▁end{_BARS}>",
        "read",
    ),
    "deepseek_3_1": (
        f"<{_BARS}tool▁calls▁begin{_BARS}><{_BARS}tool▁call▁begin{_BARS}>add<{_BARS}tool▁sep{_BARS}>{_A}"
        f"<{_BARS}tool▁call▁end{_BARS}><{_BARS}tool▁calls▁end{_BARS}>",
        "read",
    ),
    "deepseek_3_2": (
        f'<{_BARS}DSML{_BARS}function_calls>\n<{_BARS}DSML{_BARS}invoke name="add">\n'
        f'<{_BARS}DSML{_BARS}parameter name="a" string="false">1</{_BARS}DSML{_BARS}parameter>\n'
        f'<{_BARS}DSML{_BARS}parameter name="b" string="false">2</{_BARS}DSML{_BARS}parameter>\n'
        f"</{_BARS}DSML{_BARS}invoke>\n</{_BARS}DSML{_BARS}function_calls>",
        "read",
    ),
    "kimi": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>"
        f"{_A}<|tool_call_end|><|tool_calls_section_end|>",
        "read",
    ),
    "harmony": (f"<|channel|>commentary to=functions.add <|constrain|>json<|message|>{_A}<|call|>", "read"),
    "harmony_without_marks": (f"I need it.assistantcommentary to=functions.add json{_A}", "read"),
    "mistral": (f"[TOOL_CALLS][{_CALL}]", "read"),
    "mistral_arguments": (f"[TOOL_CALLS]add[ARGS]{_A}", "read"),
    "mistral_without_marks": (f"add{_A}", "read"),
    "granite": (f"<|tool_call|>[{_CALL}]", "read"),
    "cohere": (
        f'<|START_ACTION|>[{{"tool_call_id": "0", "tool_name": "add", "parameters": {_A}}}]<|END_ACTION|>',
        "read",
    ),
    "nemotron": (f"<TOOLCALL>[{_CALL}]</TOOLCALL>", "read"),
    "glm": (
        "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n<arg_key>b</arg_key>\n"
        "<arg_value>2</arg_value>\n</tool_call>",
        "read",
    ),
    "glm_without_opening": ("add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>", "unreadable"),
    "react_text": (f"Thought: they are added.\nAction: add\nAction Input: {_A}", "read"),
    "react_code": (f"Action: {_CODE}", "read"),
    "react_brackets": ("Action: add[1, 2]", "unreadable"),
    "object": (_CALL, "read"),
    "object_in_fence": (f"```json\n{_CALL}\n```", "read"),
    "object_of_arguments": (_A, "unreadable"),
    "tags_of_names": ("<add>\n<a>1</a>\n<b>2</b>\n</add>", "unreadable"),
    "yaml": ("tool: add\narguments:\n  a: 1\n  b: 2", "unreadable"),
    "words_and_arguments": (f"Calling add with {_A}", "unreadable"),
    "other_tool": ('<tool_call>{"name": "sum_of", "arguments": {"a": 1}}</tool_call>', "unreadable"),
    "other_tool_in_code": ("[sum_of(a=1, b=2)]", "unreadable"),
    "words": ("I have no tool that can do this.", "words"),
    "words_that_name_a_tool": ("The tool add could do it, but add() needs two numbers.", "words"),
}
"""By name what a server left in the text of its message, and what is right."""


def _cut(turn: Turn) -> Reply:
    """An answer that broke off in the middle."""
    if turn.mode == "prompt":
        return answered(turn, finish="length", content=turn.text[:-12])
    return answered(turn, finish="length", tool_calls=calls(arguments=_A[:-4]))


def _thinking(turn: Turn, text: str, finish: str = "length", tags: bool = False) -> Reply:
    """A thought that considers the call (or the end) and breaks off."""
    considered = text.format(turn.text if turn.mode == "prompt" else _CALL)
    return answered(turn, finish=finish, content=f"<think>{considered}" if tags else considered, tool_calls=None)


def _misplaced(turn: Turn, before: str = "", key: str = "reasoning_content") -> Reply:
    """The whole answer in the place of a thought, `before` in front of it."""
    if turn.mode == "native" and turn.over:
        return answered(turn)
    said = before + (turn.text if turn.mode == "prompt" else f"<tool_call>{_CALL}</tool_call>")
    return answered(turn, content=None, tool_calls=None, **{key: said})


def _odd(turn: Turn, name: str = NAME, arguments: Any = _A) -> Reply:
    """A call whose name or arguments are written in an odd way."""
    return answered(turn) if turn.over else answered(turn, tool_calls=calls(name, arguments))


def _function_call(turn: Turn) -> Reply:
    said = {"name": NAME, "arguments": _A}
    return answered(turn) if turn.over else answered(turn, tool_calls=None, function_call=said)


def _nothing(turn: Turn, finish: str = "stop", **message: Any) -> Reply:
    """A message without content and calls."""
    return answered(turn, finish=finish, **{"content": None, "tool_calls": None, **message})


def _in_choice(turn: Turn, error: Any) -> Reply:
    reply = answered(turn, finish="error", content="", tool_calls=None)
    reply.body["choices"][0]["error"] = error
    return reply


def _error(status: int, code: Any, message: str, turn: Turn) -> Reply:
    return Reply(status, {"error": {"message": message, "type": "invalid_request_error", "code": code}})


_NATIVE: tuple[Mode, ...] = ("native",)
_PROMPT: tuple[Mode, ...] = ("prompt",)
_UPSTREAM = {"code": 502, "message": "the upstream died"}
_NO_TOKENS = USAGE | {"completion_tokens": 0, "total_tokens": 40}
MESSAGES: tuple[Form, ...] = (
    Form("well", "a server without a fault", "read", answered),
    Form("null_content", "no content and no calls", "unreadable", _nothing),
    Form("empty_content", "content of blanks", "unreadable", partial(_nothing, content=" \n")),
    Form("refusal", "a refusal in place of content", "unreadable", partial(_nothing, refusal="I will not.")),
    Form("filter", "a filter took the answer away", "unreadable", partial(_nothing, finish="content_filter")),
    Form("cut", "the limit came inside the call", "unreadable", _cut),
    Form(
        "cut_behind",
        "the limit came behind a whole answer; calls of a plan may be missing",
        "read",
        partial(answered, finish="length"),
        otherwise={("native", "zero_shot"): "unreadable"},
    ),
    Form(
        "cut_thought",
        "a thought without tags that considers the call breaks off",
        "unreadable",
        partial(_thinking, text="Should I say {}? Perhaps, but then again"),
    ),
    Form(
        "cut_thought_behind_call",
        "a thought breaks off directly behind what it considers",
        "unreadable",
        partial(_thinking, text="One answer is {}"),
    ),
    Form(
        "cut_thought_in_tags",
        "a thought in tags breaks off",
        "unreadable",
        partial(_thinking, text="Should I say {}?", tags=True),
    ),
    Form(
        "cut_thought_by_other_word",
        "the limit under another name, max_tokens",
        "unreadable",
        partial(_thinking, text="Should I say {}? Perhaps", finish="max_tokens"),
    ),
    Form("misplaced", "the answer stands in reasoning_content only", "read", _misplaced),
    Form("misplaced_reasoning", "the answer stands in reasoning only", "read", partial(_misplaced, key="reasoning")),
    Form(
        "misplaced_call",
        "a marked call behind a thought in reasoning_content",
        "read",
        partial(_misplaced, before="I add them. "),
        _NATIVE,
    ),
    Form(
        "considered",
        "an object behind a thought in reasoning_content: it may be one that was considered",
        "unreadable",
        partial(_misplaced, before="I could say "),
        _PROMPT,
    ),
    Form(
        "thought_only",
        "a thought in reasoning_content and no answer",
        "unreadable",
        partial(_nothing, reasoning_content="I could add them."),
    ),
    Form("function_call", "function_call, as before tool_calls", "read", _function_call, _NATIVE),
    Form("arguments_twice", "arguments as JSON twice", "read", partial(_odd, arguments=json.dumps(_A)), _NATIVE),
    Form("arguments_and_empty", 'arguments with "" behind', "read", partial(_odd, arguments=f'{_A}""'), _NATIVE),
    Form("arguments_object", "arguments as an object", "read", partial(_odd, arguments=ARGUMENTS), _NATIVE),
    Form("arguments_broken", "arguments that break off", "unreadable", partial(_odd, arguments=_A[:-4]), _NATIVE),
    Form("name_functions", "functions.add:0", "read", partial(_odd, name="functions.add:0"), _NATIVE),
    Form("name_default_api", "default_api.add", "read", partial(_odd, name="default_api.add"), _NATIVE),
    Form("name_mcp", "mcp__sums__add", "read", partial(_odd, name="mcp__sums__add"), _NATIVE),
    Form("name_channel", "add<|channel|>commentary", "read", partial(_odd, name="add<|channel|>commentary"), _NATIVE),
    Form("name_unknown", "a function that was not offered", "unreadable", partial(_odd, name="sum_of"), _NATIVE),
    Form(
        "half_surrogate", "half a surrogate pair beside the call", "read", partial(answered, content="\ud83d"), _NATIVE
    ),
    Form("finish_error", "HTTP 200, finish_reason error, empty", "failed", partial(_nothing, finish="error")),
    Form("choice_error", "HTTP 200, an error in the choice", "failed", partial(_in_choice, error=_UPSTREAM)),
    Form("body_error", "HTTP 200, an error and no choices", "failed", lambda turn: Reply(body={"error": _UPSTREAM})),
    Form("no_tokens", "HTTP 200, an empty stop of 0 tokens", "failed", partial(_nothing, usage=_NO_TOKENS)),
    Form("bad_gateway", "HTTP 502", "failed", partial(_error, 502, None, "bad gateway")),
    Form(
        "tool_use_failed",
        "HTTP 400, the server could not read the model's call",
        "unreadable",
        partial(_error, 400, "tool_use_failed", "Failed to call a function. Please adjust your prompt."),
        row={"output_tokens": None},
    ),
    Form(
        "harmony_error",
        "HTTP 400, the channels' parser broke off",
        "unreadable",
        partial(_error, 400, 400, "unexpected tokens remaining in message header: ['to=functions.add']"),
    ),
    Form(
        "harmony_error_500",
        "the same as HTTP 500",
        "unreadable",
        partial(_error, 500, 500, "openai_harmony.HarmonyError: unexpected tokens remaining in message header"),
    ),
    Form(
        "filter_400",
        "HTTP 400, a filter refused the prompt or the answer",
        "unreadable",
        partial(_error, 400, "content_filter", "The response was filtered due to the content management policy."),
    ),
    Form(
        "too_long_tgi",
        "HTTP 422, the context is too small, in TGI's words",
        "ended",
        partial(_error, 422, None, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096."),
    ),
    Form(
        "too_long_500",
        "HTTP 500, the context is too small",
        "ended",
        partial(_error, 500, None, "The input (9120 tokens) is longer than the model's context length (8192 tokens)."),
    ),
    Form(
        "too_long",
        "HTTP 400, the context is too small",
        "ended",
        partial(_error, 400, "context_length_exceeded", "This model's maximum context length is 40 tokens."),
    ),
)
"""Forms of a whole message, or of what stands in its place."""

_CACHED, _THOUGHT = "prompt_tokens_details", "completion_tokens_details"
_UNKNOWN = {"input_tokens": None, "output_tokens": None, "money": None}
COUNTS: tuple[Form, ...] = (
    *(
        Form(f"usage_{name}", says, "read", partial(_counted, **usage), row=row)
        for name, says, usage, row in (
            (
                "cached_beside",
                "more cached tokens than the prompt has",
                {"prompt_tokens": 12, "total_tokens": 21, _CACHED: {"cached_tokens": 2495}},
                {"input_tokens": 2507, "cached_input_tokens": 2495, "output_tokens": 9},
            ),
            (
                "thought_beside",
                "thought beside the completion: the total tells",
                {"total_tokens": 189, _THOUGHT: {"reasoning_tokens": 140}},
                {"input_tokens": 40, "output_tokens": 149, "reasoning_tokens": 140},
            ),
            (
                "thought_within",
                "thought within the completion",
                {"completion_tokens": 149, "total_tokens": 189, _THOUGHT: {"reasoning_tokens": 140}},
                {"input_tokens": 40, "output_tokens": 149, "reasoning_tokens": 140},
            ),
            ("zeros", "zeros", dict.fromkeys(USAGE, 0), _UNKNOWN),
            ("contradictory", "a total that no reading explains", {"total_tokens": 4711}, _UNKNOWN),
            ("negative", "a count below zero", {"prompt_tokens": -40}, _UNKNOWN),
            ("without_completion", "no count of the completion", {"completion_tokens": None}, _UNKNOWN),
        )
    ),
    Form("usage_absent", "no usage at all", "read", partial(answered, usage=None), row=_UNKNOWN),
    Form("usage_null", "usage null", "read", partial(answered, more={"usage": None}), row=_UNKNOWN),
    Form(
        "other_model",
        "another model answered, as a gateway's fallback does",
        "read",
        partial(answered, more={"model": "other", "system_fingerprint": "fp_1", "provider": "Elsewhere"}),
        row={"answered_by": "other", "system_fingerprint": "fp_1", "provider": "Elsewhere"},
    ),
    Form("parts", "content as a list of parts", "read", _in_parts),
)
"""Forms of what stands beside the message: who answered, and what it took, in tokens of one answer."""

FORMS: dict[str, Form] = {
    form.name: form
    for form in (
        *MESSAGES,
        *COUNTS,
        *(
            Form(
                f"left_{name}", f"left in the text: {' '.join(text.split())[:60]}", right, partial(_left, text), _NATIVE
            )
            for name, (text, right) in LEFT.items()
        ),
    )
}
