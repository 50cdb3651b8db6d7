"""OpenAI's chat interface: turns a prompt into messages, and reads the server's answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, Field

from grid.core.engine import FunctionsAnswer, JsonAnswer, Prompt, Source
from grid.core.types import Json, Usage, to_json
from grid.core.untrusted import loads
from grid.engines.answer_schema import answer_schema
from grid.engines.messages import Message
from grid.engines.messages import messages as of_prompt
from grid.text.native import as_message
from grid.text.objects import whole

# A message's content: a text or, from Mistral's and some other servers, a list of parts.


_TEXT, _THOUGHT, _REFUSAL = ("text", "output_text"), ("thinking", "reasoning", "redacted_thinking"), "refusal"


class Content(NamedTuple):
    """A message's content: the answer's text, the thought before the text, and the text of a refusal."""

    text: str | None
    thought: str = ""
    refusal: str = ""


def read_content(value: Any) -> Content:
    """Read a message's content: texts are joined; thoughts and refusals are not part of the answer.

    Raises:
        ValueError: the value is not a message's content, or it has a part that may be an answer but cannot be read.
    """
    if value is None or isinstance(value, str):
        return Content(value)
    if not isinstance(value, list):
        raise ValueError("the content is neither a text nor a list of parts")
    texts, thoughts, refusals = list[str](), list[str](), list[str]()
    for part in value:
        if isinstance(part, str):
            texts.append(part)
        elif not isinstance(part, dict):
            raise ValueError("a part of the content is not an object")
        elif (kind := part.get("type", "text")) in _TEXT:
            texts.append(_text(part.get("text")))
        elif kind in _THOUGHT:
            thoughts.append(_thought(part))
        elif kind == _REFUSAL:
            refusals.append(str(part.get(_REFUSAL) or ""))
        else:
            raise ValueError(
                f"a part has the type {str(kind)[:40]!r}, and not {', '.join((*_TEXT, *_THOUGHT, _REFUSAL))}"
            )
    return Content(*map("".join, (texts, thoughts, refusals)))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a part of type 'text' has no text")
    return value


def _thought(part: dict[str, Any]) -> str:
    """A thought's text, which may consist of several parts; empty if the server does not show the thought."""
    for name in ("thinking", "reasoning", "text"):
        value = part.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "".join(str(one.get("text") or "") for one in value if isinstance(one, dict))
    return ""


# Data that a server sends with an answer: the number of tokens, and the model and provider of the answer.


_MAX_NAME = 200  # maximum characters of a name


class Beside(BaseModel):
    """The keys of a response body that give an answer's token counts and source.

    Servers may leave out any key, or give its value in any form.
    """

    usage: Any = None
    model: Any = None
    system_fingerprint: Any = None
    provider: Any = None  # OpenRouter's key

    @property
    def source(self) -> Source:
        """The source of the answer; parts that the server does not name are None."""
        return Source(*map(_name, (self.model, self.system_fingerprint, self.provider)))


def _name(told: Any) -> str | None:
    """The name on one line, cut to a maximum length; None if the value is not a name."""
    return (" ".join(told[:_MAX_NAME].split()) or None) if isinstance(told, str) else None


REASONING = ("reasoning_content", "reasoning")
"""The keys of a message that may hold a thought that the server returns separately from the message's content."""
# Control tokens as common chat templates write them.
_CONTROL = re.compile(r"<\|[^|<>\s]{1,40}\|>|</?s>|\[/?INST\]|<(?:start|end)_of_turn>")
_CUT = frozenset({"length", "model_length", "max_tokens", "max_output_tokens", "content_filter"})
OWN = frozenset(
    {"model", "messages", "temperature", "seed", "n", "stream", "max_tokens", "max_completion_tokens"}
    | {"response_format", "tools", "tool_choice"}
)
"""The keys of a request that the engine sets itself."""


class Model(BaseModel):
    """One model in a server's list."""

    id: str
    owned_by: str | None = None


class Models(BaseModel):
    """A server's list of models."""

    data: list[Model]


class _Message(BaseModel):
    content: Annotated[Content, BeforeValidator(read_content)] = Content(None)
    tool_calls: Any = None
    function_call: Any = None  # the key that servers used before tool_calls
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None

    @property
    def calls(self) -> Any:
        """The message's calls as the server wrote them; empty if the message has no calls."""
        return self.tool_calls or (self.function_call and [{"function": self.function_call}])

    @property
    def thought(self) -> str:
        """The thought that the server returns separately from the answer."""
        apart = self.reasoning_content or self.reasoning
        return apart if isinstance(apart, str) else self.content.thought

    @property
    def reasoning_given(self) -> tuple[str, str] | None:
        """The key and text of a thought returned separately from the answer; the server may want the thought back."""
        given = ((key, getattr(self, key)) for key in REASONING)
        return next(((key, told) for key, told in given if isinstance(told, str) and told), None)

    @property
    def misplaced(self) -> str:
        """The call or object that the server wrongly treated as the end of a thought.

        Empty if the thought does not end with a call or object, or if the message has content or calls.
        """
        thought = self.thought
        if (self.content.text or "").strip() or self.calls:
            return ""
        mark = thought.rfind("<tool_call>")
        answer = thought[max(mark, 0) :]
        return answer if whole(answer) and answer.rstrip().endswith(("</tool_call>", "}")) else ""


class Answer(BaseModel):
    """One completion."""

    message: _Message
    finish_reason: str | None = None

    @property
    def text(self) -> str:
        """The answer without its thought, since some servers leave the thought in the answer.

        Empty if the thought does not end. A misplaced answer is moved from the thought to the answer.
        """
        text = self.message.content.text or self.message.misplaced
        _, end, answer = text.rpartition("</think>")
        if end:
            return answer
        return "" if text.lstrip().startswith("<think>") else text

    @property
    def with_calls(self) -> str:
        """The answer to a request with tools: the text or, if there are calls, JSON of the text and the calls."""
        if not self.message.calls:
            return self.text
        return as_message(self.text, self.message.calls)

    @property
    def said(self) -> tuple[str, str]:
        """Everything that used tokens, in two parts: the thought, and the text (with calls as JSON) or the refusal."""
        message = self.message
        text = message.content.text or message.content.refusal
        if message.calls:
            return message.thought, as_message(text, message.calls)
        return message.thought, text or (message.refusal if isinstance(message.refusal, str) else "")

    @property
    def cut(self) -> bool:
        """Whether the token limit or a filter ended the answer before the model did."""
        return (self.finish_reason or "").lower() in _CUT

    @property
    def cut_off(self) -> bool:
        """Whether the answer was cut before its first word: the thought used all tokens, or a filter stopped it."""
        return self.cut and not self.with_calls.strip()


class Chat(Beside):
    """A server's response to a chat request."""

    choices: Annotated[list[Answer], Field(min_length=1)]


def question(
    prompt: Prompt, structured: bool, padded: bool = False, strict: bool = False, reasoning: bool = True
) -> dict[str, Any]:
    """A prompt's part of a request: the messages, and the functions or, if `structured`, the answer's schema.

    `strict`: use OpenAI's strict mode if the schema has a strict form. `padded` and `reasoning`: as for `messages`.
    """
    asked: dict[str, Any] = {"messages": messages(prompt, padded, reasoning)}
    if functions := prompt.functions():
        return asked | {"tools": functions, "tool_choice": "auto"}
    if structured and isinstance(prompt.answer, JsonAnswer):
        schema = answer_schema(prompt.answer)
        exact = strict_schema(schema) if strict else None
        wanted = {"name": "tool_call", "schema": exact or schema} | ({"strict": True} if exact else {})
        asked["response_format"] = {"type": "json_schema", "json_schema": wanted}
    return asked


def told(prompt: Prompt, answer: Answer, strict: bool = False) -> str:
    """The answer in a completion: the text and, if the prompt has functions, also the calls.

    With `strict`, an answer in JSON is returned without its null arguments.
    """
    if isinstance(prompt.answer, FunctionsAnswer):
        return answer.with_calls
    return without_nulls(answer.text) if strict and isinstance(prompt.answer, JsonAnswer) else answer.text


def messages(prompt: Prompt, padded: bool = False, reasoning: bool = True) -> list[Message]:
    """The prompt as a chat; `padded`: option numbers have equal width; without `reasoning`: no earlier thoughts."""
    found = of_prompt(prompt, plain, padded=padded, as_text=True)
    if reasoning:
        return found
    return [{key: part for key, part in message.items() if key not in REASONING} for message in found]


def plain(text: str) -> str:
    """The text, with everything that looks like a control token broken up."""
    return _CONTROL.sub(lambda match: f"{match[0][0]}\u200b{match[0][1:]}", text)


# OpenAI's strict mode: converts a JSON schema to the strict form, and an answer back to the original schema's form.
#
# In strict mode all properties of an object are required and no others are allowed, so an optional property is not left
# out but may be null. Every part has a type, and the root is an object (the guide "Structured model outputs").


_NULL = {"type": "null"}


def strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema in strict form; None if it has no strict form.

    A schema has no strict form if an array or object in it may have arbitrary contents, or if its root is not a single
    object.
    """
    if schema.get("type") != "object":
        return None
    try:
        return _strict(schema)
    except _UnsayableError:
        return None


class _UnsayableError(Exception):
    """A part of a schema has no strict form."""


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in schema:
        return {"anyOf": [_strict(part) for part in schema["anyOf"]]}
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        kinds = {str: "string", float: "number"}
        return {"type": kinds.get(type(values[0]), "integer"), "enum": values}
    if schema["type"] == "array":
        if "items" not in schema:
            raise _UnsayableError
        return schema | {"items": _strict(schema["items"])}
    if schema["type"] != "object":
        return schema
    if "properties" not in schema:
        raise _UnsayableError
    parts = {name: _strict(part) for name, part in schema["properties"].items()}
    given = {name: part if name in schema["required"] else _or_null(part) for name, part in parts.items()}
    return {"type": "object", "properties": given, "required": [*given], "additionalProperties": False}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [*schema.get("anyOf", [schema]), _NULL]}


def without_nulls(text: str) -> str:
    """The answer without its null arguments; an answer that has no `null`, or is not JSON, is returned unchanged."""
    if "null" not in text:
        return text
    try:
        return to_json(_left_out(loads(text), arguments=False))
    except (ValueError, RecursionError):
        return text


def _left_out(value: Json, arguments: bool) -> Json:
    if isinstance(value, list):
        return [_left_out(item, arguments=False) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: item for name, item in value.items() if not (arguments and item is None)}
    return {name: item if arguments else _left_out(item, name == "arguments") for name, item in kept.items()}


# Converts a server's `usage` to token counts, but only if exactly one interpretation explains all its numbers.
#
# Some servers leave `usage` out, fill it with zeros, do not count cached tokens as part of the prompt, or do not count
# a thought's tokens as part of the completion.


_MOST = 2**27  # tokens; larger than any model's context


class Counts(NamedTuple):
    """The numbers of tokens in the prompt, in its cached part, in the generated text, and in that text's thought."""

    input: int
    cached: int
    output: int
    reasoning: int

    def usage(self, **more: int) -> Usage:
        """The counts as a Usage, together with the additional counts in `more`."""
        return Usage(
            input_tokens=self.input,
            cached_input_tokens=self.cached,
            output_tokens=self.output,
            reasoning_tokens=self.reasoning,
            **more,
        )


def counts(usage: Any, said: bool) -> Counts | None:
    """The counts in a server's `usage` for an answer; None if it has no counts, contradicts itself or is ambiguous.

    Zero prompt tokens, and zero completion tokens of an answer that says something, contradict the answer.

    `said`: whether the answer has a text, a call or a thought, all of which use tokens. A server may count cached
    tokens separately from the prompt's tokens, and a thought's tokens separately from the completion's tokens. The
    server's total, if given, shows how the server counts. If there are more cached tokens than prompt tokens, the
    cached tokens must be counted separately, whether or not the total includes them.
    """
    try:
        return _explained(usage, said)
    except ValueError:
        return None


def _explained(usage: Any, said: bool) -> Counts | None:
    prompt, completion = _told(usage, "prompt_tokens"), _told(usage, "completion_tokens")
    if prompt is None or completion is None:
        return None
    total = _told(usage, "total_tokens")
    cached = _told(usage, "prompt_tokens_details", "cached_tokens") or 0
    thought = _told(usage, "completion_tokens_details", "reasoning_tokens") or _told(usage, "reasoning_tokens") or 0
    readings = {
        (read, written)
        for read in _readings(prompt, cached, total is not None)
        for written in _readings(completion, thought, total is not None)
        if total in (None, read + written) or (cached > prompt and total == prompt + written)
    }
    if len(readings) != 1:
        return None
    ((read, written),) = readings
    return Counts(read, cached, written, thought) if read and (written or not said) else None


def _readings(whole: int, part: int, beside: bool) -> set[int]:
    """The possible true values of the count `whole`, in which a server may or may not have included `part`.

    `whole` itself is possible if it is large enough to include the part. The sum of `whole` and `part` is possible if
    `whole` is too small, or if `beside` is set.
    """
    within = {whole} if part <= whole else set[int]()
    return within | {whole + part} if beside or not within else within


def _told(found: Any, *path: str) -> int | None:
    """The number at a path of keys; None if there is no value. Raises ValueError if the value is not a token count."""
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float) or found != found // 1:
        raise ValueError(found)
    if not 0 <= found <= _MOST:
        raise ValueError(found)
    return int(found)


# Finds the cause of a server's error (the prompt, the model or, if it is neither, the server itself) from the error's
# codes and words.


_MAX_READ = 2000  # maximum characters read of each text
_SERVER_S = frozenset({401, 402, 404, 408, 429})
"""Statuses that identify the problem without the error's text: the key, the bill, the address or the rate."""
# Error messages for a prompt that does not fit, from OpenAI, vLLM, SGLang, TGI, TensorRT-LLM, llama.cpp, LM Studio,
# Ollama, Mistral, Anthropic, Google, Bedrock, Cohere, Together, Groq, xAI, Moonshot and Alibaba.
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|string_above_max_length|context ?(?:size|window|limit)"
    r"|context length (?:of|is|exceeded)|maximum (?:context|model|prompt|input|sequence) length"
    r"|longer than the (?:model's context|maximum)|(?:prompt|input|messages?) (?:is|are) too long"
    r"|exceed(?:s|ed)?(?: the)? (?:context|model token limit)"
    r"|exceed(?:s|ed)?(?: the)? max(?:imum)?(?: allowed)?(?: number of)? (?:input )?tokens"
    r"|(?:prompt|input|sequence)s?\b.{0,60}\bexceed.{0,60}\b(?:length|tokens|context)"
    r"|`?inputs`? tokens \+ `?max_new_tokens`? must be|`?inputs`? must have less than|should not exceed max_num_tokens"
    r"|too many (?:input )?tokens(?!,? please wait)|range of input length"
    r"|reduce the length of the (?:messages|prompt|input)"
    r"|overflows\. however, the model is loaded with context",
    re.IGNORECASE,
)
# Error messages for a model's text that its server cannot read, from Groq, Ollama, llama.cpp, Google, and harmony's
# parser in vLLM and other servers.
_UNFIT = re.compile(
    r"tool_use_failed|json_validate_failed|output_parse_failed|failed_generation|failed to call a function"
    r"|tool call validation failed|harmonyerror(?!.{0,60}(?:vocab|load))|tokens remaining in message header"
    r"|while expecting start token|(?:error|failed) (?:to |while )?pars(?:e|ing) (?:the )?(?:tool call|input at pos)"
    r"|malformed_function_call|model (?:output|generated output).{0,40}(?:parse|invalid)",
    re.IGNORECASE,
)
# Error messages for an answer stopped by a filter, from OpenAI, Azure, OpenRouter, xAI, DeepSeek, Alibaba, Moonshot,
# Zhipu, MiniMax and Bedrock.
_FILTERED = re.compile(
    r"content[_ ]?filter|content (?:management )?policy|content_policy|responsibleaipolicyviolation"
    r"|data_?inspection_?failed|content exists risk|considered high risk|\bflagged\b|prohibited_content"
    r"|safety (?:system|filter|policy)|content violates|new_sensitive|sensitive (?:content|words)|敏感"
    r"|violat\w+ [^.\n]{0,40}(?:usage polic|usage guideline|safety)|guardrail",
    re.IGNORECASE,
)


# The context's size in the error messages of vLLM, OpenAI, SGLang, TGI and Anthropic.
_SIZE = (
    re.compile(r"\+ [\d,]+ > (\d[\d,]*)"),
    re.compile(r"(?:context (?:length|limit|size|window)|must be <=)\D{0,20}(\d[\d,]*)", re.IGNORECASE),
)
_NUMBER = re.compile(r"\d[\d,]*")


class Complaint(NamedTuple):
    """An error's code (or type), its message, and all texts that may describe the problem."""

    code: str
    message: str
    words: str


def complaint(error: Any, text: str) -> Complaint:
    """The contents of an error in any form used by servers and gateways; `text` is the whole error."""
    if not isinstance(error, dict):
        return Complaint("", str(error), str(error)[:_MAX_READ])
    codes = [error[name] for name in ("code", "type", "error_type") if isinstance(error.get(name), str)]
    message = str(error.get("message") or error.get("detail") or text)
    inner, about = error.get("innererror"), error.get("metadata")
    further = inner.get("code") if isinstance(inner, dict) else None
    raw = about.get("raw") if isinstance(about, dict) else None  # from a gateway: the upstream server's message
    words = [*codes, message[:_MAX_READ], *(str(part)[:_MAX_READ] for part in (further, raw) if part)]
    return Complaint(codes[0] if codes else "", message, " ".join(words))


def whose(status: int, words: str) -> Literal["context", "model"] | None:
    """The cause of an error with this HTTP status and these words: the context, the model, or (None) the server itself.

    `context`: the prompt does not fit. `model`: the server does not pass on the model's answer, because the server
    could not read it or a filter stopped it. Servers report these errors with many statuses, some of which normally
    mean a temporary failure.
    """
    if status in _SERVER_S or status < 400:
        return None
    if _UNFIT.search(words) or _FILTERED.search(words):
        return "model"
    return "context" if _TOO_LONG.search(words) else None


def room(words: str, asked: int) -> int | None:
    """The number of tokens left in the context after the prompt, if the error's text shows it; `asked` was too many.

    Servers state the context's size, and either the prompt's size or the sum of the prompt's size and `asked`.
    """
    size = next((found for form in _SIZE if (found := form.search(words))), None)
    if size is None:
        return None
    context = _number(size[1])
    told = {_number(text) for text in _NUMBER.findall(words)}
    prompts = {one - asked for one in told if one > context} | (told - {asked, context})
    fitting = [one for one in prompts if 0 < one < context < one + asked]
    return context - fitting[0] if len(fitting) == 1 else None


def _number(text: str) -> int:
    return int(text.replace(",", ""))
