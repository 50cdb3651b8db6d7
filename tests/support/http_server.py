"""A real HTTP server on this machine's loopback, in threads, that answers as a test says.

`play_vllm` is a server with the parts of vLLM's interface that exact choices use, over a small tokenizer with tokens
of several digits and a known distribution.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl

import numpy as np


@dataclass(frozen=True)
class Asked:
    """A request: path, headers (names in lower case) and the body's JSON, or a form's fields (None: a GET)."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class Reply:
    """What comes back; `body` is sent as JSON unless it is bytes."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


Play = Callable[[Asked], Reply]


class _Server(ThreadingHTTPServer):
    """Takes as many connections at once as a test opens: one that is turned away is tried again after whole seconds."""

    request_queue_size, daemon_threads = 1024, True


class LocalServer:
    """A context manager: inside it, `play` answers every request, which are recorded with how many came at once."""

    def __init__(self, play: Play) -> None:
        self.play, self.asked, self.most_at_once = play, list[Asked](), 0
        self.ended = threading.Event()
        self._lock, self._now = threading.Lock(), 0
        self._http = _Server(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    def bodies(self, path: str) -> list[Any]:
        return [asked.body for asked in self.asked if asked.path == path]

    def hang(self, asked: Asked) -> Reply:
        """Answer when the test is over."""
        self.ended.wait(30)
        return Reply(503)

    def __enter__(self) -> LocalServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def _answer(self, asked: Asked) -> Reply:
        with self._lock:
            self.asked.append(asked)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            return self.play(asked)
        finally:
            with self._lock:
                self._now -= 1

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                self._serve(None)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                form = self.headers["content-type"] == "application/x-www-form-urlencoded"
                self._serve(dict(parse_qsl(body.decode())) if form else json.loads(body))

            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def _serve(self, body: Any) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = server._answer(Asked(self.path, headers, body))
                data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                try:
                    self.send_response(reply.status)
                    for name, value in {"Content-Length": str(len(data)), **reply.headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    self.close_connection = True  # the client has gone

        return Handler


def completion(text: str | None, *, prompt: int = 7, output: int = 3, cached: int | None = None) -> Reply:
    """A chat completion as providers give it."""
    usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return Reply(body={"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage})


def refusal(status: int, message: str, **more: Any) -> Reply:
    """An error as OpenAI gives it; `headers` among `more` are the reply's."""
    headers = more.pop("headers", {})
    return Reply(status, {"error": {"message": message, "type": "invalid_request_error", **more}}, headers)


def models(*names: str) -> Reply:
    return Reply(body={"object": "list", "data": [{"id": name, "object": "model"} for name in names]})


class TinyTokenizer:
    """Longest match over single characters, control tokens and numbers of several digits; 60 to 99 take two tokens."""

    def __init__(self) -> None:
        numbers = [str(number) for number in (*range(10, 60), *range(100, 200))]
        control = ["<|user|>", "<|system|>", "<|end|>", "<|assistant|>"]
        characters = [chr(code) for code in (10, *range(32, 127))]
        self.texts = [*control, *characters, *numbers, "1st", "2023", "\u200b"]
        self.ids = {text: token for token, text in enumerate(self.texts)}
        self.digits = [token for token, text in enumerate(self.texts) if text[0].isdigit()]

    def encode(self, text: str) -> list[int]:
        ids, place = [], 0
        while place < len(text):
            piece = next(
                text[place : place + size] for size in range(13, 0, -1) if text[place : place + size] in self.ids
            )
            ids.append(self.ids[piece])
            place += len(piece)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.texts[token] for token in ids if token < len(self.texts))

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        text = "".join(f"<|{part['role']}|>{part['content']}<|end|>" for part in messages)
        return self.encode(text + "<|assistant|>")


@dataclass
class TinyModel:
    """vLLM's server over TinyTokenizer: a sharp random distribution behind every prefix, numbers more likely."""

    name: str = "tiny"
    context: int = 1000
    tokenizer: TinyTokenizer = field(default_factory=TinyTokenizer)

    def logs(self, tokens: Sequence[int]) -> np.ndarray:
        """The log-probabilities of the whole vocabulary behind `tokens`, shape (vocabulary,)."""
        key = hashlib.sha256(json.dumps(list(tokens)).encode()).digest()
        logits = np.random.default_rng(int.from_bytes(key[:8], "big")).normal(size=len(self.tokenizer.texts)) * 2
        logits[self.tokenizer.digits] += 3
        found: np.ndarray = logits - np.logaddexp.reduce(logits)
        return found

    def play(self, asked: Asked) -> Reply:
        """Answer as vLLM does."""
        body = asked.body
        match asked.path:
            case "/v1/models":
                return models(self.name)
            case "/v1/chat/completions":
                return completion("x", prompt=len(self.tokenizer.chat(body["messages"])))
            case "/tokenize":
                chat = "messages" in body
                ids = self.tokenizer.chat(body["messages"]) if chat else self.tokenizer.encode(body["prompt"])
                return Reply(body={"tokens": ids, "count": len(ids), "max_model_len": self.context})
            case "/detokenize":
                return Reply(body={"prompt": self.tokenizer.decode(body["tokens"])})
            case "/v1/completions":
                return self.complete(body)
        return refusal(404, "Not Found")

    def complete(self, body: Mapping[str, Any]) -> Reply:
        """One token behind `prompt`, with the log-probabilities asked for and the sampled token's."""
        tokens, ids = body["prompt"], body.get("logprob_token_ids", [])
        if len(tokens) + body["max_tokens"] > self.context:
            message = f"This model's maximum context length is {self.context} tokens. However, your prompt contains"
            return refusal(400, f"{message} {len(tokens)} input tokens.", code=400)
        if len(ids) > 128:
            return refusal(400, f"Requested logprob_token_ids of length {len(ids)}", code=400)
        logs = self.logs(tokens)
        sampled = int(logs.argmax())
        top = {f"token_id:{token}": float(logs[token]) for token in (sampled, *ids)}
        choice = {"index": 0, "text": self.tokenizer.decode([sampled]), "logprobs": {"top_logprobs": [top]}}
        usage = {"prompt_tokens": len(tokens), "completion_tokens": 1, "total_tokens": len(tokens) + 1}
        return Reply(body={"object": "text_completion", "choices": [choice], "usage": usage})
