"""IP addresses are stored for the protection of logins alone.

A person walks through the pages from an address that nothing else has. Then each table, each
session and each file of the caches is searched for it.
"""

from pathlib import Path

import pytest
from axes.models import AccessAttempt
from django.apps import apps
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from annotation.models import Draft
from annotation.rounds.opening import RoundSettings, open_round
from annotation.screen.hand import address_of
from judging.core.caching import report_cache
from judging.projects.accounts import forget_logins
from judging.projects.models import Membership
from tests.annotation import crowd
from tests.factories import make_examples, make_run, make_verdict
from tests.test_access_walk import addresses

pytestmark = [pytest.mark.django_db, pytest.mark.databases, pytest.mark.system]
# RFC 5737 and RFC 3849 give these to nobody.
PLACES = ("203.0.113.77", "2001:db8::77")


@pytest.fixture
def walked(project, owner, annotator):
    """People of every kind at work from an address of their own."""
    example, *_ = make_examples(project, 3)
    make_verdict(make_run(project), example, 0.5)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=1))
    link = crowd.set_up(round_, owner)
    Membership.objects.update(unblinded_at=timezone.now())
    for number, place in enumerate(PLACES):
        for user in (owner, annotator):
            user.set_password("correct horse")
            user.save()
            client = Client(REMOTE_ADDR=place, HTTP_X_FORWARDED_FOR=place)
            login = {"username": user.username, "password": "wrong"}
            client.post(reverse("login"), login)
            assert client.post(reverse("login"), login | {"password": "correct horse"}).url
            for name in addresses():
                for named in ({}, {"slug": project.slug}, {"slug": project.slug, "number": 1}):
                    try:
                        path = reverse(name, kwargs=named)
                    except NoReverseMatch:
                        continue
                    if name not in ("logout", "demo_enter"):
                        client.get(path)
            client.get(address_of(round_), follow=True)
        draft = Draft.objects.filter(annotator__user=annotator).first()
        client.post(reverse("annotate_vote", args=[draft.token]), {"overall": "left"})
        stranger = Client(REMOTE_ADDR=place, HTTP_X_FORWARDED_FOR=place)
        came_by = crowd.address(link, f"worker-{number}")
        stranger.get(came_by)
        assert stranger.post(came_by, {"consent": "on"}).status_code == 302
        guesser = Client(REMOTE_ADDR=place, HTTP_X_FORWARDED_FOR=place)
        guesser.post(reverse("login"), {"username": "nobody", "password": "wrong"})


def tables_with(place):
    return {
        model.__name__
        for model in apps.get_models()
        if any(place in str(row) for row in model._base_manager.values_list())
    }


def test_no_table_but_that_of_failed_logins_holds_an_address(walked):
    for place in PLACES:
        assert tables_with(place) == {AccessAttempt.__name__}
        for session in Session.objects.all():
            assert place not in str(session.get_decoded())
        # On PostgreSQL, a table keeps what these files would hold.
        if folder := settings.CACHES["reports"].get("LOCATION"):
            for file in filter(Path.is_file, Path(folder).rglob("*")):
                assert place.encode() not in file.read_bytes()
    AccessAttempt.objects.update(attempt_time=timezone.now() - 2 * settings.AXES_COOLOFF_TIME)
    forget_logins()
    for place in PLACES:
        assert tables_with(place) == set()
    report_cache.clear()
