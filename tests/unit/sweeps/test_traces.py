"""Traces count what the tables count, say nothing that was not asked for, and hold nobody up."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed")

from grid import store
from grid.core.engine import Section
from grid.core.errors import ConfigError
from grid.sweeps import traces
from grid.sweeps.traces import Follower
from launch.main import main
from tests.support import simulated
from tests.support.collector import Collector, collector

WORDS = "the words of it"


def cell(name: str, **more: Any) -> dict[str, list[dict[str, Any]]]:
    """One with two requests, two decisions that call (the second failed) and one that does not."""
    section = Section("request", (WORDS,))
    asked = {"cell_id": name, "attempt_id": "a", "role": "actor", "decision": "pass0/1", "request": "sample",
             "wanted": "text", "seed": 1, "n": 2, "temperature": 0.5, "max_tokens": 9, "prompt": [section.digest],
             "answers": [WORDS], "unreadable": []}  # fmt: skip
    step = {"cell_id": name, "attempt_id": "a", "branch": 0, "chosen_tool": "look", "on_path": True, "options": [],
            "arguments": json.dumps({"a": WORDS}), "observation": WORDS, "failed": False,
            "thought": WORDS}  # fmt: skip
    episode = {
        "cell_id": name, "cell_key": name, "setting_id": "s", "model": "qwen", "engine": "vllm", "planner": "react",
        "dataset": "slate", "robustness": "none", "pool": "all", "case_id": f"case-{name}", "cluster": "c", "trial": 0,
        "attempt_id": "a", "status": "ok", "success": True, "answer": WORDS, "n_messages": 2, "n_steps": 3,
        "input_tokens": 100, "judge": "gpt", "wall_seconds": 2.5, "error_message": WORDS, "config": "{}",
        "created_at": simulated.NOON,
    } | more  # fmt: skip
    return {
        "episodes": [episode],
        "messages": [asked | {"message": 0}, asked | {"message": 1, "role": "judge"}],
        "steps": [step | {"step": 0}, step | {"step": 1, "failed": True},
                  step | {"step": 2, "chosen_tool": "no_tool", "observation": None}],
        "sections": [{"digest": section.digest, "kind": "request", "entries": [WORDS], "options": []}],
    }  # fmt: skip


def written(root: Path, *names: str, **more: Any) -> Path:
    for name in names:
        store.write(root, cell(name, **more))
    return root


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setattr(traces, "_LOOK_SECONDS", 0.01)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")


def pointed(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)


def counts(found: Collector) -> Counter[str]:
    return Counter(span["name"].partition(" ")[0] for span in found.spans)


def test_counts_are_those_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "_AT_ONCE", 2)
    monkeypatch.setattr(traces, "_SPANS", 5)
    root = written(tmp_path, *"abcde")
    with collector() as found:
        pointed(monkeypatch, found.url)
        assert traces.send(root, content=False) == (5, 5)
    tables = {name: len(store.read(root, name)) for name in ("episodes", "messages", "steps")}
    called = sum(step["observation"] is not None for step in store.read(root, "steps").to_pylist())
    assert counts(found) == {
        "invoke_agent": tables["episodes"], "chat": tables["messages"], "decision": tables["steps"],
        "execute_tool": called,
    }  # fmt: skip
    assert len({span["id"] for span in found.spans}) == len(found.spans)
    by_trace = Counter(span["trace"] for span in found.spans)
    assert set(by_trace.values()) == {len(found.spans) // 5}
    roots = {span["trace"]: span["id"] for span in found.spans if not span["parent"]}
    assert len(roots) == 5
    decisions = {span["id"] for span in found.named("decision")}
    for span in found.spans:
        above = decisions if span["name"].startswith("execute_tool") else {roots[span["trace"]]}
        assert not span["parent"] or span["parent"] in above
        assert span["resource"]["service.name"] == "agent-grid"


def test_a_trace_says_what_the_rows_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = written(tmp_path, "a", status="failed", error_kind="model", success=False)
    with collector() as found:
        pointed(monkeypatch, found.url)
        traces.send(root, content=False)
    (episode,), (chat, judged) = found.named("invoke_agent"), found.named("chat")
    noon = int(simulated.NOON.timestamp()) * 10**9
    assert (episode["start"], episode["end"], episode["status"]) == (noon - 2_500_000_000, noon, 2)
    assert (episode["name"], episode["events"]) == ("invoke_agent react", ["gen_ai.evaluation.result"])
    assert {name: episode["attributes"][name] for name in (
        "gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.request.model", "gen_ai.usage.input_tokens", "error.type",
        "agent_grid.case_id", "agent_grid.success",
    )} == {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "react", "gen_ai.request.model": "qwen",
           "gen_ai.usage.input_tokens": 100, "error.type": "model", "agent_grid.case_id": "case-a",
           "agent_grid.success": False}  # fmt: skip
    assert (chat["name"], judged["name"], chat["kind"]) == ("chat qwen", "chat gpt", 3)
    assert chat["attributes"]["gen_ai.request.temperature"] == 0.5
    assert chat["attributes"]["gen_ai.request.choice.count"] == 2
    assert [span["status"] for span in found.named("execute_tool")] == [0, 2]
    order = [span["start"] for span in found.spans if span["parent"]]
    assert order == sorted(set(order)), "the order, and no more: none lasts"
    assert all(span["start"] == span["end"] and span["attributes"]["agent_grid.times"] == "order alone"
               for span in found.spans if span["parent"])  # fmt: skip
    assert min(order) > episode["start"]


def test_texts_are_sent_by_request_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = written(tmp_path, "a")
    with collector() as plain, collector() as whole:
        pointed(monkeypatch, plain.url)
        traces.send(root, content=False)
        pointed(monkeypatch, whole.url)
        traces.send(root, content=True)
    assert WORDS not in str(plain.spans)
    (chat, _) = whole.named("chat")
    assert json.loads(chat["attributes"]["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": WORDS}]}
    ]
    assert WORDS in chat["attributes"]["gen_ai.output.messages"]
    tool = whole.named("execute_tool")[0]["attributes"]
    assert (tool["gen_ai.tool.call.result"], tool["gen_ai.tool.call.arguments"]) == (WORDS, json.dumps({"a": WORDS}))
    assert counts(plain) == counts(whole)


def test_a_sweep_is_followed_from_where_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    root, later = written(tmp_path, "old"), simulated.NOON.replace(year=2027)
    with collector() as found:
        pointed(monkeypatch, found.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hidden")
        with Follower(root, "otel", lines.append) as follower:
            written(root, "a", "b", created_at=later)
            while not follower._sender or len(follower._sender.sent) < 2:
                threading.Event().wait(0.01)
            follower._look()  # what was sent is not sent again
    assert {span["attributes"]["gen_ai.conversation.id"] for span in found.named("invoke_agent")} == {"a", "b"}
    assert counts(found)["invoke_agent"] == 2
    assert found.headers[0]["authorization"] == "hidden"
    assert lines == ["traces: 2 of 2 episodes were sent"]


def test_without_it_there_is_no_thread_and_no_word(tmp_path: Path, lines: list[str]) -> None:
    before = threading.active_count()
    with Follower(written(tmp_path, "a"), "none", lines.append):
        assert threading.active_count() == before
    assert lines == []


def test_a_collector_that_is_down_is_said_and_waited_for_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with collector() as gone:
        pass
    pointed(monkeypatch, gone.url)
    tried = threading.Event()
    send = traces.Sender.send

    def sending(*given: Any) -> bool:
        took = send(*given)
        tried.set()
        return took

    monkeypatch.setattr(traces.Sender, "send", sending)
    with Follower(tmp_path, "otel", lines.append) as follower:
        written(tmp_path, "a", "b")
        assert tried.wait(60)
    assert lines == [
        "traces: 0 of 2 episodes were sent; 2 were not sent: the collector at OTEL_EXPORTER_OTLP_ENDPOINT did not "
        f"accept them; to send all, run agent-grid export otel {tmp_path}"
    ]
    follower._thread.join(60)
    assert not follower._thread.is_alive()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("status", [500, 401])
def test_a_collector_that_refuses_at_first_gets_them_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], status: int
) -> None:
    with collector(status=status) as found:
        pointed(monkeypatch, found.url)
        with Follower(tmp_path, "otel", lines.append) as follower:
            written(tmp_path, "a")
            while not found.requests:
                threading.Event().wait(0.01)
            found.status = 200
            while not follower._sender or not follower._sender.sent:
                threading.Event().wait(0.01)
    assert lines == ["traces: 1 of 1 episodes were sent"]


def test_a_collector_that_hangs_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600")
    monkeypatch.setattr(traces, "_LAST_SECONDS", 0.2)
    with collector(hangs=threading.Event()) as found:
        pointed(monkeypatch, found.url)
        with Follower(tmp_path, "otel", lines.append):
            written(tmp_path, "a")
            while not found.requests:
                threading.Event().wait(0.01)
        assert lines[0].startswith("traces: 0 of 1 episodes were sent; 1 were not sent: ")
        assert found.hangs
        assert not found.hangs.is_set(), "it was left while it hung"


def test_whatever_goes_wrong_with_traces_ends_no_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("no such thing")

    with collector() as found:
        pointed(monkeypatch, found.url)
        monkeypatch.setattr(traces, "_spans", broken)
        with Follower(tmp_path, "otel", lines.append) as follower:
            written(tmp_path, "a")
            follower._thread.join(60)
    assert lines[0].startswith("traces: 0 of 1 episodes were sent; 1 were not sent: RuntimeError: no such thing; ")


def test_the_command_sends_a_folder_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, "a", "b")
    with collector() as found:
        pointed(monkeypatch, found.url)
        for _ in range(2):
            sys.argv = ["agent-grid", "export", "otel", str(tmp_path)]
            assert main() == 0
        found.status = 400
        sys.argv = ["agent-grid", "export", "otel", str(tmp_path)]
        assert main() == 1
    assert "2 of 2 episodes were sent" in capsys.readouterr().out
    assert len({span["id"] for span in found.spans}) == len(found.spans) // 2, "the same ids the second time"


def test_without_the_package_it_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(traces, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'agent-grid\[otel\]'"):
        traces.expect_exporter()
    sys.argv = ["agent-grid", "export", "otel", str(written(tmp_path, "a"))]
    assert main() == 2
    assert "agent-grid[otel]" in capsys.readouterr().err
