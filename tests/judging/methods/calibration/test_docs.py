from pathlib import Path

from benchmarks.simulations.calibrations import JUDGES, table

DOCS = Path(__file__).parents[4] / "docs" / "methods" / "calibration.md"


def test_the_docs_table_is_what_the_command_prints():
    """CalibraEval's own line may differ in the last digit between processors."""
    text = DOCS.read_text(encoding="utf-8")
    lines = table(JUDGES["token 1.0, position 0.75 logits"])
    assert len(lines) == 5
    for line in lines[:-1]:
        assert line in text
    printed = [float(cell) for cell in lines[-1].split("|")[2:-1]]
    documented = next(row for row in text.splitlines() if row.startswith("| CalibraEval"))
    assert all(
        abs(float(cell) - value) < 0.02
        for cell, value in zip(documented.split("|")[2:-1], printed, strict=True)
    )
