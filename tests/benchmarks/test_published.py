"""The page of published figures is made from the data, and leaves nothing behind."""

import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from benchmarks.published import papers, validation
from judging.projects.models import Project

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]


def written(test_data, tmp_path, draws):
    """The page as it is made, over one that has old figures and what others wrote."""
    page = tmp_path / "validation.md"
    page.write_text("old figures\n<!-- what follows is kept -->\n## Simulations\n")
    call_command(validation.Command(), test_data, write=page, draws=draws)
    text = page.read_text(encoding="utf-8")
    assert "| Natural | GPT-4 | Swap | 100 | 92 | 93 | 93 |" in text
    assert "| Adversarial/Neighbor | ChatGPT | Swap_CoT | 134 | 30 | 32 | 83 |" in text
    assert "old figures" not in text
    # Set off from the table above it.
    assert "n = 999 |\n\n<!-- what follows is kept -->\n## Simulations\n" in text
    assert text.endswith("## Simulations\n")
    assert not Project.objects.exists()
    return text


def test_the_page_holds_the_recorded_figures_and_what_others_wrote(
    db, test_data, tmp_path, capsys, monkeypatch
):
    """But for what is drawn again and again, which the long test tries."""
    for name in ("routing_lines", "cheapest_lines"):
        monkeypatch.setattr(validation, name, lambda cases, draws: [])
    written(test_data, tmp_path, 0)


@pytest.mark.long
def test_learned_routing_finds_more_on_the_page(db, test_data, tmp_path, capsys):
    text = written(test_data, tmp_path, 6)
    routed = [line.split(" | ") for line in text.splitlines() if line.count(" | ") == 8]
    area = {tuple(row[:4]): float(row[5]) for row in routed if row[3] in ("BPDE", "learned")}
    for judge in ("GPT-4", "ChatGPT"):
        neighbor, natural = ("| Adversarial/Neighbor", judge, "60"), ("| Natural", judge, "60")
        assert area[*neighbor, "learned"] > area[*neighbor, "BPDE"] + 0.25
        assert area[*natural, "learned"] > area[*natural, "BPDE"] - 0.05


def test_the_page_quotes_what_public_data_give_again(db, test_data, tmp_path, monkeypatch):
    page = tmp_path / "reproduce.md"
    shown = ROOT / papers.PAGE
    page.write_text(shown.read_text(encoding="utf-8").replace("1206.29", "0"), encoding="utf-8")
    call_command(papers.Command(), test_data, write=page)
    assert page.read_text(encoding="utf-8") == shown.read_text(encoding="utf-8")
    assert not Project.objects.exists()
    # Another value than the paper's is an error, and so is a reason that no longer holds.
    wrong = papers.LENGTHS["gpt35"]
    monkeypatch.setitem(papers.LENGTHS, "gpt35", (*wrong[:3], "1206.28", wrong[4]))
    with pytest.raises(CommandError, match=r"GPT-3\.5, mean, characters"):
        call_command(papers.Command(), test_data)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("faireval", marks=pytest.mark.long),
        pytest.param("papers", marks=pytest.mark.long),
        "validation",
    ],
)
def test_a_folder_without_the_data_is_told_in_a_sentence(environment_with_tables, tmp_path, name):
    asked = subprocess.run(
        [sys.executable, "-m", f"benchmarks.published.{name}", str(tmp_path)],
        env=environment_with_tables, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert asked.returncode == 1
    assert asked.stderr.startswith(f"CommandError: {tmp_path}")
