import pytest

from judging.runs.engine import recording, rereading
from judging.runs.models import Parse, Run, Verdict
from judging.runs.verdicts.rebuild import rebuild_verdicts
from tests.judging.runs.judging import judged, loopback, make_judged_project

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_better_parser_adds_a_version_without_a_call(settings, monkeypatch):
    with loopback(settings) as server:
        run = judged(make_judged_project(2), k=2)
        wrong = Parse.objects.filter(sample__call__part="original")
        wrong.update(status="unparsed", score_1=None, score_2=None, outcome=None)
        rebuild_verdicts(run)
        assert not Verdict.objects.filter(run=run, state="judged").exists()
        asked = server.requests
        for module in (recording, rereading):
            monkeypatch.setattr(module, "PARSER_VERSION", 99)
        assert rereading.reparse(run) == rereading.ReparseCounts(read=8, changed=4)
        assert server.requests == asked
    assert Verdict.objects.filter(run=run, state="judged").count() == 2
    assert Parse.objects.filter(version=99, current=True).count() == 8
    assert Parse.objects.filter(version=99, current=False).count() == 0
    assert Parse.objects.count() == 16
    assert rereading.reparse(Run.objects.get()) == rereading.ReparseCounts(read=0, changed=0)
