"""Small seeded versions of `make simulate`; the same code with fewer repeats."""

import pytest

from benchmarks.simulations import bars, figures, looks
from benchmarks.simulations.certificates import Case, simulate
from benchmarks.simulations.coverage import INTERVALS, SETTINGS, SIMULATED, coverage
from benchmarks.simulations.page import END, HEAD, START
from benchmarks.simulations.page import main as write_page
from benchmarks.simulations.projects import LEVELS, Setting, settings
from benchmarks.simulations.two_stage import Stages, stages
from benchmarks.simulations.two_stage import simulate as simulate_stages

REPEATS = 300
# One repeat of these takes from 0.07 to 0.3 s; `make simulate` has the thousand.
DEAR = {"votes on criteria", "length bias, judge less people", "agreement on criteria by chance"}

# What takes seconds even so. The others draw with the same code, so a fault of it shows there.
SLOW = {
    "agreement on criteria by chance", "agreement without people's noise",
    "alpha for other annotators",
    "calibrations", "judges calibrated by people", "likelihood bias", "parts of disagreements",
    "people's agreement", "skill of annotators", "strength, confidence and marked text",
    "strengths at equal style", "the planner's lower band after an audit",
    "the planner's lower band, all labels known", "votes on criteria",
}  # fmt: skip


def slow_ones_long(names):
    return [pytest.param(one, marks=pytest.mark.long) if one in SLOW else one for one in names]


HARD = [
    Setting(80, 20, 0.01, biased=True),
    Setting(80, 60, 0.50, biased=False),
    Setting(400, 60, 0.05, biased=True),
    Setting(1000, 20, 0.25, biased=False),
]


@pytest.mark.parametrize("name", [name for name in INTERVALS if name not in SETTINGS])
@pytest.mark.parametrize("setting", HARD, ids=str)
def test_an_interval_of_95_percent_holds_the_truth_as_often(name, setting):
    repeats = REPEATS // 3 if name in SIMULATED else REPEATS
    result = coverage(name, setting, repeats=repeats, seed=1)
    # three standard errors of 95 % below it
    assert result.covered >= 0.95 - 3 * (0.95 * 0.05 / repeats) ** 0.5
    assert result.width < 0.5


@pytest.mark.parametrize("name", slow_ones_long(SETTINGS))
def test_what_describes_a_ranking_or_repeats_holds_as_often(name):
    # A judge that errs seldom is the hardest: few errors carry the figure.
    for setting in SETTINGS[name]()[:: len(SETTINGS[name]()) // 4]:
        repeats = 60 if name in SIMULATED else 200
        result = coverage(name, setting, repeats=repeats, seed=1)
        given = repeats * result.given
        assert not given or result.covered >= 0.95 - 3 * (0.95 * 0.05 / given) ** 0.5


@pytest.mark.parametrize("bad_from", [0, LEVELS // 2])
@pytest.mark.parametrize("looks", [(200,), (100, 200)])
def test_a_certificate_is_rarely_issued_and_untrue(bad_from, looks):
    result = simulate(Case(900, 0.10, bad_from, looks), 1000, seed=1)
    # 5 % of 1,000 and three standard errors
    assert result.false <= 71


def test_a_certificate_is_issued_where_the_judge_deserves_it():
    # at a quarter of epsilon, three in four audits of the first set allow it
    result = simulate(Case(900, 0.20, LEVELS, (200,)), 200, seed=1)
    assert result.issued >= 120
    assert result.false == 0


def test_no_setting_audits_more_than_there_is():
    assert len(settings()) == 96


@pytest.mark.parametrize(
    ("setting", "used"),
    [
        (Stages(400, 30, 100, 0.40, "likes length"), (0.85, 1.0)),
        (Stages(400, 30, 100, 0.12, "anywhere"), (0.0, 0.25)),
    ],
    ids=str,
)
def test_a_round_that_learns_keeps_the_same_promises(setting, used):
    repeats = 60
    result = simulate_stages(setting, repeats, seed=1)
    assert used[0] <= result.used <= used[1]
    # three standard errors of 95 % below it, and of 5 % above it
    chance = 3 * (0.95 * 0.05 / repeats) ** 0.5
    assert min(result.covered.values()) >= 0.95 - chance
    assert result.false <= 0.05 + chance


def test_each_kind_of_judge_learns_in_some_setting():
    assert {one.kind for one in stages()} == {"unsure", "likes length", "anywhere"}


@pytest.mark.system
@pytest.mark.parametrize("name", slow_ones_long(figures.FIGURES))
def test_slopes_strengths_and_tests_keep_their_promises(name):
    places = figures.places(name)
    every, repeats = (2, 20) if name in DEAR else (3, 60)
    for place in places[:: max(1, len(places) // every)]:
        for row in figures.simulate(name, place, repeats=repeats, seed=2):
            given = row.given * row.repeats
            assert not given or row.covered >= 0.95 - 3 * (0.95 * 0.05 / given) ** 0.5, row


@pytest.mark.parametrize("kind", ["strongly unsure", "likes length"])
def test_learned_routing_costs_little_and_gains_much(kind):
    found = bars.simulate(bars.Draws(60, 0.20, kind), repeats=15, seed=1)
    assert found.passes()
    if kind == "likes length":
        assert found.gain > 0.2
        assert found.used > 0.9


@pytest.mark.parametrize("measure", looks.MEASURES)
def test_ten_looks_at_a_gate_pass_wrongly_in_five_percent_at_most(measure):
    found = looks.simulate(looks.Case(measure, 0.85, 40), repeats=REPEATS, seed=1)
    # Three standard errors of 5 % above it.
    assert found.planned <= REPEATS * (0.05 + 3 * (0.05 * 0.95 / REPEATS) ** 0.5)
    # Without the plan the same looks pass far too often, so the simulation can tell.
    assert found.unplanned > 1.5 * found.planned


def test_the_page_keeps_the_rows_of_figures_that_were_not_drawn_again(tmp_path, monkeypatch):
    page, printed = tmp_path / "validation.md", tmp_path / "printed.md"
    rows = ["| Figure | Settings |", "|---|---|", "| Old | 1 |", "| Share | 9 |"]
    page.write_text("\n".join(["before", START, "", *rows, "", END, "after"]))
    printed.write_text(
        "### Shares, 100 repeats each\n\n"
        "| share: N=20 | 100% | 93.00% | 0.1 | kept |\n"
        "| share: N=80 | 100% | 97.00% | 0.1 | kept |\n"
        "| share: rare | 5% | 20.00% | 0.1 | kept |\n"
    )
    more = tmp_path / "more.md"
    more.write_text(
        "### Shares, 2,000 repeats each\n\n| share: N=20 | 100% | 95.00% | 0.1 | kept |\n"
    )
    monkeypatch.setattr("benchmarks.simulations.page.PAGE", page)
    monkeypatch.setattr("sys.argv", ["page", str(printed)])
    write_page()
    written = [
        "before", START, "", *HEAD, "| Old | 1 |",
        # Of five repeats nothing is told. P(93 or fewer of 100) is .234, and .41 in one of two.
        "| Share | 2 | 100 | 93.0 % | N=20 | 95.0 % | 0.41 |", "", END, "after",
    ]  # fmt: skip
    assert page.read_text().splitlines() == written
    # A setting that was drawn more often replaces its row. P(1,900 or fewer of 2,000) is .513.
    monkeypatch.setattr("sys.argv", ["page", str(printed), str(more)])
    write_page()
    written[6] = "| Share | 2 | 100 to 2,000 | 95.0 % | N=20 (2,000 repeats) | 96.0 % | 0.76 |"
    assert page.read_text().splitlines() == written
