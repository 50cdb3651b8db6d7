"""All pools that a sweep needs: the fleet finds or starts, loads, watches, and stops them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, cast

from grid.cluster import gpus, pool
from grid.cluster.pool import Pool, Say
from grid.cluster.ready import Late, wait
from grid.cluster.replica import ReplicaStats
from grid.cluster.turns import Team, Turns, ordered, placed
from grid.core.engine import ACTOR, CRITIC, EVALUATOR, JUDGE, SAMPLE
from grid.core.errors import ConfigError, EngineError, UnfinishedError
from grid.core.labels import short
from grid.core.problem import DRAFTED
from grid.core.types import Usage
from grid.engines.hosted import HostedEngine, Probe
from grid.settings.build import build_engine
from grid.settings.parts import parts_of
from grid.settings.roles import judging, label_of, model_key, models, simulating
from grid.settings.setting import Setting

_LOOK_SECONDS = 2.0
_LOOK_AGAIN_SECONDS = 1.0  # between two checks for GPUs that have become free
_TAKE_SECONDS = 0.05
_END_SECONDS = 15.0
LOST_SECONDS = 120.0  # after which a replica that has not reported to be well counts as lost


@dataclass
class Totals:
    """The reported work of all processes of a replica, in the `seconds` since it was loaded (at `since`)."""

    label: str
    name: str
    processes: dict[int, ReplicaStats] = field(default_factory=dict)
    seconds: float = 0.0
    since: float | None = None

    @property
    def restarts(self) -> int:
        """The number of processes that replaced an ended process."""
        return max(len(self.processes) - 1, 0)

    @property
    def stats(self) -> ReplicaStats:
        """All processes' sums, mean batch size in busy time, and KV cache's peak; other figures are the last process's.

        Raises IndexError if no process has reported.
        """
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


@dataclass
class Hosted:
    """A model that runs in replicas or a gateway: label, config, engine, and planned number of replicas."""

    label: str
    model: Mapping[str, Any]
    engine: HostedEngine
    replicas: int = 1

    @property
    def bundles(self) -> list[float]:
        """The GPUs of each process of one replica."""
        return list(pool.bundles(self.engine))


class Load(threading.Thread):
    """A thread that loads one model; `taken` says whether the fleet has handled the thread's result."""

    def __init__(self, work: Callable[[], Mapping[str, Late]]) -> None:
        super().__init__(daemon=True, name="load")
        self._work = work
        self.late: Mapping[str, Late] = {}
        self.error: Exception | None = None
        self.taken = False
        self.start()

    def run(self) -> None:
        """Load the model, once."""
        try:
            self.late = self._work()
        except Exception as error:  # noqa: BLE001 - the thread that waits raises or reports it
            self.error = error

    @property
    def done(self) -> bool:
        """Whether the model is loaded and the fleet has handled the result."""
        return self.taken and self.error is None


class Fleet:
    """The replicas of all models that the settings need, loaded and watched. A context manager.

    If the GPUs cannot hold all models at once, the models take turns. The models that a setting asks are a team; the
    cells of a team begin when all its models are loaded (`turns`). On CPUs all models are loaded at once, because
    nothing limits their number.

    A pool that `launch/replicas.py` started is joined and left running; all other pools are started and stopped here.
    Replicas that do not become ready are started again, and are used as soon as they are ready. If a replica has not
    reported for `lost_seconds` that it is well, its process is ended, and Ray starts a new one.

    Args:
        settings: the settings whose models the fleet provides.
        replicas: the number of replicas of every model whose config gives no number.
        ready_seconds: how long each model may wait for GPUs, and then take to load.
        say: called with a line of text from time to time.
        cells: the number of cells of each setting, by its id, if known; teams with more work may begin first.
        grows_to: if the cluster starts machines by itself, the number of its GPUs when all machines run.

    Raises:
        ConfigError: (on entering) the cluster's GPUs can never hold all models of a setting at once, others hold the
            GPUs of the first models, or an engine can never work.
        EngineError: (on entering) no replica of a model without GPUs becomes ready within `ready_seconds`, or no team
            can be loaded.
        UnfinishedError: (on entering) a machine does not have the driver's version of a model's plugin.
    """

    lost_seconds = LOST_SECONDS

    def __init__(
        self,
        settings: Sequence[Setting],
        replicas: int,
        ready_seconds: float,
        say: Say,
        cells: Mapping[str, int] | None = None,
        grows_to: int | None = None,
    ) -> None:
        needed = [
            (role, label_of(role, setting.labels), model)
            for setting in settings
            for role, model in models(setting.config).items()
            if build_engine(model).home != "task"
        ]
        needed.sort(key=lambda one: one[0] == ACTOR)  # last, so that the label of the acting model wins
        names = short(label for _, label, _ in needed)
        self._models = {
            key: Hosted(names[label], model, cast(HostedEngine, build_engine(model)))
            for key, label, model in ((model_key(model), label, model) for _, label, model in needed)
        }
        self._cells = Counter[Team]()
        for setting in settings:
            self._cells[self.team(setting)] += cells.get(setting.id, 1) if cells else 1
        self._probes = probes_of(settings)
        self._replicas, self._ready_seconds, self._say = replicas, ready_seconds, say
        self._grown = [[1.0] * grows_to] if grows_to else []  # treated as one machine; Ray finds the real ones
        self.pools: dict[str, Pool] = {}
        self._late: dict[str, Any] = {}  # the calls of `load` for replicas that are not ready, by replica name
        self._totals: dict[str, Totals] = {}
        self._turns = Turns({}, [])
        self._loads: dict[str, Load] = {}  # of the models that are loaded or being loaded
        self._lost: dict[Team, str] = {}
        self._errors: dict[str, Exception] = {}  # by the key of the model that could not be loaded
        self._expected: tuple[float, float] = 0.0, 0.0  # free GPUs to expect, and until when to wait for them
        self._looked, self._waits = 0.0, 0.0
        self._in_turns = False
        self._threads: list[Load] = []
        self._started = 0  # number of pools started
        self.gpus = 0.0
        """The highest number of GPUs that the fleet's replicas used at once."""
        self.loading = 0.0
        """The seconds until the first models were loaded."""
        self._ended = threading.Event()
        self._watcher: threading.Thread | None = None

    def team(self, setting: Setting) -> Team:
        """The keys of a setting's models that need GPUs, and so may have to wait for them."""
        keys = map(model_key, models(setting.config).values())
        return frozenset(key for key in keys if key in self._models and self._models[key].bundles)

    def handles(self, model: Mapping[str, Any]) -> Mapping[str, Any]:
        """The actors of a model's ready replicas, by name; empty if the model has no pool now."""
        found = self.pools.get(model_key(model))
        return {name: handle for name, handle in found.handles.items() if name not in self._late} if found else {}

    def need(self, teams: Iterable[Team]) -> None:
        """Put these teams in the queue for their turn; a team that has ended or was lost is queued again."""
        for team in dict.fromkeys(teams):
            self._lost.pop(team, None)
            if team and team not in self._turns.begun and team not in self._turns.waiting:
                self._turns.waiting.append(team)
        self.advance()

    def ready(self, team: Team) -> bool:
        """Whether all models of a team are loaded."""
        return not team or (team in self._turns.begun and all(self._loads[key].done for key in team))

    def lost(self, team: Team) -> str | None:
        """The reason why a team will never be loaded; None if the team is loaded or can still be loaded."""
        return self._lost.get(team)

    def done(self, team: Team) -> None:
        """End a team that has no cells left; if other teams wait, free the GPUs of models that only this team needs."""
        if team in self._turns.begun:
            self._release(self._turns.end(team))
            self.advance()

    def advance(self) -> None:
        """Begin teams for which there is room, and handle models whose loading ended.

        The caller has to call this repeatedly.
        """
        self._take_ended()
        if not self._turns.waiting or time.monotonic() - self._looked < _LOOK_AGAIN_SECONDS:
            return
        self._looked = time.monotonic()
        free = self._free()
        if sum(map(sum, free)) < self._expected[0] and time.monotonic() < self._expected[1]:
            return  # a smaller team would take GPUs that a larger one is about to get
        while (found := self._turns.next(free)) is not None:
            team, missing, free = found
            for key in missing:
                self._load(key)
            if missing and self._in_turns:
                self._say(f"loading {self._told_of(team)}")
        if self._turns.begun:
            self._waits = 0.0
        elif self._turns.waiting and not self._release(self._turns.make_way()):
            self._wait_for_others(free)

    def spent(self, model: Mapping[str, Any], attempt_id: str) -> Usage:
        """The usage that the model's replicas counted for one attempt; zero if the model has no replicas."""
        found = self.pools.get(model_key(model))
        return pool.spent(found, attempt_id) if found else Usage()

    def totals(self) -> list[Totals]:
        """The work of each replica, after asking all of them again."""
        self._look()
        return [total for total in self._totals.values() if total.processes]

    @property
    def uncounted(self) -> set[str]:
        """The keys (`roles.model_key`) of the models whose answers come without token counts."""
        self._look()
        told = {name: total.stats.counts for name, total in self._totals.items() if total.processes}
        return {key for key, one in self.pools.items() if not all(told.get(name, True) for name in one.names)}

    def told(self) -> str:
        """The end of a line: the replicas' answers so far, and models that load or wait; empty if there are neither."""
        stats = [total.stats for total in list(self._totals.values()) if total.processes]
        told = ""
        if stats:
            tokens = sum(one.usage.input_tokens + one.usage.output_tokens for one in stats)
            told = f"  replicas answered {sum(one.requests for one in stats):,} requests, {tokens:,} tokens"
        loading = [self._models[key].label for key, load in self._loads.items() if not load.done]
        told += f"  loading {', '.join(loading)}" if loading else ""
        waiting = map(self._told_of, self._turns.waiting)
        return told + (f"  waiting: {'; '.join(waiting)}" if self._turns.waiting else "")

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
        began = time.monotonic()
        for key, one in self._models.items():
            if found := pool.find(one.label, one.model):
                self.pools[key] = replace(found, probes=self._probes.get(key, ()))
                self._say(f"{one.label}: joined a running pool of {len(found.names)} replicas")
        self._plan_turns()
        always = [key for key, one in self._models.items() if not one.bundles]
        for key in always:
            self._load(key)
        self._begin_first()
        self._wait_loaded(always)
        self.loading = time.monotonic() - began
        if self._models:
            self._watcher = threading.Thread(target=self._watch, daemon=True, name="fleet")
            self._watcher.start()

    def _plan_turns(self) -> None:
        """Order the teams, with at most as many replicas as the cluster can hold.

        Prints a line if a model gets fewer replicas than were asked for, or if models take turns.
        """
        teams = [team for team in self._cells if team]
        for team in teams:
            lacking = [self._models[key] for key in team if key not in self.pools]
            gpus.expect_place({one.label: one.bundles for one in lacking}, self._machines())
        for one in self._models.values():
            one.replicas = pool.count(one.engine, self._replicas)
        for team in teams:
            self._shrink(team)
        shares = {key: self._shares_of(key) for key in self._models}
        machines = self._machines() if teams else []
        work = {team: self._cells[team] / min(self._models[key].replicas for key in team) for team in teams}
        order, _ = ordered(work, shares, machines)
        self._turns = Turns(shares, order)
        every = [share for key in set().union(*teams) for share in shares[key]]
        self._in_turns = placed(every, machines) is None
        if self._in_turns:
            told = "; ".join(f"{self._told_of(team)}, {self._cells[team]:,} cells" for team in order)
            have = sum(map(sum, machines))
            self._say(f"models take turns on {have:g} GPUs, because together they need {sum(every):g}: {told}")

    def _shrink(self, team: Team) -> None:
        """Reduce the replicas of a team's models to the number that the whole cluster can hold."""
        machines = self._machines()
        asked = {key: self._models[key].replicas for key in team}
        while placed((share for key in team for share in self._shares_of(key)), machines) is None:
            most = max((self._models[key] for key in team), key=lambda one: one.replicas)
            if most.replicas == 1:  # a machine is gone since `expect_place` found room for the team
                break
            most.replicas -= 1
        for key, count in asked.items():
            if (one := self._models[key]).replicas < count:
                told = f"only {one.replicas} of {count} replicas start, because the cluster's GPUs hold no more"
                self._say(f"{one.label}: {told}")

    def _shares_of(self, key: str) -> list[float]:
        """The GPU shares of all processes of a model's replicas; empty on CPUs, or if the pool was joined."""
        one = self._models.get(key)
        return [] if one is None or (key in self.pools and self.pools[key].detached) else one.bundles * one.replicas

    def _told_of(self, team: Team) -> str:
        """The names of a team's models, with the GPUs of their replicas."""
        told = [
            f"{one.label} ({f'{one.replicas} x ' if one.replicas > 1 else ''}{sum(one.bundles):g} GPU)"
            for key, one in reversed(self._models.items())  # the acting model first
            if key in team
        ]
        return " with ".join(told)

    def _free(self) -> list[list[float]]:
        """The GPUs that are free now; in a cluster that grows, all GPUs except those of our own models."""
        if self._grown:
            return placed((share for key in self._turns.held for share in self._shares_of(key)), self._grown) or []
        return gpus.free()

    def _machines(self) -> list[list[float]]:
        """All GPUs that the cluster has, free or not; in a cluster that grows, also GPUs that it will have."""
        return self._grown or gpus.every()

    def _begin_first(self) -> None:
        """Begin the first teams.

        Raises ConfigError if other processes still hold the GPUs for these teams after the time that a replica takes to
        end.
        """
        until = time.monotonic() + gpus.SETTLE_SECONDS
        while self._turns.waiting and not self._turns.begun:
            self._looked = 0.0
            self.advance()
            if not self._turns.begun and time.monotonic() > until:
                first = {self._models[key].label: self._shares_of(key) for key in self._turns.waiting[0]}
                raise gpus.no_room(first, gpus.free())
            time.sleep(0 if self._turns.begun else _LOOK_AGAIN_SECONDS / 2)

    def _wait_loaded(self, always: Sequence[str]) -> None:
        """Wait until all models being loaded are ready and some cells can run.

        Raises the error of a model without GPUs, any model's ConfigError or UnfinishedError and, if no team is left,
        the first error.
        """
        while True:
            self.advance()
            for key, error in self._errors.items():
                if key in always or isinstance(error, ConfigError | UnfinishedError):
                    raise error
            if not self._turns.begun and not self._turns.waiting and self._errors:
                raise next(iter(self._errors.values()))
            if all(load.done for load in self._loads.values()) and (self._turns.begun or not self._turns.waiting):
                return
            time.sleep(_TAKE_SECONDS)

    def _load(self, key: str) -> None:
        """Start the replicas of a model and load them, in a separate thread."""
        one = self._models[key]
        if key not in self.pools:
            self._started += 1
            found = pool.start(
                one.label,
                one.model,
                one.engine,
                one.replicas,
                ready_seconds=self._ready_seconds,
                detached=False,
                turn=self._started,
            )
            self.pools[key] = replace(found, probes=self._probes.get(key, ()))
        for name in self.pools[key].names:
            self._totals.setdefault(name, Totals(one.label, name))
        self._loads[key] = Load(partial(self._loaded, one, self.pools[key]))
        self._threads.append(self._loads[key])
        self.gpus = max(self.gpus, sum(sum(self._shares_of(each)) for each in self._loads))

    def _loaded(self, one: Hosted, found: Pool) -> Mapping[str, Late]:
        """Wait until a pool has its GPUs and is loaded; returns the pool's replicas that are not ready."""
        began, tell = time.monotonic(), gpus.SETTLE_SECONDS
        while one.bundles and not found.detached and not pool.placed(found):
            waited = time.monotonic() - began
            if self._ended.wait(_LOOK_AGAIN_SECONDS) or waited > self._ready_seconds:
                raise EngineError(
                    f"{one.label}: got no GPUs within cluster.ready_seconds={self._ready_seconds:g}{gpus.holders()}"
                )
            if waited > tell:
                tell = 2 * waited
                self._say(
                    f"{one.label}: has waited {waited:.0f} s for GPUs that others hold or the cluster does not have yet"
                )
        say = self._say if len(self._models) == 1 else lambda line: self._say(f"{one.label}: {line}")
        return wait([found], self._ready_seconds, say)

    def _take_ended(self) -> None:
        """Handle models whose loading ended, with or without success."""
        for key, load in list(self._loads.items()):
            if load.taken or load.is_alive():
                continue
            load.taken = True
            if load.error is not None:
                self._fail(key, load.error)
                continue
            for name, late in load.late.items():
                self._say(f"the run continues without replica {name}, which joins when it is ready; reason: {late.why}")
                self._late[name] = late.task or self._load_again(name, end=True)
            for name in self.pools[key].names:
                self._totals[name].since = time.monotonic()

    def _fail(self, key: str, error: Exception) -> None:
        """Record that a model cannot be loaded: the teams that need it are lost; the others continue."""
        self._errors[key] = error
        teams, gone = self._turns.fail(key)
        for team in teams:
            self._lost[team] = str(error)
        self._release(gone)
        if self._turns.begun or self._turns.waiting:
            self._say(f"{self._models[key].label} cannot be loaded, so cells that need it do not run: {error}")

    def _release(self, keys: Sequence[str]) -> bool:
        """Stop these models, except joined pools, so that their GPUs become free; returns false without `keys`."""
        ours = [key for key in keys if key in self.pools and not self.pools[key].detached]
        if ours:
            self._look()
            freed = sum(sum(self._shares_of(key)) for key in ours)
            self._expected = sum(map(sum, self._free())) + freed, time.monotonic() + gpus.SETTLE_SECONDS
            if freed:
                self._say(f"{', '.join(self._models[key].label for key in ours)}: done, GPUs given back: {freed:g}")
        for key in keys:
            self._loads.pop(key, None)
        for key in ours:
            found = self.pools.pop(key)
            for name in found.names:
                self._late.pop(name, None)
            pool.stop(found)
        return bool(keys)

    def _wait_for_others(self, free: Sequence[Sequence[float]]) -> None:
        """Print that other processes hold GPUs that the first waiting team needs.

        Give the team up after `ready_seconds`.
        """
        now, team = time.monotonic(), self._turns.waiting[0]
        if not self._waits:
            self._waits = now
            seconds = f"cluster.ready_seconds={self._ready_seconds:g}"
            self._say(f"{self._told_of(team)}: waits at most {seconds} for GPUs that others hold{gpus.holders()}")
        if now - self._waits > self._ready_seconds:
            self._waits = 0.0
            self._turns.waiting.remove(team)
            wanted = {self._models[key].label: self._shares_of(key) for key in self._turns.missing(team)}
            self._lost[team] = str(gpus.no_room(wanted, free))

    def _stop(self) -> None:
        self._ended.set()
        for one in list(self.pools.values()):
            if not one.detached:
                pool.stop(one)
        for thread in self._threads:  # if a thread called Ray after Ray's end, Ray would start again
            thread.join(_END_SECONDS)

    def _watch(self) -> None:
        """Check the replicas every few seconds; restart any that has been unwell for too long."""
        seen: dict[str, float] = {}  # when each replica was last well
        while not self._ended.wait(_LOOK_SECONDS):
            self._look()
            self._take_late()
            for one in list(self.pools.values()):
                for name, well in pool.well(one, _LOOK_SECONDS).items():
                    now = time.monotonic()
                    seen[name] = now if well else seen.get(name, now)
                    if now - seen[name] > self.lost_seconds:
                        self._say(f"replica {name} does not answer; its process is ended and started again")
                        pool.restart(one, name)
                        seen[name] = now

    def _load_again(self, name: str, end: bool) -> Any:
        """Call `load` again on a replica that is not ready; `end`: whether to end its process first."""
        (one,) = (one for one in list(self.pools.values()) if name in one.handles)
        if end:
            pool.restart(one, name)
        return one.handles[name].load.remote()

    def _take_late(self) -> None:
        """Count late replicas as ready if they are loaded; load a replica again if its process ended."""
        import ray

        for name, task in list(self._late.items()):
            if not any(name in one.names for one in list(self.pools.values())):
                continue  # its model was stopped in the meantime
            if not ray.wait([task], timeout=0)[0]:
                continue
            try:
                ray.get(task)
            except ray.exceptions.ActorDiedError:
                continue  # its process has ended for good
            except ray.exceptions.RayError as error:
                self._late[name] = self._load_again(name, end=isinstance(error, ray.exceptions.RayTaskError))
            else:
                self._say(f"replica {name} is ready and joins now")
                del self._late[name]

    def _look(self) -> None:
        for name, stats in pool.stats_of(list(self.pools.values())).items():
            if stats:
                total = self._totals[name]
                total.processes[stats.pid] = stats
                total.seconds = time.monotonic() - total.since if total.since else 0.0


# The ways in which a sweep will ask its models, so that a server's refusal is noticed before the first cell.


def probes_of(settings: Sequence[Setting]) -> dict[str, tuple[Probe, ...]]:
    """The distinct ways (a role and a temperature) in which each model is sampled, by the model's key."""
    found: dict[str, dict[Probe, None]] = {}
    for setting in settings:
        keys = {role: model_key(model) for role, model in models(setting.config).items()}
        for probe in _probes(setting.config):
            found.setdefault(keys[probe.role], {})[probe] = None
    return {key: tuple(sorted(probes)) for key, probes in found.items()}


def _probes(config: Mapping[str, Any]) -> Iterator[Probe]:
    """A probe for each role and temperature of a setting's samples; none if the config has only a model."""
    if "planner" not in config:
        return
    parts = parts_of(config)
    planner = parts.planner
    own: float | None = getattr(planner, "temperature", None)  # a plugin's planner may have none
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
