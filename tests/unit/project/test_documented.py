"""Every command that a page shows is one that its program takes; what pages tell of the code is all of it."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import ClassVar

import pytest
from hydra._internal.config_repository import IConfigRepository

from docs import facts
from docs.facts import columns, commands, keys, sizing
from grid import CONF
from grid.sweeps import arguments, composing, jobs
from grid.sweeps.composing import multirun
from launch.main import COMMANDS
from tests.support import documented
from tests.support.documented import ROOT, RUN, Shown, shown

SWEEP = "agent-grid sweep"
COMPOSING = {SWEEP, "agent-grid replicas", "agent-grid win_rate"}
"""Programs whose arguments are overrides of a config."""
ODD = ("a choice never is", "goes on where it was", "a row a cell", "tables say what it means", "says what it means")
GROUPS = {
    "dataset": "datasets.md", "planner": "planners.md", "robustness": "settings.md", "retriever": "settings.md",
    "pool": "settings.md", "refine": "settings.md", "memory": "settings.md", "model": "models.md endpoint.md",
    "cluster": "cluster.md",
}  # fmt: skip
"""The pages of each group's files."""
_PLACEHOLDERS = {
    "...": "/data", "FOLDER": "/data", "PATH": "/data", "URL": "http://127.0.0.1:9/v1",
    "TASKS.jsonl": "/data/tasks.jsonl",
}  # fmt: skip


def composes(command: Shown) -> bool:
    plugin = any(word.startswith("plugins=") for word in command.words)
    return command.program in COMPOSING and command.text not in RUN and not plugin


@pytest.mark.long
def test_every_command_is_run_held_against_its_program_or_excused() -> None:
    for command in shown():
        ways = [command.text in RUN, bool(documented.excuse(command)), program_of(command) is not None]
        assert any(ways), f"{command.page}: {command.text}: run it, or say in tests/support/documented.py why not"
    texts = {command.text for command in shown()}
    assert set(RUN) <= texts, "what is run stands on a page"
    for pattern in documented.EXCUSED:
        assert any(re.fullmatch(pattern, text) for text in texts), f"{pattern} excuses nothing"


def program_of(command: Shown) -> Path | str | None:
    """The script or module whose `--help` tells its flags."""
    kind, _, name = command.program.partition(" ")
    if kind == "agent-grid":
        script = ROOT / "launch" / f"{name}.py"
        return script if script.is_file() else COMMANDS[name].module if name in COMMANDS else None
    name = name.removeprefix("-m ")
    return name if kind == "python" and name.startswith("grid.") else None


class ParsedOnce(composing._Files):
    """Hydra's files for every command alike: parsed once for all of them, not once a command."""

    _all: ClassVar[dict[str, bytes]] = {}

    def __init__(self, delegate: IConfigRepository) -> None:
        super().__init__(delegate)
        self._pickled = self._all


@pytest.mark.long
@pytest.mark.parametrize("page", documented.PAGES)
def test_sweeps_compose(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composing, "_Files", ParsedOnce)
    for command in shown():
        if command.page == page and composes(command):
            wrong = fault(tuple(command.arguments))
            assert not wrong, f"{page}: {command.text}: {wrong}"


@cache
def fault(asked: tuple[str, ...]) -> str:
    """What is wrong with arguments; pages repeat one another, and a composition takes a sixth of a second."""
    try:
        check_overrides(asked)
    except Exception as error:  # noqa: BLE001 - whatever it is, the page is wrong
        return str(error) or repr(error)
    return ""


def check_overrides(asked: Sequence[str]) -> None:
    """The first setting composes, and every file that is chosen is there."""
    words = [word for word in map(filled, asked) if not word.startswith(("results/", "against=", "pool-"))]
    given = arguments.with_pilot(arguments.completed(words))
    overrides = [word for word in given if word not in ("-m", "start", "status", "stop")]
    arguments.check(overrides)
    for word in overrides:
        key, _, value = word.partition("=")
        group = key.lstrip("+").partition("@")[0]
        if (CONF / group).is_dir() and not value.startswith("["):
            for name in re.sub(r"\[.*?\]", "", value).split(","):
                assert not name or (CONF / group / f"{name}.yaml").is_file(), f"{word}: no file {name}"
    with multirun(overrides) as settings:
        assert jobs.settings(islice(settings, 1)) is not None


def filled(word: str) -> str:
    """A word with the reader's own values in place of placeholders."""
    key, equals, value = word.partition("=")
    if value == "NAME" and key.startswith("model@"):
        return f"{key}=lexical"
    if value == "NAME" and key == "model":
        return f"{key}=simulated"
    if word == "...":  # what the lines before it have
        return "++dataset.path=/data"
    return f"{key}{equals}{_PLACEHOLDERS.get(value, value)}" if equals else _PLACEHOLDERS.get(word, word)


@pytest.mark.parametrize("page", documented.PAGES)
def test_programs_take_the_flags_that_are_shown(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: dict[tuple[str, ...], set[str]] = {}
    for command in shown():
        program = program_of(command)
        if command.page != page or program is None or command.program == SWEEP:
            continue
        names = command.arguments[:1] if command.program in ("agent-grid bench", "agent-grid readme") else []
        flags = {word.partition("=")[0] for word in command.arguments if word.startswith("--")}
        asked.setdefault((str(program), *names), set()).update(flags)
    for (program, *names), flags in asked.items():
        if flags or names:
            missing = flags - set(re.findall(r"--[\w-]+", told(program, names, monkeypatch, capsys)))
            assert not missing, f"{page}: {program} has no {', '.join(sorted(missing))}"


def told(program: str, names: list[str], patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What `--help` prints."""
    patch.setattr(sys, "argv", [program, *names, "--help"])
    with pytest.raises(SystemExit) as ended:
        start(program)
    assert ended.value.code == 0, f"{program} {' '.join(names)} --help"
    return capsys.readouterr().out


def start(program: str) -> None:
    """A script, or a module that runs by `python -m`."""
    if program.endswith(".py"):
        runpy.run_path(program, run_name="__main__")
    else:
        found = import_module(program)
        (import_module(f"{program}.__main__") if hasattr(found, "__path__") else found).main()


def test_every_column_is_explained_once() -> None:
    told = columns.read()
    assert set(told) == set(columns.SCHEMAS)
    for name, schema in columns.SCHEMAS.items():
        used = [columns.of(column, told[name]) for column in schema.names]
        assert None not in used, [column for column, one in zip(schema.names, used, strict=True) if one is None]
        assert set(used) == set(told[name]), f"{name}: what is no column is explained"
        assert all(one and one.meaning and one.null for one in used)
    asked = facts.asked((ROOT / "docs/columns.md").read_text(encoding="utf-8"), "columns")
    assert sorted(asked) == sorted([*columns.SCHEMAS, "scores"])


def test_pages_here_say_what_a_command_says_in_a_process_of_its_own() -> None:
    asked = ["report", "--help"]
    assert documented.said(asked) == commands.told(asked)


@pytest.mark.parametrize("group", GROUPS)
def test_every_file_of_a_group_has_its_keys_on_its_page(group: str) -> None:
    page = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in GROUPS[group].split())
    asked = facts.asked(page, "keys")
    for path in sorted((CONF / group).glob("*.yaml")):
        name = f"{group}/{path.stem}"
        assert name in asked, f"{GROUPS[group]} has no section for {name}"
        assert all(keys.meaning(name, key) for key in keys.read(path)), f"{name}: a key without a meaning"
        if group in ("dataset", "planner"):
            assert re.search(rf"^### {path.stem}$", page, re.M)


def test_keys_are_those_of_the_files() -> None:
    """Read from comments and marks, they are the keys that YAML itself finds."""
    import yaml

    for path in sorted(CONF.glob("*/*.yaml")):
        found = {key.name for key in keys.read(path)}
        told = yaml.safe_load(path.read_text(encoding="utf-8"))
        leaves = {name for name, value in flat(told or {}) if not isinstance(value, dict) or not value}
        within = {name for name in leaves if not any(name.startswith(f"{one}.") for one in found)}
        assert {name for name in within if name.rpartition(".")[2] != "_target_"} <= found, path


def flat(values: dict[str, object], prefix: str = "") -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, value in values.items():
        if key in ("defaults", "_target_"):
            continue
        found.append((f"{prefix}{key}", value))
        if isinstance(value, dict):
            found += flat(value, f"{prefix}{key}.")
    return found


def test_every_top_level_key_is_on_the_page_of_keys() -> None:
    asked = facts.asked((ROOT / "docs/keys.md").read_text(encoding="utf-8"), "keys")
    top = {key.name.partition(".")[0] for key in keys.read(CONF / "config.yaml")} - {"hydra"}
    assert top <= {name for one in asked if one.startswith("config ") for name in one.split()}


def test_every_command_and_preset_is_told_of() -> None:
    text = documented.pages()
    for name in COMMANDS:
        assert f"`agent-grid {name}`" in text["commands.md"]
        assert re.search(rf"^## {name}$", text["commands.md"], re.M)
    for path in (CONF / "experiment").glob("*.yaml"):
        assert re.search(rf"^## {path.stem}$", text["presets.md"], re.M)


def test_every_model_of_the_hub_on_gpus_is_sized() -> None:
    on_gpus = {path.stem for path in (CONF / "model").glob("*.yaml") if "device: cuda\n" in path.read_text()}
    sized = {model.name: model for model in sizing.MODELS}
    assert on_gpus <= set(sized)
    assert sized["qwen2.5-coder-1.5b"].per_token == 28 * 1024, "as its file says"
    text = (CONF / "model/qwen2.5-coder-1.5b-vllm.yaml").read_text(encoding="utf-8")
    assert "28 KiB per token" in text


def test_a_model_of_70_billion_has_its_gpus() -> None:
    assert {model.per_token for model in sizing.LARGE} == {320 * 1024}
    half, one = sizing.render("gpus").splitlines()[-2:]
    assert half.startswith("| Llama-3.1/3.3-70B, bf16 | 8; 135 thousand | 4; "), "141 GB of weights"
    assert one.endswith("| 1; 200 thousand |"), "71 GB of weights on 127 GiB"


def test_pages_say_things_in_plain_words() -> None:
    for page, text in documented.pages().items():
        if page != "changes.md":
            assert not [phrase for phrase in ODD if phrase in text], page


@pytest.mark.long
def test_pages_hold_what_they_take_from_the_code() -> None:
    stale = [
        path.name
        for path in sorted((ROOT / "docs").glob("*.md"))
        if facts.written(text := path.read_text(encoding="utf-8")) != text
    ]
    assert stale == [], "python -m docs.facts writes them anew"


def test_what_is_written_is_replaced_and_a_built_page_has_it_once() -> None:
    page = "before\n\n<!-- facts keys cluster/inline -->\n\nafter\n\n<!-- facts keys cluster/inline -->\n"
    written = facts.written(page)
    assert facts.written(written) == written
    assert facts.expanded(written) == facts.expanded(page)
    assert written.count("| `cluster.kind` |") == facts.expanded(written).count("| `cluster.kind` |") == 2
    assert facts.asked(written, "keys") == ["cluster/inline"] * 2
    assert "\nafter\n" in written


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("<!-- facts nothing x -->\n", "one of keys"), ("a <!-- facts keys x -->\n", "stand alone on a line")],
)
def test_a_fact_that_there_is_not_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        facts.expanded(text)
