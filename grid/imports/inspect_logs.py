"""Reads logs of Inspect with its own library: `.eval` one sample at a time, `.json` as a whole. Only JSON is read."""

from __future__ import annotations

import datetime as dt
import math
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from grid.core.engine import ACTOR, ASKED, EVALUATOR, Role
from grid.core.errors import ConfigError, DataError, GridError, Status, one_line
from grid.imports.episodes import (
    Called,
    Found,
    Names,
    Read,
    Said,
    Sample,
    Source,
    Spent,
    observed,
    planner_label,
    resolved,
    score_name,
)

TOOL = "inspect"
LARGEST = 512 << 20
"""The maximum size in bytes of one unpacked sample, or of a log that is a single JSON file."""
_SCORES = 64  # maximum number of values that are read from one score
_FLAGS = {"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""The values of texts used as scores, as in Inspect's `value_to_float` (which counts every other text as 0)."""
_ROLES: Mapping[str, Role] = {**{role: role for role in (ACTOR, *ASKED)}, "grader": EVALUATOR}
_LIMITS = {"token": "tokens", "time": "seconds", "working": "seconds", "cost": "money"}
_UNREAD = {"store", "timelines", "error_retries"}
_INSTALL = (
    "must be installed: pip install 'agent-grid[inspect]' (in a separate environment if other packages pin fsspec)"
)


def opened(path: Path, sha256: str, success: str | None) -> tuple[Source, Read]:
    """The source of a log, and a function that reads the log's samples.

    Args:
        path: the log.
        sha256: the digest of the log's bytes.
        success: the scorer that decides success, `SCORER/KEY` if its score has several values; None: the first scorer.

    Raises:
        ConfigError: inspect_ai is not installed, or the log has no such scorer.
        DataError: the log cannot be read.
    """
    if find_spec("inspect_ai") is None:
        raise ConfigError("inspect_ai", None, _INSTALL)
    zipped = _checked(path)
    log = _read(path, zipped)
    scorers = _scorers(log)
    rule = success or next(iter(scorers), "")
    if success and success.partition("/")[0] not in scorers:
        raise ConfigError("--success", success, f"a scorer of this log: {', '.join(scorers) or 'it has none'}")
    spec = log.eval
    source = Source(
        tool=TOOL,
        package="inspect_ai",
        version=spec.packages.get("inspect_ai"),
        file=path.name,
        sha256=sha256,
        identity=spec.eval_id or f"{spec.run_id} {spec.task_id} {spec.created}",
        model=one_line(spec.model, 200),
        planner=planner_label(TOOL, spec.solver or "+".join(step.solver for step in log.plan.steps) or "none"),
        dataset=one_line(spec.task, 200),
        dataset_version=str(spec.task_version),
        roles=_labels(spec.model_roles or {}),
        given=_given(log),
        success=rule,
        planned=(spec.dataset.samples or 0) * (spec.config.epochs or 1) or None,
    )
    return source, partial(_samples, path, zipped, log, rule)


def _checked(path: Path) -> bool:
    """Whether a log is a ZIP file; raises DataError if the log or a part of it is too large or cannot be read."""
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == b"PK"
        sizes = [one.file_size for one in zipfile.ZipFile(path).infolist()] if zipped else [path.stat().st_size]
    except (OSError, zipfile.BadZipFile, ValueError) as error:
        raise DataError(Path(path.name), None, f"not a complete log of Inspect ({one_line(error, 200)})") from None
    if max(sizes, default=0) > LARGEST:
        what = "a part" if zipped else "the file"
        raise DataError(Path(path.name), None, f"{what} has {max(sizes):,} bytes, more than {LARGEST:,}")
    return zipped


def _read(path: Path, zipped: bool) -> Any:
    """The log's header, or the whole log if it is a single JSON file. Inspect's parsers may raise any error."""
    from inspect_ai.log import read_eval_log

    try:
        whole = {"header_only": True} if zipped else {"resolve_attachments": True}
        return read_eval_log(str(path), format="eval" if zipped else "json", **whole)
    except Exception as error:  # noqa: BLE001 - anybody may have written the file
        told = f"Inspect cannot read it ({type(error).__name__}: {one_line(error, 300)})"
        raise DataError(Path(path.name), None, told) from None


def _scorers(log: Any) -> list[str]:
    found = [score.scorer for score in log.results.scores] if log.results else []
    return list(dict.fromkeys([*found, *(scorer.name for scorer in log.eval.scorers or [])]))


def _labels(roles: Mapping[str, Any]) -> dict[Role, str]:
    """The names of the log's models, keyed by our names for their roles."""
    found: dict[Role, str] = {}
    for name, config in roles.items():
        models = config if isinstance(config, list) else [config]
        if name in _ROLES:
            found[_ROLES[name]] = one_line(", ".join(str(one.model) for one in models), 200)
    return found


def _given(log: Any) -> dict[str, Any]:
    """The run's parameters in the log; the model's address and the data's location are left out."""
    spec = log.eval
    told = {
        "task": spec.task,
        "task_args": spec.task_args,
        "solver_args": spec.solver_args,
        "generate": spec.model_generate_config.model_dump(exclude_none=True, mode="json", include=_GENERATE),
        "run": spec.eval_id,
        "status": log.status,
        "data": spec.dataset.name,
    }
    return {name: value for name, value in told.items() if value}


_GENERATE = {"temperature", "top_p", "top_k", "max_tokens", "seed", "reasoning_effort", "num_choices"}


def _samples(path: Path, zipped: bool, log: Any, rule: str, wanted: Any, found: Found) -> Iterator[Sample]:
    samples, names = [*_each(path, zipped, log)], Names()
    for told, _ in samples:  # also those that are not wanted, so that names do not depend on what is
        _scores(_values(told.scores or {}), names)
    for told, read in samples:
        if told.epoch > 0 and wanted(str(told.id), told.epoch - 1):
            try:
                one = read()
                sample = None if one.invalidation else _sample(one, log.eval, rule, names, found)
            except GridError:
                raise
            except Exception as error:  # noqa: BLE001 - a cut or damaged sample must not end the import
                found.note(f"could not be read ({type(error).__name__})")
                continue
            if sample is None:
                found.note("are marked as invalid, and are left out")
            else:
                yield sample


def _each(path: Path, zipped: bool, log: Any) -> Iterator[tuple[Any, Any]]:
    """Every sample's summary (its id, epoch and scores), and a function that reads the sample."""
    if not zipped:
        for one in log.samples or []:
            yield one, lambda one=one: one
        return
    from inspect_ai.log import read_eval_log_sample, read_eval_log_sample_summaries

    try:
        summaries = read_eval_log_sample_summaries(str(path), format="eval")
    except Exception as error:  # noqa: BLE001 - as above
        raise DataError(Path(path.name), None, f"Inspect cannot list its samples ({one_line(error, 300)})") from None
    for one in summaries:
        how: dict[str, Any] = {"resolve_attachments": True, "format": "eval", "exclude_fields": _UNREAD}
        yield one, partial(read_eval_log_sample, str(path), one.id, one.epoch, **how)


def _sample(one: Any, spec: Any, rule: str, names: Names, found: Found) -> Sample:
    events = [event for event in one.events if event.event == "model" and not event.error and event.cache != "read"]
    values = _values(one.scores or {})
    success = resolved(next((worth for score, worth in values.items() if "/".join(score) == rule), None))
    if success is None:
        found.note("have no known success, because their score is missing or is not a number from 0 to 1")
    said = [message for message in one.input if message.role == "user"] if isinstance(one.input, list) else []
    query = one.input if isinstance(one.input, str) else "\n".join(message.text for message in said)
    error = one.error
    limit = one.limit.type if one.limit else None
    config = events[0].config if events else spec.model_generate_config
    return Sample(
        case_id=str(one.id),
        trial=one.epoch - 1,
        query=query,
        target="\n".join([one.target] if isinstance(one.target, str) else one.target) or None,
        messages=_messages(one.messages, {event.output.message.id: event for event in events if event.output.choices}),
        scores=_scores(values, names, found),
        success=success,
        ended=dt.datetime.fromisoformat(str(one.completed_at)) if one.completed_at else None,
        status=Status.FAILED if error else Status.OK,
        error_message=error.message if error else None,
        error_traceback=error.traceback if error else None,
        answer=one.output.completion or None,
        budget_reached=_LIMITS.get(limit, limit) if limit else None,
        cluster=_cluster(one.metadata),
        spent=_spent(one, spec.model, events, found),
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        wall_seconds=one.total_time,
        case_seconds=one.working_time,
    )


def _cluster(metadata: Mapping[str, Any]) -> str | None:
    """The case's cluster; logs written by `agent-grid export` contain it."""
    told = metadata.get("cluster")
    return str(told) if isinstance(told, str | int) else None


def _values(scores: Mapping[str, Any]) -> dict[tuple[str, ...], float | str]:
    """The values of all scores, keyed by the scorer's name and, if a score has several values, the value's key."""
    found: dict[tuple[str, ...], float | str] = {}
    for scorer, score in scores.items():
        several = score.value.items() if isinstance(score.value, dict) else ()
        parts: list[tuple[tuple[str, ...], Any]] = [((scorer, str(key)), value) for key, value in several]
        parts = parts or [((scorer,), score.value)]
        found |= {names: worth for names, value in parts[:_SCORES] if (worth := _worth(value)) is not None}
    return found


def _scores(
    values: Mapping[tuple[str, ...], float | str], names: Names, found: Found | None = None
) -> dict[str, float | str]:
    """The values, keyed by metric name; the name for a value that is not a number ends in `_text`."""
    scores: dict[str, float | str] = {}
    for score, worth in values.items():
        if isinstance(worth, str):
            scores[names.of(score_name(TOOL, *score, "text"), "text", *score, found=found)] = worth
        else:
            scores[names.of(score_name(TOOL, *score), "number", *score, found=found)] = worth
    return scores


def _worth(value: Any) -> float | str | None:
    """The value of a score, as a number if possible, otherwise as a text; None if missing, infinite or too large."""
    if isinstance(value, str):
        if (flag := _FLAGS.get(value.strip().lower())) is not None:
            return flag
        try:
            value = float(value)
        except ValueError:
            return cast(str, value)
    if isinstance(value, bool | int | float):
        with suppress(OverflowError):  # of a whole number with more than 308 digits
            return float(value) if math.isfinite(value) else None
        return None
    return None if value is None else str(value)


def _messages(messages: Sequence[Any], asked: Mapping[str | None, Any]) -> list[Said]:
    results = {
        message.tool_call_id: (message.text if not message.error else message.error.message, bool(message.error))
        for message in messages
        if message.role == "tool" and message.tool_call_id
    }
    said = []
    for message in messages:
        mine = message.role == "assistant"
        event = asked.get(message.id) if mine and message.id else None
        asked_for = (message.tool_calls or []) if mine else []
        calls = [Called(call.id, call.function, call.arguments, call.parse_error) for call in asked_for]
        spent = _usage([event]) if event else Spent()
        said.append(Said(message.role, message.text or (_thought(message) if mine else ""), calls,
                         mine and message.source != "input", spent))  # fmt: skip
    return observed(said, results)


def _thought(message: Any) -> str:
    parts = message.content if isinstance(message.content, list) else []
    return "\n".join(part.reasoning for part in parts if part.type == "reasoning")


def _spent(one: Any, model: str, events: Sequence[Any], found: Found) -> dict[Role, Spent]:
    """Each role's usage, summed over its model events.

    If the usage of the actor's events is missing or incomplete, the actor gets the total that the sample states for the
    model.
    """
    roles: dict[Role, list[Any]] = {ACTOR: []}
    for event in events:
        role = _ROLES.get(event.role) if event.role else ACTOR
        if role is None:
            found.note(f"calls of a model in the role {one_line(event.role, 40)} have tokens that no column counts")
        else:
            roles.setdefault(role, []).append(event)
    spent = {role: _usage(own) for role, own in roles.items()}
    if spent[ACTOR].input_tokens is None and (total := one.model_usage.get(model)):
        spent[ACTOR] = _told([total])._replace(llm_calls=spent[ACTOR].llm_calls)
    return spent


def _usage(events: Sequence[Any]) -> Spent:
    """The summed usage of model events; without figures if any event has no usage."""
    usages = [event.output.usage for event in events]
    told = _told(usages) if usages and all(usages) else Spent()
    return told._replace(llm_calls=len(events) or None)


def _told(usages: Sequence[Any]) -> Spent:
    def total(name: str, otherwise: int | None = None) -> Any:
        return _sum(getattr(usage, name) if getattr(usage, name) is not None else otherwise for usage in usages)

    cached = total("input_tokens_cache_read", 0) + total("input_tokens_cache_write", 0)
    return Spent(
        input_tokens=total("input_tokens") + cached,
        cached_input_tokens=total("input_tokens_cache_read"),
        output_tokens=total("output_tokens"),
        reasoning_tokens=total("reasoning_tokens"),
        money=total("total_cost"),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return None if None in known else sum(cast(list[float], known))
