"""Reading the labels of PORTIA's stages."""

import numpy as np
import pytest

from annotation.results.sections.portia import order_signs
from judging.runs.models import Call
from tests.factories import make_examples, make_run
from tests.judging.runs.recorded_files import record_sample, record_scores

PARTS = ("original", "swapped")


@pytest.mark.django_db
def test_only_the_last_attempt_at_a_slot_speaks(project):
    """Today's parser reads the first attempt too, which was asked again when it could not."""
    first, second = make_examples(project, 2)
    run = make_run(project)
    asked = record_scores(run, first, "original", [(9, 1)])
    again = Call.objects.create(
        run=run, example=first, part="original", seq=1, slots=[0], attempt=1,
        state=Call.State.DONE, claimed_at=asked.claimed_at,
    )  # fmt: skip
    record_sample(again, 0, (4, 5), attempt=1)
    record_scores(run, first, "swapped", [(4, 5)])
    record_scores(run, second, "original", [(9, 1)])
    ids = np.array([first.pk, second.pk])
    signs, there, any_sample = order_signs(run, ids, PARTS)
    assert signs.tolist() == [[-1, -1], [1, 0]]
    assert there.tolist() == [[True, True], [True, False]]
    assert any_sample.all()
