"""Whose failure a server's error is, by its codes and words: the prompt's, the model's, or (neither) the server's."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

_MAX_READ = 2000  # characters of each text
_SERVER_S = frozenset({401, 402, 404, 408, 429})
"""Statuses that say themselves what is wrong: the key, the bill, the address, the rate."""
# How OpenAI, vLLM, SGLang, TGI, TensorRT-LLM, llama.cpp, LM Studio, Ollama, Mistral, Anthropic, Google, Bedrock,
# Cohere, Together, Groq, xAI, Moonshot and Alibaba word a prompt that does not fit.
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
# What the model wrote does not fit what its server expects: Groq, harmony's parser in vLLM and others, Ollama,
# llama.cpp, Google.
_UNFIT = re.compile(
    r"tool_use_failed|json_validate_failed|output_parse_failed|failed_generation|failed to call a function"
    r"|tool call validation failed|harmonyerror(?!.{0,60}(?:vocab|load))|tokens remaining in message header"
    r"|while expecting start token|(?:error|failed) (?:to |while )?pars(?:e|ing) (?:the )?(?:tool call|input at pos)"
    r"|malformed_function_call|model (?:output|generated output).{0,40}(?:parse|invalid)",
    re.IGNORECASE,
)
# A filter came between: OpenAI, Azure, OpenRouter, xAI, DeepSeek, Alibaba, Moonshot, Zhipu, MiniMax, Bedrock.
_FILTERED = re.compile(
    r"content[_ ]?filter|content (?:management )?policy|content_policy|responsibleaipolicyviolation"
    r"|data_?inspection_?failed|content exists risk|considered high risk|\bflagged\b|prohibited_content"
    r"|safety (?:system|filter|policy)|content violates|new_sensitive|sensitive (?:content|words)|敏感"
    r"|violat\w+ [^.\n]{0,40}(?:usage polic|usage guideline|safety)|guardrail",
    re.IGNORECASE,
)


# The context's size, as vLLM, OpenAI, SGLang, TGI and Anthropic tell it.
_SIZE = (
    re.compile(r"\+ [\d,]+ > (\d[\d,]*)"),
    re.compile(r"(?:context (?:length|limit|size|window)|must be <=)\D{0,20}(\d[\d,]*)", re.IGNORECASE),
)
_NUMBER = re.compile(r"\d[\d,]*")


class Complaint(NamedTuple):
    """An error's code (or type), its message, and all words in which it may say what is wrong."""

    code: str
    message: str
    words: str


def complaint(error: Any, text: str) -> Complaint:
    """What an error says, in the ways that servers and gateways put it; `text` is the whole of it."""
    if not isinstance(error, dict):
        return Complaint("", str(error), str(error)[:_MAX_READ])
    codes = [error[name] for name in ("code", "type", "error_type") if isinstance(error.get(name), str)]
    message = str(error.get("message") or error.get("detail") or text)
    inner, about = error.get("innererror"), error.get("metadata")
    further = inner.get("code") if isinstance(inner, dict) else None
    raw = about.get("raw") if isinstance(about, dict) else None  # a gateway's: what the server behind it said
    words = [*codes, message[:_MAX_READ], *(str(part)[:_MAX_READ] for part in (further, raw) if part)]
    return Complaint(codes[0] if codes else "", message, " ".join(words))


def whose(status: int, words: str) -> Literal["context", "model"] | None:
    """Whose an error of this HTTP status is that says so; None: the server's own.

    `context`: the prompt does not fit. `model`: what the model wrote (or was to) is kept back, as its server could not
    read it or a filter came between. Such are given with many statuses, also with those of failures that may pass.
    """
    if status in _SERVER_S or status < 400:
        return None
    if _UNFIT.search(words) or _FILTERED.search(words):
        return "model"
    return "context" if _TOO_LONG.search(words) else None


def room(words: str, asked: int) -> int | None:
    """The tokens that a context has left beside a prompt, of an error that tells; `asked` of them were too many.

    Servers tell the context's size, and either the prompt's or the sum of both.
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
