"""The keys of SLATE's construction: what is wrong is said before anything is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from grid.core.errors import ConfigError
from grid.synthesis.config import read as construction


def given_keys(folder: Path, *more: str) -> list[str]:
    return ["model=openai_http", "model.model=m", "domain=public_library", f"out={folder}", *more]


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (["model=nosuch"], "model='nosuch': one of "),
        (["model=openai_http"], "model.model='???': this key has no default"),
        (["model=lexical"], None),
        (["domain=nosuch"], "domain='nosuch': a YAML file with name, description, users, topics, or one of "),
        (["sizes.tols=3"], "sizes.tols='3': no such key; the keys here are tools, workflows"),
        (["sizes.tools=0"], "sizes.tools=0: "),
        (["sizes.equivalents=2"], "sizes.equivalents=2: "),
        (["sizes=3"], "sizes=3: "),
        (["seed=1.5"], "seed=1.5: "),
        (["temperature=.nan"], "temperature=nan: "),
        (["complexity.complex=0", "complexity.moderate=0", "complexity.advanced=0"], "complexity="),
        (["complexity.hard=1"], "complexity.hard='1': no such key; the keys here are simple, moderate"),
        (["nosuch"], "nosuch=None: KEY=VALUE"),
        (["seed=["], "seed='[': a value that can be read"),
        (["model.api_key=sk-secret"], None),
        (["cluster=nosuch"], "cluster='nosuch': one of address, inline, local"),
        (["order=plans"], "order='plans': "),
        (["retriever=nosuch"], "retriever='nosuch': one of bm25, dense, "),
        (["retriever.nosuch=1"], "retriever.nosuch='1': no such key"),
        (["seed=${nokey}"], "seed='${nokey}': a value that can be read (Interpolation key 'nokey' not found)"),
        (["seed=${"], "seed='${': no viable alternative"),
        (["domain=${"], "domain='${': a value that can be read"),
        (["model.api_key=${nokey}"], "model.api_key='(not shown)': a value that can be read"),
        (["domain=~nosuchuser/x"], "domain='~nosuchuser/x': a YAML file"),
        (["out=~nosuchuser/x"], "out='~nosuchuser/x': a folder (Could not determine home directory.)"),
    ],
)
def test_bad_keys(keys: list[str], says: str | None, tmp_path: Path) -> None:
    whole = given_keys(tmp_path, *keys)
    if keys == ["model=openai_http"]:
        whole.remove("model.model=m")
    if says is None:
        construction(whole)  # the engine itself says what is wrong with its keys
        return
    with pytest.raises(ConfigError) as caught:
        construction(whole)
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "domain="),
        ("[1]", "domain="),
        ("{", "domain="),
        ("name: x\ndescription: y\nusers: [a]\ntopics: {}", "domain.topics="),
        ("name: x\ndescription: y\nusers: []\ntopics: {A: b}", "domain.users="),
        ("name: x\ndescription: y\nusers: [a]\ntopics: {A: b, 'a!': c}", "domain.topics="),
        ("name: x\ndescription: y\nusers: [a]\ntopics: {'…': b, B: c}", "domain.topics="),
        ('name: "x\\e[31m"\ndescription: y\nusers: [a]\ntopics: {A: b}', "domain.name="),
        ("name: x\ndescription: y\nusers: [a]\ntopics: {A: b}\nmore: 1", "domain.more="),
        ("name: !!python/object:os.system x", "domain="),
    ],
)
def test_bad_domains(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "domain.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        construction(given_keys(tmp_path, f"domain={path}"))
    assert str(caught.value).startswith(says)
    assert str(caught.value).isprintable()


def test_a_domain_that_can_have_one_tool_only(tmp_path: Path) -> None:
    path = tmp_path / "domain.yaml"
    path.write_text("name: x\ndescription: y\nusers: [a]\ntopics: {A: b}", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"sizes.tools=1: 2 or more if the domain has one topic"):
        construction(given_keys(tmp_path, f"domain={path}", "sizes.tools=1"))


@pytest.mark.parametrize("name", ["bicycle_workshop", "public_library"])
def test_domains_that_are_here(name: str, tmp_path: Path) -> None:
    assert len(construction(given_keys(tmp_path, f"domain={name}")).domain.topics) >= 3
