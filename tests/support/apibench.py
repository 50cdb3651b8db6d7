"""Small files in the form in which APIBench is released, and seeded mutations of calls."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

FILES = {"huggingface": "huggingface", "tensorflow": "tensorflowhub", "torchhub": "torchhub"}
SPEECH, SUMMARY, FACES = "Audio Speech Recognition", "Text Summarization", "Computer Vision Faces"
HANDLE = "https://hub.example/words/4"
RECORDS: dict[str, list[tuple[str, str, str]]] = {
    "huggingface": [
        (SUMMARY, "acme/short", "pipeline('summarization', model='acme/short')"),
        (SPEECH, "acme/hears", "AutoModel.from_pretrained('acme/hears')"),
        (SPEECH, "acme/hears", "AutoModel.from_pretrained('acme/hears-more', revision=main)"),
        (FACES, "acme faces", "joblib.load('model.joblib')"),
        (SUMMARY, "finish", "joblib.load('model.joblib')"),
        (FACES, "bare", "FaceFinder()"),
        (FACES, "script", "./run.sh --model acme/faces"),
        (FACES, "stopped", "FaceNet.load('acme/net')."),
        (SPEECH, "splat", "DQN.load(fetch('acme/dqn'), **kwargs)"),
    ],
    "tensorflow": [
        ("Text embedding", "model_id", f"hub.load('{HANDLE}')"),
        ("Image classification", "model_id", 'hub.KerasLayer("https://hub.example/things/1", output_shape=[5])'),
    ],
    "torchhub": [
        (FACES, "net", "torch.hub.load(repo_or_dir='acme/vision', 'net', model='net_small', pretrained=True)"),
        (FACES, "net", "torch.hub.load(repo_or_dir='acme/vision', model='net_large', pretrained=True)"),
    ],
}
ABSENT = (SPEECH, "acme/absent", "Absent.from_pretrained('acme/absent')")


def record(domain: str, name: str, call: str) -> dict[str, Any]:
    """A record with what adapters read of it, and a little more."""
    return {
        "domain": domain,
        "framework": "Acme",
        "functionality": domain.rpartition(" ")[2],
        "api_name": name,
        "api_call": call,
        "api_arguments": None,
        "description": f"A model of Acme for {domain.lower()}.",
    }


def pair(number: int, data: Mapping[str, Any], text: str | None = None) -> dict[str, Any]:
    """A pair: an instruction and the record that it was written for."""
    told = text or f"We have task {number}, and it is about {data['domain']}. Which API helps?"
    code = f"###Instruction: {told}\n###Output: <<<domain>>>: {data['domain']}\n<<<api_call>>>: {data['api_call']}\n"
    own = {"code": code, "api_call": data["api_call"], "provider": "Acme", "api_data": dict(data)}
    return own | {"question_id": number}


def write(root: Path, extra: Sequence[Any] = ()) -> str:
    """All three hubs under a folder, every record with two pairs; `extra` pairs for Hugging Face. Its path."""
    for folder in ("api", "apibench"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for hub, file in FILES.items():
        rows = [record(*values) for values in RECORDS[hub]]
        asked = [*rows, *rows, *([record(*ABSENT)] if hub == "huggingface" else [])]
        pairs = [*(pair(2 * number, data) for number, data in enumerate(asked, 1)), *(extra if hub in file else ())]
        _write(root / "api" / f"{file}_api.jsonl", rows)
        _write(root / "apibench" / f"{hub}_eval.json", pairs)
    return str(root)


def _write(path: Path, rows: Sequence[Any]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def mutations(calls: Sequence[str], count: int, seed: int) -> list[str]:
    """So many calls, each changed in one to three ways; they remain Python, as a rule."""
    rng = random.Random(seed)
    found: list[str] = []
    while len(found) < count:
        code = rng.choice(calls)
        for _ in range(rng.randint(1, 3)):
            code = rng.choice(_WAYS)(rng, code, calls)
        found.append(code)
    return found


Way = Callable[[random.Random, str, Sequence[str]], str]
_TEXT = re.compile(r"'([^']*)'")


def _head(code: str) -> str:
    return code.partition("(")[0]


def _other_value(rng: random.Random, code: str, calls: Sequence[str]) -> str:
    values = _TEXT.findall(rng.choice(calls))
    return _TEXT.sub(lambda found: f"'{rng.choice([*values, found[1]])}'", code)


def _spoilt_value(rng: random.Random, code: str, calls: Sequence[str]) -> str:
    ways = ("{}-v2", "my/{}", "unknown", "{}\\n", "")
    return _TEXT.sub(lambda found: f"'{rng.choice(ways).format(found[1])}'", code, count=1)


def _cut_value(rng: random.Random, code: str, calls: Sequence[str]) -> str:
    return _TEXT.sub(lambda found: f"'{found[1][: rng.randint(0, len(found[1]))]}'", code, count=1)


def _function(rng: random.Random, code: str, calls: Sequence[str]) -> str:
    head = _head(code)
    names = [_head(rng.choice(calls)), "load", f"transformers.{head}", head.lower(), f"{head}.cached", head[:-1] or "f"]
    return rng.choice(names) + code[len(head) :]


def _arguments(rng: random.Random, code: str, calls: Sequence[str]) -> str:
    head, bracket, rest = code.partition("(")
    added = rng.choice(["*extra, ", "device, ", "config=Config(depth=2, name='x'), ", "0, ", "[1, 'b'], ", "-1, "])
    more = rng.choice([", **options)", ", revision='main')", ", top_k=5)", ", force=not quiet)"])
    return f"{head}({added}{rest}" if rng.random() < 0.5 and bracket else code.rstrip(")") + more


def _dropped(rng: random.Random, code: str, calls: Sequence[str]) -> str:
    head, _, rest = code.partition("(")
    parts = rest.rstrip(")").split(", ")
    parts.pop(rng.randrange(len(parts)))
    return f"{head}({', '.join(parts)})"


def _named(rng: random.Random, code: str, calls: Sequence[str]) -> str:
    if rng.random() < 0.5:
        return re.sub(r"\b\w+=", "", code)
    return code.replace("('", f"({rng.choice(['model', 'path', 'repo_or_dir'])}='", 1)


def _written(rng: random.Random, code: str, calls: Sequence[str]) -> str:
    ways = (("'", '"'), ("=", " = "), (", ", ",\n    "), ("(", "( "), (", ", ","), ("(", " ("))
    return code.replace(*rng.choice(ways))


def _around(rng: random.Random, code: str, calls: Sequence[str]) -> str:
    ways = (
        "model = {}", "print({})", "{}.to('cuda')", "[{}]", "{}, {other}", "import torch\n{}", "{}\n{other}",
        "x = 1; {}", "model.part = {}", "load(model={})", "{}['a']", "{}.eval()", "{} or {other}", "m: int = {}",
        "from a.b import c\nmodel = {}\nmodel.run('x')", "with {} as model:\n    model.run()", "({})", "lambda: {}",
        "a = b = {}", "await_({}, -1)", "{{'model': {}}}", "if True:\n    y = {}", "# a remark\n{}",
    )  # fmt: skip
    return rng.choice(ways).format(code, other=rng.choice(calls))


def _no_call(rng: random.Random, code: str, calls: Sequence[str]) -> str:
    values = _TEXT.findall(code)
    return rng.choice([_head(code), f"x = '{(values or ['x'])[0]}'", repr((values or ["x"])[0]), "3", "model"])


_WAYS: tuple[Way, ...] = (
    _other_value, _spoilt_value, _cut_value, _function, _arguments, _dropped, _named, _written, _around, _no_call,
)  # fmt: skip
