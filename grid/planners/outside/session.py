"""One turn of an episode for an agent from outside: the agent's requests to the model, and its calls as steps."""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import secrets
from collections import Counter
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from grid.core.engine import FunctionsAnswer, Prompt, Section, TextAnswer, ToolCallAnswer
from grid.core.errors import ContextError
from grid.core.types import FINISH, GIVE_UP, NO_TOOL, Json, Step, ToolSpec, Trajectory, Usage, to_json
from grid.core.util import Once, kept
from grid.engines.functions import handed_over
from grid.episode import prompts
from grid.episode.acting import Acting, Decision, View, begin, next_point, perform, trajectory
from grid.episode.asking import action_prompt, in_form, native_calls, to_action
from grid.episode.episode import Episode
from grid.episode.prompts import Offer
from grid.episode.requests import Answers
from grid.planners.outside import chat
from grid.planners.outside.chat import Asked, RefusedError, Said
from grid.text.answers import read_call
from grid.text.calls import Call
from grid.text.objects import UnreadableError

T = TypeVar("T")
GIVE_UP_TOOL = ToolSpec(GIVE_UP, "Ends the work without an answer, if the request cannot be carried out.", ())
MOST_AT_ONCE = 64
"""Maximum number of one agent's requests and calls that may be in progress at once."""
OVER = "the work is over: nothing is answered any more"


class Result(NamedTuple):
    """The outcome of a tool call, as the agent sees it."""

    text: str
    failed: bool = False


class _Offered(NamedTuple):
    """The definitions of the functions that may be called now, and a mapping from function names to tool names."""

    definitions: tuple[dict[str, Any], ...]
    named: Mapping[str, str]


_NOTHING = _Offered((), {})


class Session:
    """An agent's work in one turn, until it is `over`: requests to the acting model, and tool calls, one at a time.

    Only this agent knows `token`. `error` is the error that ended the work; None if the work was not ended by an error.
    `requests` is the number of requests that the model answered. `reached`: whether the agent has sent a request with
    its token. The session hides the episode, and none of its results gives access to the reference.
    """

    def __init__(self, episode: Episode, acting: Acting) -> None:
        self.token = secrets.token_urlsafe(32)
        self.over = asyncio.Event()
        self.error: Exception | None = None
        self.requests = 0
        self.reached = False
        self._episode, self._acting, self._path = episode, acting, begin(episode)
        self._loop, self._context = asyncio.get_running_loop(), contextvars.copy_context()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._one_by_one, self._asked, self._spent = asyncio.Lock(), Counter[str](), Usage()
        self._view: View | None = None
        self._offered = _NOTHING
        self._look()

    async def of_case(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine as a task of the case, so that it uses the case's time; the caller waits for the result.

        Raises:
            RefusedError: the agent's work is over, or too many of its requests are in progress.
        """
        if self.over.is_set() or len(self._tasks) >= MOST_AT_ONCE:
            work.close()
            raise RefusedError(OVER, 401) if self.over.is_set() else RefusedError(f"{MOST_AT_ONCE} requests wait", 429)
        task = self._context.run(self._loop.create_task, work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # the coroutine may not have started
        return await asyncio.shield(task)

    async def close(self) -> None:
        """End the requests and calls in progress; no request is answered after that."""
        self.over.set()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @kept
    def query(self) -> str:
        """The query and the earlier steps, worded as in our own planners' prompts."""
        episode, view = self._episode, self._view
        parts = (
            prompts.ROLE,
            prompts.notes_section(episode),
            prompts.demonstrations_section(episode, self._acting.demonstrations),
            prompts.memory_section(episode),
            prompts.task_section(episode),
            prompts.history_section(view.history if view else ()),
        )
        return prompts.prompt(TextAnswer(), *parts).text()

    def tools(self) -> list[dict[str, Any]]:
        """The functions that may be called now, in the form of OpenAI's interface; empty once the work is over."""
        return [*self._offered.definitions]

    def _look(self) -> None:
        """Move on to the next decision point; the work is over if there is none."""
        episode, path = self._episode, self._path
        point = next_point(episode, path, self._acting.max_calls)
        if point is None:
            self._view, self._offered = None, _NOTHING
            self.over.set()
            return
        options = episode.options(point if point.text else None, path.steps)
        self._view = view = View(point, path, options, not point.text, answered=episode.case.answered)
        self._offered = _offered(view.offer, view.guided)

    # Calls.

    async def call(self, name: str, arguments: Mapping[str, Json]) -> Result:
        """Call a function as the next step; raises RefusedError if the work is over, or is ended by an error."""
        async with self._one_by_one:
            view = self._view
            if self.over.is_set() or view is None:
                raise RefusedError(OVER, 401)
            tool = self._offered.named.get(name, name)
            if tool == GIVE_UP:
                self.over.set()
                return Result("The work is ended without an answer.")
            offered = view.offer.tools
            action = in_form(to_action(tool, dict(arguments), offered, view.guided), offered)
            decision, self._spent = Decision(action, self._spent), Usage()
            try:
                self._path = await perform(self._episode, view, decision)
            except Exception as error:
                raise self._ended(error) from error
            self._look()
            return _told(self._path.steps[-1], action.unreadable)

    async def finish(self, answer: str | None) -> None:
        """End the work; the last step is then a finish, with the answer if there is one.

        No step is added if the work is already over or follows an outline. If an error ends the work instead, `error`
        contains it.
        """
        if not self.over.is_set() and self._view and not self._view.guided:
            with suppress(RefusedError):  # the work is over
                await self.call(FINISH, {} if answer is None else {"answer": answer})
        self.over.set()

    def trajectory(self) -> Trajectory:
        """The trajectory up to now, which is also reported as the best so far (`Episode.improved`)."""
        found = trajectory(self._episode, self._path)
        self._episode.improved(found)
        return found

    def _ended(self, error: Exception) -> RefusedError:
        """End the work because of an error, and return the refusal for the agent.

        The code that waits for the agent raises the error.
        """
        self.error = self.error or error
        self.over.set()
        return RefusedError(OVER, 401)

    # Requests to the acting model.

    async def complete(self, asked: Asked) -> dict[str, Any]:
        """The acting model's answer to a request.

        Raises:
            RefusedError: the work is over or is ended by an error, or the prompt is too long.
        """
        view = self._view
        if self.over.is_set() or view is None:
            raise RefusedError(OVER, 401)
        prompt = self._prompt(asked, view)
        name = _digest(prompt, asked)
        self._asked[name] += 1
        temperature, most = self._acting.temperature, self._acting.max_tokens
        try:
            answers = await self._episode.sample(
                prompt,
                *("outside", view.substep.id, name, self._asked[name]),
                n=asked.n,
                temperature=temperature if asked.temperature is None else asked.temperature,
                max_tokens=most if asked.max_tokens is None else min(asked.max_tokens, most),
            )
        except ContextError as error:
            raise RefusedError(str(error), 400, "context_length_exceeded") from error
        except Exception as error:
            raise self._ended(error) from error
        self._spent += answers.usage
        self.requests += 1
        said = [self._said(answers, place, asked, view) for place in range(len(answers.texts))]
        return chat.completion(said, answers.usage, self.requests)

    def _prompt(self, asked: Asked, view: View) -> Prompt:
        """The prompt for an agent's request: the agent's own messages for a language model, else the case's sections.

        A policy that is not a language model cannot read messages. The sections show the decision to such a policy,
        which answers with a tool of the case that is also in the request.
        """
        if self._episode.converses is None:
            return self._for_policy(asked, view)
        lines = {
            "role": (asked.system,) if asked.system else (),
            "functions": tuple(map(to_json, asked.tools)),
            "conversation": tuple(map(to_json, asked.conversation)),
        }
        named = tuple((name, self._offered.named.get(name, name)) for name in asked.names)
        sections = (Section(kind, entries) for kind, entries in lines.items())  # type: ignore[arg-type]
        return prompts.prompt(FunctionsAnswer(named) if named else TextAnswer(), *sections)

    def _for_policy(self, asked: Asked, view: View) -> Prompt:
        prompt, offer = action_prompt(self._episode, view, self._acting), view.offer
        wanted = {self._offered.named.get(name, name) for name in asked.names}
        if wanted >= {*offer.options}:
            return prompt
        cards = tuple(card for card in offer.cards if card.name in wanted)
        if all(card.name == FINISH for card in cards):  # there is nothing to choose
            others = (part for part in prompt.sections if part.kind not in ("tools", "instruction"))
            return Prompt(tuple(others), TextAnswer())
        texts = zip(offer.options, offer.section.options, strict=True)
        tools = replace(offer.section, options=tuple(text for name, text in texts if name in wanted))
        answer = ToolCallAnswer(cards, view.guided and NO_TOOL in wanted)
        return Prompt(tuple(tools if part.kind == "tools" else part for part in prompt.sections), answer)

    def _said(self, answers: Answers, place: int, asked: Asked, view: View) -> Said:
        """A completion in the form that the agent receives; an answer without a readable call counts as plain text."""
        wanted, text, calls = answers.message.prompt.answer, answers.texts[place], list[Call]()
        try:
            words = answers.read(place)
            if isinstance(wanted, FunctionsAnswer):
                own = {definition["function"]["name"]: chat.spec_of(definition) for definition in asked.tools}
                found = native_calls(words, wanted.named, own | view.offer.tools)
                unread = next((call for call in found.calls if isinstance(call, UnreadableError)), None)
                if unread:
                    raise unread
                words, calls = found.words, [call for call in found.calls if isinstance(call, Call)]
            elif isinstance(wanted, ToolCallAnswer):
                call = read_call(words, {tool.name: tool for tool in wanted.tools})
                words, calls = call.thought or "", [call]
        except UnreadableError as error:
            answers.message.unreadable[place] = str(error)
            words = text
        functions = {tool: name for name, tool in self._offered.named.items()}
        made = [(functions.get(call.tool, call.tool), call.arguments) for call in calls]
        cut = place in answers.cut
        return Said(_until(words, asked.stop), made if asked.several else made[:1], cut, answers.reasoning.get(place))


def _of_offer(offer: Offer, guided: bool) -> _Offered:
    """The functions that may be called at a decision, with names that servers accept; `give_up` is among them."""
    found = handed_over(Prompt((offer.section,), ToolCallAnswer(offer.cards, guided)))
    last = handed_over(Prompt((), ToolCallAnswer((GIVE_UP_TOOL,), may_decline=False)))
    answer = found.answer
    assert isinstance(answer, FunctionsAnswer)  # noqa: S101 - a call was wanted
    named = dict(answer.named)
    more = () if GIVE_UP in named else last.functions()
    return _Offered((*found.functions(), *more), {**named, GIVE_UP: GIVE_UP})


_offered: Once[Offer, _Offered] = Once(_of_offer)  # many decisions have the same options


def _told(step: Step, unreadable: str | None) -> Result:
    """A step as the result of a call; the result contains the step's number, which references use."""
    number, observation = step.substep.id, step.observation
    if unreadable is not None:
        return Result(f"Step {number} was not a call: {unreadable}", failed=True)
    if step.finished:
        return Result("The work is ended.")
    if observation is None:
        return Result(f"Step {number}: no tool was called.")
    outcome = prompts.told_of(step, observation)
    return Result(f"Step {number} {'failed:' if observation.failed else 'returned'} {outcome}", observation.failed)


def _until(words: str, stop: tuple[str, ...]) -> str:
    return words[: min((place for one in stop if one and (place := words.find(one)) >= 0), default=len(words))]


def _digest(prompt: Prompt, asked: Asked) -> str:
    """A request's name, derived from its contents, so that answers do not depend on the order of parallel requests."""
    parts = (*(section.digest for section in prompt.sections), asked.n, asked.temperature, asked.max_tokens)
    return hashlib.sha256(to_json([*map(str, parts)]).encode()).hexdigest()[:16]
