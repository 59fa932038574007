"""The owner's page of a crowd link."""

import csv
import html
import io

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from annotation.models import CrowdLink, CrowdSubmission, Slot, Vote
from annotation.people import crowds
from annotation.queue.settling import crowd_places
from annotation.rounds.changes import close
from annotation.rounds.opening import RoundSettings, open_round
from judging.projects.models import AuditEvent
from tests.annotation.crowd import begin, set_up, submission
from tests.annotation.screen.posting import first_item, post, text_of
from tests.factories import make_examples

pytestmark = pytest.mark.django_db

FORM = {
    "consent": "We pay **9 USD**.",
    "questions": "choice: Do you read English? | yes | no!",
    "max_people": 5,
    "max_pairs": 7,
    "completion_code": "DONE42",
    "worker_name": "PROLIFIC_PID",
    "study_name": "STUDY_ID",
    "session_name": "SESSION_ID",
}


@pytest.fixture
def round_(project):
    make_examples(project, 4)
    return open_round(project, None, None, RoundSettings(everything=True, votes=2))


@pytest.fixture
def page(round_):
    return reverse("round_crowd", args=[round_.project.slug, round_.number])


def test_an_owner_makes_changes_and_withdraws_the_link(as_owner, round_, page):
    assert "No crowd link yet" in text_of(as_owner.get(page))
    assert as_owner.post(page, FORM).status_code == 302
    link = CrowdLink.objects.get()
    shown = text_of(as_owner.get(page))
    assert "PROLIFIC_PID={{%PROLIFIC_PID%}}&amp;STUDY_ID={{%STUDY_ID%}}" in shown
    assert "Nobody has used it yet" in shown
    assert "choice: Do you read English? | yes | no!" in shown
    # The signature of an address changes each second, and what it is signed for doesn't.
    nonce = link.nonce
    as_owner.post(page, FORM | {"max_pairs": 9})
    link.refresh_from_db()
    assert (link.max_pairs, link.nonce) == (9, nonce)
    as_owner.post(reverse("round_crowd_withdraw", args=[round_.project.slug, round_.number]))
    assert "The crowd link is closed" in text_of(as_owner.get(page))
    as_owner.post(page, FORM)
    link.refresh_from_db()
    assert crowds.is_usable(link)
    assert link.nonce != nonce


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"consent": ""}, "required"),
        ({"questions": "Why?"}, "begin with a kind"),
        ({"max_people": 0}, "from 1 to 100,000"),
        ({"max_pairs": 100_001}, "from 1 to 100,000"),
        ({"completion_code": ""}, "Give a code or an address"),
        ({"completion_url": "http://app.example.org/"}, "begins with https"),
        ({"completion_url": "javascript:alert(1)"}, "valid URL"),
        ({"session_name": "STUDY_ID"}, "parameter of its own"),
    ],
)
def test_terms_that_cannot_hold_are_refused(as_owner, page, change, said):
    answer = as_owner.post(page, FORM | change)
    assert answer.status_code == 422
    assert said in text_of(answer)
    assert not CrowdLink.objects.exists()


def test_a_closed_round_takes_nobody(as_owner, round_, page):
    close(round_, None)
    assert "nobody can join it" in text_of(as_owner.get(page))
    assert as_owner.post(page, FORM).status_code == 422


def test_submissions_are_listed_by_pseudonym(as_owner, round_, owner, page):
    link = set_up(round_, owner)
    browser = begin(link, "worker-secret")
    post(browser, first_item(browser, round_), overall="left", seconds="30")
    shown = text_of(as_owner.get(page))
    assert "1 working." in shown
    assert "annotator-1" in shown
    assert "worker-secret" not in shown
    assert submission("worker-secret").annotator.user.username not in shown


@pytest.mark.parametrize("who", ["researcher", "annotator", "outsider"])
def test_only_owners_see_it(client, request, page, who):
    client.force_login(request.getfixturevalue(who))
    assert client.get(page).status_code in (403, 404)
    assert client.post(page, FORM).status_code in (403, 404)
    assert not CrowdLink.objects.exists()


def test_the_page_takes_as_many_queries_for_many_as_for_one(
    as_owner, round_, owner, page, django_assert_max_num_queries
):
    link = set_up(round_, owner, max_people=50)
    for n in range(20):
        crowds.begin(link, crowds.PanelIds(f"w{n}", "s", "t"), {})
    with django_assert_max_num_queries(20):
        as_owner.get(page)


@pytest.fixture
def came(round_, owner):
    link = set_up(round_, owner)
    for n in (1, 2, 3):
        browser = begin(link, f"worker-{n}", session=f"session-{n}")
        post(browser, first_item(browser, round_), overall="left", seconds="0")
    return link


@pytest.fixture
def upload(as_owner, round_):
    address = reverse("round_crowd_marks", args=[round_.project.slug, round_.number])

    def upload(text):
        content = text.encode() if isinstance(text, str) else text
        return as_owner.post(address, {"file": SimpleUploadedFile("p.csv", content)}, follow=True)

    return upload


def states():
    found = CrowdSubmission.objects.exclude(worker_id="").order_by("worker_id")
    return list(found.values_list("state", flat=True))


def test_the_file_for_paying_holds_the_panels_ids_and_is_recorded(as_owner, came, round_):
    address = reverse("round_crowd_file", args=[round_.project.slug, round_.number])
    rows = list(csv.DictReader(io.StringIO(as_owner.post(address).content.decode())))
    assert [row["worker_id"] for row in rows] == ["worker-1", "worker-2", "worker-3"]
    assert rows[0]["session_id"] == "session-1"
    assert (rows[0]["person"], rows[0]["votes"], rows[0]["status"]) == (
        "annotator-1", "1", "working",
    )  # fmt: skip
    assert AuditEvent.objects.get(action="crowd file downloaded").detail == {"rows": 3}
    assert as_owner.get(address).status_code == 405


PROLIFIC = """\
Submission id,Participant id,Status,Time taken
session-1,worker-1,APPROVED,60
session-2,worker-2,REJECTED,61
session-3,worker-3,TIMED-OUT,62
session-9,worker-9,RETURNED,63
"""
MTURK = """\
"HITId","AssignmentId","WorkerId","AssignmentStatus"
"h","session-1","worker-1","Submitted"
"h","session-2","worker-2","Rejected"
"""


def test_prolifics_list_is_read_as_it_is(upload, came, as_owner, round_):
    assert crowd_places(round_.pk) == 0
    answer = upload(PROLIFIC)
    assert "3 submissions changed. 1 row named people who never used" in text_of(answer)
    assert states() == ["approved", "rejected", "returned"]
    assert crowd_places(round_.pk) == 2
    assert Vote.objects.count() == 3
    assert (
        not Slot.objects.filter(vote=None, annotator__isnull=False)
        .exclude(annotator__submission__state="working")
        .exists()
    )
    assert "0 submissions changed" in text_of(upload(PROLIFIC))


def test_mturks_list_is_read_as_it_is(upload, came):
    upload(MTURK)
    assert states() == ["working", "rejected", "working"]


def test_the_downloaded_file_comes_back_unchanged_and_edited(as_owner, upload, came, round_):
    CrowdSubmission.objects.filter(worker_id="worker-1").update(worker_id="=1+1")
    address = reverse("round_crowd_file", args=[round_.project.slug, round_.number])
    content = as_owner.post(address).content.decode()
    assert "'=1+1" in content
    assert "0 submissions changed" in text_of(upload(content))
    upload(content.replace(",working,", ",rejected,"))
    assert set(states()) == {"rejected"}


def test_another_submission_of_a_worker_is_not_theirs(upload, came):
    upload("worker_id,session_id,status\nworker-1,another,rejected\n")
    assert states() == ["working"] * 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("worker_id,status\nworker-1,rejected\nworker-2,paid\n", "Row 3: “paid” isn't a status"),
        ("worker_id,status\nworker-1,rejected\n,rejected\n", "Row 3 names no worker"),
        ("worker_id,status\nworker-1,rejected\nworker-1,approved\n", "Row 3 contradicts"),
        ("who,what\nworker-1,rejected\n", "needs a column"),
        ("worker_id,status\n", "a header and no row"),
        ("", "empty"),
        (b"\xff\xfe\x00", "isn't a CSV file"),
        ('worker_id,status\n"worker-1,rejected\n', "isn't a CSV file"),
        ("worker_id,status\nworker-1\n", "isn't a status"),
    ],
)
def test_a_list_that_cannot_be_read_changes_nothing(upload, came, text, said):
    answer = upload(text)
    assert answer.status_code == 422
    assert said in html.unescape(text_of(answer))
    assert states() == ["working"] * 3


def test_who_was_rejected_labels_no_more(upload, came, round_):
    upload(PROLIFIC)
    with pytest.raises(crowds.CrowdOver):
        crowds.admitted(submission("worker-2").annotator.user, round_.pk)
