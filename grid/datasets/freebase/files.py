"""Which files hold a data set's questions, and where the ontology lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grid.core.errors import ConfigError
from grid.datasets.files import folder
from grid.datasets.freebase.graphs import SCHEMA

_ONTOLOGIES = ("ontology", "freebase")


@dataclass(frozen=True)
class Files:
    """Patterns of a data set's files, the ones to be preferred first, and the folders that they may lie in.

    Attributes:
        tests: of test questions.
        trainings: of training questions, which may be missing.
    """

    folders: Sequence[str]
    tests: Sequence[str]
    trainings: Sequence[str]

    def found(self, path: str | None) -> tuple[Path, Path | None]:
        """The test and the training file; the only file there is serves as both.

        Raises:
            ConfigError: there is no such folder, or neither file in it.
        """
        root = folder("dataset.path", path)
        bases = [root, *(root / name for name in self.folders)]
        test, train = (_first(bases, patterns) for patterns in (self.tests, self.trainings))
        if test is None and train is None:
            raise ConfigError(
                "dataset.path", path, f"a folder that holds {' or '.join((*self.tests, *self.trainings))}"
            )
        return (test, train) if test else (train, None)  # type: ignore[return-value]  # one of them is there


def ontology_folder(given: str | None, path: str | None) -> Path:
    """The ontology's folder: the one given, else `ontology` or `freebase` in the data's folder or beside it.

    Raises:
        ConfigError: there is none that holds the three files.
    """
    if given is not None:
        return folder("dataset.ontology", given, *SCHEMA)
    root = folder("dataset.path", path)
    for base in (root, root.resolve().parent):
        for name in _ONTOLOGIES:
            if all((base / name / file).is_file() for file in SCHEMA):
                return base / name
    raise ConfigError("dataset.ontology", None, f"the folder of GrailQA's ontology, with {', '.join(SCHEMA)}")


def _first(bases: Sequence[Path], patterns: Sequence[str]) -> Path | None:
    found = (path for pattern in patterns for base in bases for path in sorted(base.glob(pattern)) if path.is_file())
    return next(found, None)
