"""All pools that a sweep needs: found or started, loaded, watched while it runs, and stopped at its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, cast

from grid.cluster import gpus, pool
from grid.cluster.pool import Pool, Say
from grid.cluster.ready import wait
from grid.cluster.replica import ReplicaStats
from grid.core.engine import ACTOR, CRITIC, EVALUATOR, JUDGE, SAMPLE
from grid.core.labels import short
from grid.core.problem import DRAFTED
from grid.core.types import Usage
from grid.engines.hosted import HostedEngine, Probe
from grid.settings.build import build_engine
from grid.settings.parts import parts_of
from grid.settings.roles import judging, label_of, model_key, models, simulating
from grid.settings.setting import Setting

_LOOK_SECONDS = 2.0
LOST_SECONDS = 120.0  # in which a replica did not once say that it is well


@dataclass
class Totals:
    """What a replica has done in all its processes, as far as they told; `seconds` since the fleet was ready."""

    label: str
    name: str
    processes: dict[int, ReplicaStats] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def restarts(self) -> int:
        """Processes that took the place of one that ended."""
        return max(len(self.processes) - 1, 0)

    @property
    def stats(self) -> ReplicaStats:
        """The processes' sums; the batch is their mean over busy time, the KV cache their peak."""
        parts = list(self.processes.values())
        last = parts[-1]
        busy = sum(part.busy_seconds for part in parts)
        usage = parts[0].usage
        for part in parts[1:]:
            usage += part.usage
        peaks = [part.kv_cache for part in parts if part.kv_cache is not None]
        return replace(
            last,
            requests=sum(part.requests for part in parts),
            failed=sum(part.failed for part in parts),
            usage=usage,
            busy_seconds=busy,
            batch=sum(part.batch * part.busy_seconds for part in parts) / busy if busy else 0.0,
            kv_cache=max(peaks, default=None),
        )


class Fleet:
    """A context manager: inside it, every model of the settings that needs replicas has them, loaded and watched.

    A pool that `launch/replicas.py` started is joined and left running; others are started and stopped here. Replicas
    that do not become ready are started again, and join the others when they are. `lost_seconds`: after so long
    without a word from a replica that it is well, its process is ended, and Ray starts another.

    Raises:
        ConfigError: not enough GPUs, or an engine that can never work.
        EngineError: a pool of which no replica becomes ready within `ready_seconds`.
    """

    lost_seconds = LOST_SECONDS

    def __init__(self, settings: Sequence[Setting], replicas: int, ready_seconds: float, say: Say) -> None:
        needed = [
            (role, label_of(role, setting.labels), model)
            for setting in settings
            for role, model in models(setting.config).items()
            if build_engine(model).home != "task"
        ]
        needed.sort(key=lambda one: one[0] == ACTOR)  # so that an acting model's label counts
        names = short(label for _, label, _ in needed)
        self._models = {model_key(model): (names[label], model) for _, label, model in needed}
        self._probes = probes_of(settings)
        self._replicas, self._ready_seconds, self._say = replicas, ready_seconds, say
        self.pools: dict[str, Pool] = {}
        self._late: dict[str, Any] = {}  # replicas that are not ready, and the calls to load them
        self._totals: dict[str, Totals] = {}
        self.loading = 0.0
        """Seconds until the models were loaded."""
        self._ended = threading.Event()
        self._watcher: threading.Thread | None = None

    def handles(self, model: Mapping[str, Any]) -> Mapping[str, Any]:
        """The actors of a model's replicas that became ready, by name; empty where it needs none."""
        found = self.pools.get(model_key(model))
        return {name: handle for name, handle in found.handles.items() if name not in self._late} if found else {}

    def spent(self, model: Mapping[str, Any], attempt_id: str) -> Usage:
        """What the model's replicas count for one attempt; nothing where the tasks hold the engine."""
        found = self.pools.get(model_key(model))
        return pool.spent(found, attempt_id) if found else Usage()

    def totals(self) -> list[Totals]:
        """What each replica has done, as last looked at."""
        self._look()
        return [total for total in self._totals.values() if total.processes]

    @property
    def uncounted(self) -> set[str]:
        """The keys of the models of whose answers nobody tells the tokens (`roles.model_key`)."""
        self._look()
        told = {name: total.stats.counts for name, total in self._totals.items() if total.processes}
        return {key for key, one in self.pools.items() if not all(told.get(name, True) for name in one.names)}

    @property
    def gpus(self) -> float:
        """GPUs that all its replicas take."""
        every = self.pools.values()
        return sum(len(one.names) * cast(HostedEngine, build_engine(one.model)).gpus for one in every)

    def told(self) -> str:
        """What the replicas have answered so far, as the end of a line; empty without replicas."""
        stats = [total.stats for total in list(self._totals.values()) if total.processes]
        if not stats:
            return ""
        tokens = sum(one.usage.input_tokens + one.usage.output_tokens for one in stats)
        return f"  replicas answered {sum(one.requests for one in stats):,} requests, {tokens:,} tokens"

    def __enter__(self) -> Fleet:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._watcher:
            self._watcher.join()
        self._stop()

    def _start(self) -> None:
        wanted, began = [], time.monotonic()
        for key, (label, model) in self._models.items():
            found = pool.find(label, model)
            if found:
                self.pools[key] = found
                self._say(f"{label}: joined a running pool of {len(found.names)} replicas")
            else:
                wanted.append((key, label, model, cast(HostedEngine, build_engine(model))))
        gpus.check([(label, self._replicas, engine.gpus) for _, label, _, engine in wanted])
        for key, label, model, engine in wanted:
            self.pools[key] = pool.start(
                label, model, engine, self._replicas, ready_seconds=self._ready_seconds, detached=False
            )
        asked = [replace(one, probes=self._probes.get(key, ())) for key, one in self.pools.items()]
        for name, late in wait(asked, self._ready_seconds, self._say).items():
            self._say(f"the sweep begins without replica {name}, which joins it when it is ready: {late.why}")
            self._late[name] = late.task or self._load_again(name, end=True)
        self._totals = {name: Totals(one.label, name) for one in self.pools.values() for name in one.names}
        self._ready = time.monotonic()
        self.loading = self._ready - began
        if self.pools:
            self._watcher = threading.Thread(target=self._watch, daemon=True, name="fleet")
            self._watcher.start()

    def _stop(self) -> None:
        for one in self.pools.values():
            if not one.detached:
                pool.stop(one)

    def _watch(self) -> None:
        """Look now and then, and end replicas that have not said for too long that they are well."""
        seen: dict[str, float] = {}  # when each was last well
        while not self._ended.wait(_LOOK_SECONDS):
            self._look()
            self._take_late()
            for one in self.pools.values():
                for name, well in pool.well(one, _LOOK_SECONDS).items():
                    now = time.monotonic()
                    seen[name] = now if well else seen.get(name, now)
                    if now - seen[name] > self.lost_seconds:
                        self._say(f"replica {name} does not answer; its process is ended and started again")
                        pool.restart(one, name)
                        seen[name] = now

    def _load_again(self, name: str, end: bool) -> Any:
        """The call to load a replica that is not ready; `end` its process before."""
        (one,) = (one for one in self.pools.values() if name in one.handles)
        if end:
            pool.restart(one, name)
        return one.handles[name].load.remote()

    def _take_late(self) -> None:
        """Take in replicas that have become ready, and load those again whose process ended."""
        import ray

        for name, task in list(self._late.items()):
            if not ray.wait([task], timeout=0)[0]:
                continue
            try:
                ray.get(task)
            except ray.exceptions.ActorDiedError:
                continue  # for good
            except ray.exceptions.RayError as error:
                self._late[name] = self._load_again(name, end=isinstance(error, ray.exceptions.RayTaskError))
            else:
                self._say(f"replica {name} is ready, and takes part from now on")
                del self._late[name]

    def _look(self) -> None:
        for name, stats in pool.stats_of(list(self.pools.values())).items():
            if stats:
                self._totals[name].processes[stats.pid] = stats
                self._totals[name].seconds = time.monotonic() - self._ready


# As a sweep will ask its models: what a server refuses of it is found before the first cell.


def probes_of(settings: Sequence[Setting]) -> dict[str, tuple[Probe, ...]]:
    """By the key of a model, every way in which it is sampled: by whom and at which temperature, each once."""
    found: dict[str, dict[Probe, None]] = {}
    for setting in settings:
        keys = {role: model_key(model) for role, model in models(setting.config).items()}
        for probe in _probes(setting.config):
            found.setdefault(keys[probe.role], {})[probe] = None
    return {key: tuple(sorted(probes)) for key, probes in found.items()}


def _probes(config: Mapping[str, Any]) -> Iterator[Probe]:
    """One for each temperature at which a role of a setting is asked; of a model alone, which is no setting, none."""
    if "planner" not in config:
        return
    parts = parts_of(config)
    planner = parts.planner
    own: float | None = getattr(planner, "temperature", None)  # a plugin's may have none
    if own is not None and SAMPLE in planner.needs:
        yield Probe(ACTOR, own)
    if parts.dataset.outline == DRAFTED:
        yield Probe(ACTOR, 0.0)
    if parts.refines:
        yield Probe(CRITIC if parts.refining.mode == CRITIC else ACTOR, parts.refining.temperature)
    for role, how in judging(config).items():
        if how.verb != SAMPLE:
            continue
        if role == EVALUATOR:
            yield Probe(EVALUATOR, how.at(getattr(parts.dataset, "evaluator_temperature", 0.0)))
        if role == JUDGE and JUDGE in planner.needs:
            yield Probe(JUDGE, how.at(getattr(planner, "judge_temperature", 0.0)))
        if role == JUDGE and parts.tools_ask:
            yield Probe(JUDGE, how.at(0.0))
    for role, playing in simulating(config).items():
        yield Probe(role, playing.temperature)
