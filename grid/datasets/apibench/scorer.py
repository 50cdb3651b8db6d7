"""Gorilla's AST accuracy (Patil et al. 2023, §3.4 and the authors' `ast_eval_{hf,tf,th}.py`), without their parser.

An answer is held against the APIs of the hub in their order. Of it the sub-tree counts whose first child is the API's
function; the first API all of whose identifying argument values stand in that sub-tree's text is the one that was
called. The answer is right when that API is of the reference's domain, and a hallucination when there is none. Code
that cannot be read is neither.

As in the authors' code, where no sub-tree has the function, the last one that is looked at takes its place (the
innermost at the left): of `load('bert-base-uncased')` that is the text in the brackets, so that the name of a function
may be wrong where the value is right. Values are looked for as parts of the text. Of
`BartForConditionalGeneration.load('x')` the last one is the function, and as `ner` stands in it, that is taken for a
call of `pipeline('ner')`: on Hugging Face some made-up models count as that API, and not as hallucinations.

One thing is added: the reference's own record comes first. The hubs have the same call under several domains (Hugging
Face 3 calls, TensorFlow Hub 4), of which the authors' scorer knows the first; whoever gives the very call of the
reference would be wrong there. So would whoever gives one without any identifying value, which the authors' scorer
never finds: a reference of that kind (1% of Hugging Face's) is known by its function.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from grid.datasets.apibench.trees import Code, Subtree, parse

Hub = Literal["huggingface", "tensorflow", "torchhub"]
_MARK, _BEHIND = "api_call", "api_provider"
_FENCED = re.compile(r"\s*```[a-z]*\n(.*?)\n\s*```\s*", re.S)


class Api(NamedTuple):
    """What a call of an API has: the function's text, the identifying values, and the domain that it is for."""

    function: str
    values: tuple[str, ...]
    domain: str


class Verdict(NamedTuple):
    """Of an answer; neither where it cannot be read."""

    right: bool
    hallucinated: bool


class Argument(NamedTuple):
    """One argument as a call has it: its own text (with the name in front), its name, and the value's node."""

    text: str
    name: str | None
    value: ast.AST


def call_in(code: Code) -> ast.Call | None:
    """The call that the code begins with: its first statement, of several side by side the first; None for others."""
    first = code.tree.body[0]
    value = first.value if isinstance(first, ast.Expr) else None
    if isinstance(value, ast.Tuple) and value.elts and code.text(value).startswith(code.text(value.elts[0])):
        value = value.elts[0]
    return value if isinstance(value, ast.Call) else None


def arguments_of(code: Code, call: ast.Call) -> Iterator[Argument]:
    """Its arguments in their order, `*x` and `**x` without a name."""
    given: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    for node in sorted(given, key=lambda node: (node.lineno, node.col_offset)):
        if isinstance(node, ast.keyword) and node.arg:
            yield Argument(code.text(node), node.arg, node.value)
        elif isinstance(node, ast.Compare) and re.match(r"\w+\s*=[^=]", code.text(node)):  # see `trees.parse`
            yield Argument(code.text(node), code.text(node.left), node.comparators[0])
        else:
            yield Argument(code.text(node), None, node)


def identifying(hub: Hub, code: Code, argument: Argument) -> str | None:
    """The text that must stand in an answer; None where the argument does not tell one API from another.

    Hugging Face: every argument's value. TensorFlow Hub: the same, but named ones other than `model` with their names.
    Torch Hub: the values of arguments that speak of `repo_or_dir` or `model`.
    """
    text = argument.text
    if hub == "torchhub":
        named = argument.name and ("repo_or_dir" in text or "model" in text)
        return code.text(argument.value).strip("'") if named else None
    if argument.name and (hub == "huggingface" or "model=" in text or "model =" in text):
        text = code.text(argument.value)
    return text.strip("'")


def read_api(hub: Hub, code: str, domain: str) -> Api | None:
    """An API by its call; None where that is no call that can be read."""
    parsed = parse(code)
    call = call_in(parsed) if parsed else None
    if parsed is None or call is None:
        return None
    values = (identifying(hub, parsed, argument) for argument in arguments_of(parsed, call))
    return Api(parsed.text(call.func), tuple(value for value in values if value is not None), domain)


def match(subtrees: Sequence[Subtree], apis: Sequence[Api]) -> int | None:
    """The place of the first API that was called; None where there is none. One without values is never found."""
    first: dict[str, str] = {}
    for subtree in subtrees:
        first.setdefault(subtree.head, subtree.text)
    for place, api in enumerate(apis):
        text = first.get(api.function, subtrees[-1].text)
        if api.values and all(value in text for value in api.values):
            return place
    return None


def score(answer: str, reference: Api, apis: Sequence[Api]) -> Verdict:
    """What an answer is worth, the hub's APIs being `apis`."""
    code = parse(answer)
    if code is None:
        return Verdict(right=False, hallucinated=False)
    subtrees = code.subtrees()
    bare = not reference.values and any(subtree.head == reference.function for subtree in subtrees)
    if bare or match(subtrees, [reference]) is not None:
        return Verdict(right=True, hallucinated=False)
    place = match(subtrees, apis)
    return Verdict(place is not None and apis[place].domain == reference.domain, place is None)


def written_call(text: str) -> str | None:
    """The call that an answer in words holds; None where it holds none.

    As the authors read answers: what stands behind `api_call` and its colon, up to the last bracket before
    `api_provider`; without that word the whole answer, here without the fence that may be around it. What cannot be
    read as code or has no call in it says nothing.
    """
    fenced = _FENCED.fullmatch(text)
    call = fenced[1] if fenced else text
    if _MARK in text:
        part = text.split(_MARK)[1].split(_BEHIND)[0]
        start = part.find(":") if ":" in part else 0
        end = part.rindex(")") if ")" in part else -2
        call = part[start + 2 : end + 1]
    code = parse(call)
    calls = code and any(isinstance(node, ast.Call) for node in ast.walk(code.tree))
    return call if calls else None
