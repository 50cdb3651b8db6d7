"""The viewer in a real Chromium: the keyboard alone, a phone, a hostile folder, files, and a sweep that runs."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright")

import uvicorn
from playwright.sync_api import Browser, Page, expect, sync_playwright

from analysis.viewer.addresses import address, link
from analysis.viewer.app import app
from analysis.viewer.exporting import export
from analysis.viewer.runs import Run
from launch.view import Watch, _listener
from tests.support import viewed

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE = 120_000  # milliseconds, on a busy machine


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=PATIENCE)
        yield found
        found.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that says what went wrong in it, and of any request to another place."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE)
    found = context.new_page()
    wrong: list[str] = []
    found.on("pageerror", lambda error: wrong.append(str(error)))
    found.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    found.on("request", lambda asked: wrong.append(asked.url) if not _own(asked.url) else None)
    yield found
    context.close()
    assert wrong == []


def _own(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "file:///", "data:"))


@contextmanager
def served(*roots: Path) -> Iterator[str]:
    """A viewer in a thread, as the command starts it."""
    listener, port = _listener("127.0.0.1", None)
    runs = [Run(root, key, Watch(root)) for root, key in zip(roots, ("", "2"), strict=False)]
    server = uvicorn.Server(uvicorn.Config(app(runs, port), log_level="error", lifespan="off"))
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("viewer") / "small"
    viewed.write(found)
    return found


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim().replace(/\\s+/g, ' ')"))


def opened(page: Page, key: str, title: str) -> None:
    """Press a key, and wait for the page that it leads to."""
    press(page, key)
    expect(page).to_have_title(re.compile(re.escape(title)), timeout=PATIENCE)
    page.wait_for_load_state()


@pytest.mark.long
def test_the_keyboard_walks_from_the_sweep_to_the_prompt_and_back(page: Page, root: Path) -> None:
    with served(root) as at:
        page.goto(at)
        press(page, "j")
        assert focused(page) == "small · made_up · none"
        press(page, "j")
        assert focused(page) == "react", "the reference is first"
        opened(page, "Enter", "small · made_up · none")
        press(page, "ArrowDown", "ArrowRight", "ArrowRight")
        assert "tooltree" in page.evaluate("document.activeElement.title")
        press(page, "j", "k", "ArrowLeft", "l")
        assert "tooltree" in page.evaluate("document.activeElement.title")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", "focus is seen"
        opened(page, "Enter", "tooltree")
        case = page.title().split(" · ")[0]
        opened(page, "t", "tree")
        expect(page.locator("svg .node")).to_have_count(4, timeout=PATIENCE)
        press(page, "j", "j")
        assert page.evaluate("document.activeElement.closest('svg') !== null")
        press(page, "Enter")
        assert "#node-0" in page.url
        opened(page, "m", "prompts")
        press(page, "j")
        assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
        assert page.locator("pre.prompt").first.inner_text().startswith("Query: rank")
        opened(page, "u", case)
        opened(page, "n", "tooltree")
        assert not page.title().startswith(case)
        opened(page, "p", case)
        opened(page, "Backspace", "small · made_up · none")
        press(page, "/")
        page.keyboard.type("case-3")
        press(page, "Enter")
        page.wait_for_url("**case=case-3*")
        expect(page.locator(".matrix tbody tr")).to_have_count(1, timeout=PATIENCE)
        press(page, "?")
        expect(page.locator("#help dl")).to_be_visible(timeout=PATIENCE)
        opened(page, "u", "small · agent-grid")


@pytest.mark.long
def test_links_of_a_report_lead_to_the_cases(page: Page, root: Path) -> None:
    with served(root) as at:
        page.goto(at + link("small", "made_up", "none", "tooltree"))
        assert page.locator("th.chosen").inner_text().startswith("tooltree")
        page.goto(at + link(dataset="made_up"))
        expect(page.locator(".matrix")).to_have_count(1, timeout=PATIENCE)


@pytest.mark.long
def test_without_javascript_everything_is_there(browser: Browser, root: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    with served(root) as at:
        page.goto(at)
        page.click("text=react")
        page.select_option("select[name=outcome]", "resolved")
        page.select_option("select[name=planner]", "react")
        page.click("text=Show")
        expect(page.locator(".matrix tbody tr")).to_have_count(2, timeout=PATIENCE)
        page.locator(".cell a").first.click()
        expect(page.locator(".decision")).to_have_count(2, timeout=PATIENCE)
        page.click("text=prompts and answers")
        expect(page.locator("pre.prompt").first).to_be_visible(timeout=PATIENCE)
    context.close()


@pytest.mark.long
def test_no_text_of_a_hostile_folder_runs(page: Page, tmp_path: Path) -> None:
    viewed.write(tmp_path / "evil", viewed.EVIL, count=1)
    cell = viewed.cell("tooltree", 0, 0) + viewed.EVIL
    paths = ["/", "/cases", *(address(f"/{name}", {"cell": cell}) for name in ("episode", "tree", "asked"))]
    paths += [address("/episode", {"cell": cell, "first": 0}), address("/episode", {"cell": viewed.EVIL})]
    with served(tmp_path / "evil") as at:
        for path in paths[:-1]:
            page.goto(at + path)
            _inert(page)
        page.goto(at + paths[0])
        opened(page, "j", "evil")
    export([Run(tmp_path / "evil")], tmp_path / "files", most=100)
    for name in ("index.html", *(f"{folder}/{path.name}" for folder in ("cases", "episode", "tree", "asked")
                                 for path in list((tmp_path / "files" / folder).iterdir())[:1])):  # fmt: skip
        page.goto((tmp_path / "files" / name).as_uri())
        _inert(page)


def _inert(page: Page) -> None:
    """No script of the folder's ran, no element of its was made, and no link of its leads away."""
    assert page.title() != "ran"
    assert page.evaluate("document.querySelectorAll('script').length") == 1
    assert page.evaluate("document.querySelectorAll('img, iframe, object, embed').length") == 0
    assert "<script>document.title" in page.evaluate("document.body.textContent")
    schemes = page.evaluate("[...document.querySelectorAll('a')].map((one) => one.protocol || 'none')")
    assert set(schemes) <= {"http:", "file:", "none"}
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    page.wait_for_timeout(50)
    assert page.title() != "ran"


@pytest.mark.long
@pytest.mark.parametrize("evil", ["", viewed.EVIL], ids=["plain", "hostile"])
def test_a_phone_never_scrolls_sideways(evil: str, browser: Browser, tmp_path: Path) -> None:
    viewed.write(tmp_path / "r", evil)
    context = browser.new_context(viewport={"width": 390, "height": 844})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    cell = viewed.cell("tooltree", 0, 0) + evil
    with served(tmp_path / "r") as at:
        for path in ("/", "/cases", *(address(f"/{name}", {"cell": cell}) for name in ("episode", "tree", "asked"))):
            page.goto(at + path)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    context.close()


@pytest.mark.long
def test_an_export_opens_from_the_disk(page: Page, root: Path, tmp_path: Path) -> None:
    export([Run(root)], tmp_path / "files", most=100)
    page.goto((tmp_path / "files/index.html").as_uri())
    assert page.evaluate("getComputedStyle(document.querySelector('table')).borderCollapse") == "collapse", "its style"
    press(page, "j", "j")
    opened(page, "Enter", "small · made_up · none")
    press(page, "j", "ArrowRight", "ArrowRight")
    opened(page, "Enter", "tooltree")
    opened(page, "t", "tree")
    expect(page.locator("svg .node")).to_have_count(4, timeout=PATIENCE)
    opened(page, "m", "prompts")
    expect(page.locator(".request")).to_have_count(1, timeout=PATIENCE)
    opened(page, "u", "tooltree")


@pytest.mark.long
def test_a_running_sweep_refreshes_by_itself(page: Page, tmp_path: Path) -> None:
    viewed.write(tmp_path / "r", count=1)
    _tell(tmp_path / "r", "running", 6)
    with served(tmp_path / "r") as at:
        page.goto(at)
        assert "6 episodes" in page.inner_text("main")
        assert "6/24" in page.inner_text(".progress.running")
        press(page, "j", "j")
        viewed.write(tmp_path / "r", first=1, count=3)
        _tell(tmp_path / "r", "running", 24)
        expect(page.locator("main")).to_contain_text("24 episodes", timeout=PATIENCE)
        assert focused(page) == "react", "focus stays"
        _tell(tmp_path / "r", "ended", 24)
        expect(page.locator(".progress")).to_contain_text("ended", timeout=PATIENCE)
        expect(page.locator(".running")).to_have_count(0, timeout=PATIENCE)


def _tell(root: Path, state: str, done: int) -> None:
    """A sweep's progress, as its driver writes it."""
    told: dict[str, Any] = dict.fromkeys(("failed", "lost", "in_flight"), 0)
    told |= {"state": state, "updated_at": time.time(), "seconds": 1.0, "cells": 24, "done": done, "ok": done,
             "cells_per_second": 1.0, "tokens_per_second": 1.0, "seconds_left": None, "settings": []}  # fmt: skip
    draft = root / ".progress"
    draft.write_text(json.dumps(told))
    draft.replace(root / "progress.json")
