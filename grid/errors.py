"""The errors that people read: each names the place, the value and what is allowed."""

from __future__ import annotations

from pathlib import Path


class GridError(Exception):
    """Base of every error that this project raises on purpose."""


class ConfigError(GridError):
    """A configuration that cannot run: the dotted key, its value, and what is allowed."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        self.key, self.value, self.allowed = key, value, allowed
        super().__init__(f"{key}={value!r}: {allowed}")

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, object, str]]:
        """So that it travels between processes."""
        return type(self), (self.key, self.value, self.allowed)


class DataError(GridError):
    """A dataset file that cannot be read: file, line (1-based, None for the whole file) and what is wrong."""

    def __init__(self, path: Path, line: int | None, message: str) -> None:
        self.path, self.line = path, line
        self.message = message
        super().__init__(f"{path}:{line}: {message}" if line else f"{path}: {message}")

    def __reduce__(self) -> tuple[type[DataError], tuple[Path, int | None, str]]:
        """So that it travels between processes."""
        return type(self), (self.path, self.line, self.message)


class StoreError(GridError):
    """A results folder that cannot be used: another schema version, or another sweep writing to it."""


class UnfinishedError(GridError):
    """A run that cannot go on; what is written stays, and the same name resumes it."""


class ModelError(GridError):
    """The model's answer cannot be used at all; a result, never retried."""


class ContextError(GridError):
    """The prompt does not fit the model's context; a result, never retried."""


class ToolError(GridError):
    """A tool or its environment broke; a result, never retried."""


class BudgetError(GridError):
    """An episode asked for more model or tool calls than its budget allows."""


class EngineDiedError(GridError):
    """An engine that will not answer any more: its process is to be replaced. The infrastructure's failure."""


class EngineError(GridError):
    """A server or replica that did not answer, after all tries. The infrastructure's failure."""
