"""Plots: drawn from the report alone, by the page and by the server."""

import json
import re
from decimal import Decimal

import pytest

from annotation.results.data.figures import as_png, as_svg, named_lines, x_axis, y_axis
from annotation.results.data.figures import plot as plotted
from annotation.results.report.report import plots, report
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.methods import MethodRow, cost_plot
from annotation.results.sections.position import OrderAccuracy, Orders, score_gap_plot, swap_plot
from annotation.votes.imports import import_votes
from judging.methods.intervals.estimates import Estimate, Undefined
from judging.methods.verdicts.position import GapBin
from tests.factories import make_examples, make_run, make_verdict


@pytest.fixture
def judged(project, tmp_path):
    """Twenty examples in two categories, voted on by two people."""
    run = make_run(project)
    for example in make_examples(project, 20):
        make_verdict(run, example, example.number / 20, rank=20 - example.number)
    project.examples.filter(number__lt=10).update(category="</script><b>odd & one")
    rows = "".join(
        f"e{n},{name},{'lose' if n % 4 == 0 else 'win'}\n" for n in range(20) for name in "kl"
    )
    path = tmp_path / "votes.csv"
    path.write_text("external_id,annotator,label\n" + rows)
    import_votes(project, None, path)
    return run


@pytest.fixture
def drawn(judged):
    return plots(report(Analysis(judged.project, judged)))


def test_each_plot_is_drawn_for_a_paper_and_has_its_table(drawn):
    found = {plot.name for plot in drawn}
    assert found == {
        "win-rate", "category", "trust", "hitlc", "rankings", "bpde", "people", "models",
        "questions-category",
    }  # fmt: skip
    for plot in drawn:
        assert as_svg(plot).startswith("<svg")
        assert as_png(plot).startswith(b"\x89PNG")
        assert all(list(row) == plot.columns for row in plot.table)
        json.dumps(plot.spec, allow_nan=False)


def test_what_is_dearer_and_no_better_is_beaten_by_the_frontier():
    def method(k, usd, accuracy):
        known = Estimate(accuracy, 10)
        row = {"name": "MEC", "k": k, "bpc": False, "beta": 0, "judge_usd": Decimal(usd)}
        return MethodRow(**row, accuracy=known, kappa=known)

    rows = [method(1, 1, 0.6), method(2, 2, 0.5), method(3, 3, 0.7)]
    plot = cost_plot(rows)
    assert [row["place"] for row in plot.table] == ["on the frontier", "beaten", "on the frontier"]
    assert "on the frontier" in as_svg(plot)


def test_gaps_stand_in_order_where_one_has_no_example():
    known, empty = Estimate(0.5, 10, 0.4, 0.6), Undefined("none")
    bins = [(0, known), (1, empty), (2, known)]
    rows = [GapBin(low, low + 1, same, known) for low, same in bins]
    plot = score_gap_plot(rows)
    assert plot.spec["encoding"]["x"]["sort"] == ["0–1", "1–2", "2–3"]


def _lines(*levels):
    """Rows of a plot with a line at each level, which all meet at its left edge."""
    rows = [
        {"x": x, "line": f"it's {place}", "value": 0.1 if x == 0 else level}
        for place, level in enumerate(levels)
        for x in range(11)
    ]
    names = [f"it's {place}" for place in range(len(levels))]
    layers = named_lines(rows, x_axis("x", "x"), y_axis("value", "share"), "line", names)
    return plotted("lines", "Lines", "", rows, {"layer": layers})


def test_a_line_has_its_name_next_to_it_and_no_legend():
    plot = _lines(0.9, 0.5)
    placed = {}
    for layer in plot.spec["layer"][1:]:
        name, at = layer["transform"][0]["filter"]["and"]
        placed[name["equal"]] = (at["equal"], layer["mark"]["dy"] < 0)
    # Away from the edges and from the point where they meet; the upper line's name is above it.
    assert placed == {"it's 0": (2, True), "it's 1": (2, False)}
    assert "legend" in json.dumps(plot.spec["layer"][0]["encoding"]["color"])
    drawn = as_svg(plot)
    assert drawn.count(">it's 0<") == drawn.count(">it's 1<") == 1


def test_lines_that_lie_on_each_other_have_a_legend():
    plot = _lines(0.9, 0.89)
    assert len(plot.spec["layer"]) == 1
    drawn = as_svg(plot)
    assert drawn.count(">it's 0<") == drawn.count(">it's 1<") == 1


def test_the_first_bar_holds_what_is_certain(drawn):
    bars = next(plot for plot in drawn if plot.name == "bpde").table
    # BPDE 0 of twenty steps of .05; nothing was selected.
    assert bars[1] == {"bpde": "0", "people": "not selected", "examples": 1}
    assert sum(bar["examples"] for bar in bars) == 20


def test_the_page_holds_the_plots_and_hands_out_files(client, owner, judged):
    client.force_login(owner)
    page = client.get("/p/vicuna/results/verdict").content.decode()
    assert re.findall('<figure class="plot" id="plot-([^"]+)"', page) == [
        "win-rate", "category", "questions-category",
    ]  # fmt: skip
    assert "</script><b>odd" not in page
    svg = client.get("/p/vicuna/results/win-rate.svg?run=1")
    assert svg["Content-Type"] == "image/svg+xml"
    assert b"<svg" in svg.content
    assert client.get("/p/vicuna/results/nothing.svg").status_code == 404


def test_plots_are_for_researchers(client, annotator, outsider, judged):
    client.force_login(annotator)
    assert client.get("/p/vicuna/results/win-rate.svg").status_code == 403
    client.force_login(outsider)
    assert client.get("/p/vicuna/results/win-rate.svg").status_code == 404


def test_the_axis_of_a_share_runs_from_0_to_1_however_close_its_values_are():
    rows = [{"beta": n, "value": 0.9982 + n / 10_000} for n in range(19)]
    drawing = {
        "mark": "line",
        "encoding": {"x": x_axis("beta", "β"), "y": y_axis("value", "accuracy")},
    }
    drawn = as_svg(plotted("close", "Close", "", rows, drawing))
    ticks = re.findall(r">([01]\.\d)</text>", drawn)
    assert ticks[0] == "0.0"
    assert ticks[-1] == "1.0"
    assert len(set(ticks)) == len(ticks)


def test_the_three_outcomes_have_the_colours_of_paper_in_a_file():
    order = OrderAccuracy(accuracy=Undefined("none"), labels={"win": 6, "tie": 1, "lose": 3})
    plot = swap_plot(Orders(order, order, Undefined("none")), ("maple'; alert(1)", "birch"))
    assert [row["verdict"] for row in plot.table[:3]] == [
        "maple'; alert(1) wins",
        "tie",
        "birch wins",
    ]
    (calculated,) = plot.spec["transform"]
    assert "maple" not in calculated["calculate"]
    drawn = as_svg(plot)
    assert "var(--" not in drawn
    assert "#b04a00" in drawn
