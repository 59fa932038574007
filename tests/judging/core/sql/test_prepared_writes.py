"""Prepared updates: what the ORM would have written, by SQL that is made once."""

from datetime import timedelta

import pytest
from django.db.models import F
from django.utils import timezone

from annotation.models import Draft, Item, Seat, Slot
from annotation.rounds.opening import RoundSettings, open_round
from judging.core.sql.statements import prepared_update
from tests.factories import make_annotator, make_examples

pytestmark = [pytest.mark.databases]


@pytest.fixture
def item(project) -> Item:
    make_examples(project, 3)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2))
    return round_.items.order_by("pk").first()


@pytest.fixture
def draft(item) -> Draft:
    annotator = make_annotator(item.round.project, "ada")
    return Draft(item=item, annotator=annotator, token="t" * 32, left_response=2, comment="Ä's %s")


def test_an_update_sets_values_of_every_kind_and_counts_rows(item, draft):
    draft.save()
    now = timezone.now()

    @prepared_update()
    def changed(key, answer, left, until, added):
        return Draft.objects.filter(pk=key), {
            "answer": answer,
            "left_response": left,
            "updated_at": until,
            "active_seconds": F("active_seconds") + added,
        }

    for added in (1.5, 2.5):
        values = {"answer": {"overall": "tie"}, "left": 1, "until": now, "added": added}
        assert changed.count(key=draft.pk, **values) == 1
    assert changed.count(key=draft.pk + 1, **values) == 0
    draft.refresh_from_db()
    assert (draft.answer, draft.left_response) == ({"overall": "tie"}, 1)
    assert (draft.updated_at, draft.active_seconds) == (now, 4.0)


def test_an_update_returns_what_now_is_there(item, draft):
    seat = Seat.objects.create(round=item.round, annotator=draft.annotator)

    @prepared_update("n_shown", "cursor")
    def shown(seat, cursor):
        return Seat.objects.filter(pk=seat), {"n_shown": F("n_shown") + 1, "cursor": cursor}

    assert shown.row(seat=seat.pk, cursor=3.0) == (1, 3.0)
    assert shown.row(seat=seat.pk, cursor=4.0) == (2, 4.0)
    assert shown.row(seat=seat.pk + 1, cursor=5.0) is None


def test_an_update_asks_what_its_queryset_asks(item, draft):
    draft.annotator.save()
    now = timezone.now()

    @prepared_update()
    def taken(slot, annotator, now, until):
        expired = Slot.objects.filter(pk=slot, vote=None, lease_until__lt=now)
        return expired, {"annotator": annotator, "lease_until": until}

    slot = item.slots.order_by("index").first()
    values = {"slot": slot.pk, "annotator": draft.annotator_id, "until": now + timedelta(hours=1)}
    assert taken.count(now=now, **values) == 0
    Slot.objects.filter(pk=slot.pk).update(lease_until=now - timedelta(seconds=1))
    assert taken.count(now=now, **values) == 1
    slot.refresh_from_db()
    assert (slot.annotator, slot.lease_until) == (draft.annotator, values["until"])
