"""The attacks run whole with `make attack`, which prints figures.

Without `--whole`, each attack takes a seeded part of what it would take: `tests.attack --quick`.
"""

from collections.abc import Callable

import pytest

FIGURES = pytest.StashKey[list[tuple[str, str]]]()


@pytest.fixture(scope="session")
def whole(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--whole"))


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str, object], None]:
    """Notes a figure for the table of `make attack`."""
    figures = request.config.stash.setdefault(FIGURES, [])

    def note(what: str, value: object) -> None:
        figures.append((what, str(value)))

    return note


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    if config.getoption("--whole"):
        for what, value in config.stash.get(FIGURES, []):
            terminalreporter.write_line(f"figure | {what} | {value}")
