"""The attacks run in small with all tests, and whole with `make attack`, which prints figures.

Without `--whole`, each attack takes a seeded part of what it would take, so that it stays alive.
"""

from collections.abc import Callable

import pytest

FIGURES = pytest.StashKey[list[tuple[str, str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="attack with everything there is")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES] = []


@pytest.fixture(scope="session")
def whole(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--whole", default=False))


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str, object], None]:
    """Notes a figure for the table of `make attack`."""
    # The stash has no list if this file was loaded after the start, as when all tests run.
    figures = request.config.stash.setdefault(FIGURES, [])

    def note(what: str, value: object) -> None:
        figures.append((what, str(value)))

    return note


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    if config.getoption("--whole", default=False):
        for what, value in config.stash.get(FIGURES, []):
            terminalreporter.write_line(f"figure | {what} | {value}")
