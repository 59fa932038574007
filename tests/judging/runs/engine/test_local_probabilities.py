"""The real local model, from the start of a run to its probabilities and likelihoods."""

import pytest

from judging.runs.engine.likelihoods import ask_likelihoods
from judging.runs.engine.working import work_on
from judging.runs.models import Parse, Run, TextLikelihood
from judging.runs.planning.start import start_run
from tests.factories import make_examples

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.long
def test_the_local_judge_gives_real_probabilities_and_likelihoods(
    project, settings, tmp_path, local_model
):
    (tmp_path / "models").symlink_to(local_model.parent)
    settings.FAIRJUDGE_DATA = tmp_path
    make_examples(project, 1)
    run = start_run(project, None, endpoint="local", form="choice", background=False)
    assert work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    parses = Parse.objects.filter(sample__call__run=run)
    assert set(parses.values_list("status", flat=True)) == {"valid"}
    for parse in parses:
        assert 0 < parse.p_first < 1
        # Of the unconstrained distribution: other words have most of it.
        assert 0 < parse.mass < 1
    asked = ask_likelihoods(run)
    assert (asked.texts, asked.untold) == (2, 0)
    rows = TextLikelihood.objects.all()
    assert all(row.log_likelihood < 0 and row.tokens > 3 for row in rows)
