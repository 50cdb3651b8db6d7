"""The option `--plugin`.

pytest finds this module through an entry point, because it reads options before it reads tests.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--plugin mylab`, which may be given once per plugin."""
    what = "a package whose files are tested against the contracts of agent-grid (pytest --pyargs grid.contracts)"
    parser.addoption("--plugin", action="append", default=[], metavar="PACKAGE", help=what)


def pytest_configure(config: pytest.Config) -> None:
    """Allow the plugins that the option names. Raises a usage error if a plugin cannot be used."""
    given = config.getoption("--plugin")
    if given:
        from grid import plugins  # imported late, because any test session loads this module
        from grid.core.errors import ConfigError

        try:
            plugins.allow(given)
        except ConfigError as error:
            raise pytest.UsageError(str(error)) from None
