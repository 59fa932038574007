"""People of a panel, as tests send them through a crowd link."""

from urllib.parse import urlencode, urlsplit

from django.core.cache import caches
from django.test import Client

from annotation.models import CrowdSubmission
from annotation.people import crowds

TERMS = {
    "consent": "We are the **Maple Lab**. We pay 9 USD.",
    "completion_code": "DONE42",
    "screened_code": "OUT42",
    "max_people": 3,
    "max_pairs": 2,
}
SECRET = "5f1a2b3c4d5e6f7a8b9c0d1e"


def set_up(round_, owner, **terms):
    caches["reports"].clear()
    return crowds.set_up(round_, owner, TERMS | terms)


def address(link, worker="worker-1", session=SECRET, **more):
    ids = {"PROLIFIC_PID": worker, "STUDY_ID": "study-1", "SESSION_ID": session} | more
    return f"{urlsplit(crowds.link_of(link)).path}?{urlencode(ids)}"


def begin(link, worker="worker-1", session=SECRET, **answers):
    """A browser of somebody who came by the link, agreed, and is at the first pair."""
    browser = Client()
    answer = browser.post(address(link, worker, session), {"consent": "on"} | answers)
    assert answer.status_code == 302, answer.content.decode()
    return browser


def submission(worker="worker-1"):
    return CrowdSubmission.objects.get(worker_id=worker)
