import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from judging.dataset import writing
from judging.dataset.models import Example, Import
from judging.dataset.pages.imports import MappingForm
from tests.factories import make_import, make_run, make_verdict, uploads_of

pytestmark = pytest.mark.django_db


def pair(number, **fields):
    row = {"id": number, "question": f"q{number}", "response_1": "a", "response_2": "b"}
    return json.dumps(row | fields) + "\n"


@pytest.fixture
def media(settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path / "uploads"
    return settings.MEDIA_ROOT


@pytest.fixture
def as_researcher(client, researcher, media):
    client.force_login(researcher)
    return client


@pytest.fixture
def upload(as_researcher, project):
    def upload(text, name="pairs.jsonl"):
        file = SimpleUploadedFile(name, text if isinstance(text, bytes) else text.encode())
        url = reverse("imports", args=[project.slug])
        return as_researcher.post(url, {"files": [file], "file_format": "auto"})

    return upload


@pytest.fixture
def act(as_researcher, project):
    """Post to an address of the project's first import."""

    def act(name, data=None, **options):
        return as_researcher.post(reverse(name, args=[project.slug, 1]), data or {}, **options)

    return act


@pytest.fixture
def worked(django_capture_on_commit_callbacks, settings):
    """What a worker would do, done in place once the page has committed."""
    from judging.tasks import write_import

    def run(call):
        with django_capture_on_commit_callbacks() as callbacks:
            response = call()
        assert len(callbacks) == 1
        write_import(Import.objects.get().pk)
        return response

    return run


def page(client, project):
    return client.get(reverse("import_detail", args=[project.slug, 1])).content.decode()


def test_a_file_is_shown_before_anything_is_written(upload, as_researcher, project):
    response = upload(pair(1, colour="red", label="win") + pair(2, response_2=""))
    assert response.url == reverse("import_detail", args=[project.slug, 1])
    html = page(as_researcher, project)
    assert "Import 2 pairs" in html
    assert "1 row with an empty response" in html
    assert "q1" in html
    assert not Example.objects.exists()


def test_confirmed_pairs_are_written_by_a_worker_and_the_upload_is_deleted(
    upload, act, worked, as_researcher, project
):
    upload(pair(1) + pair(2))
    (path,) = uploads_of(Import.objects.get())
    assert path.is_file()
    worked(lambda: act("import_begin"))
    assert Example.objects.visible().count() == 2
    assert "2 examples imported" in page(as_researcher, project)
    assert not path.exists()


def test_problems_are_shown_by_line_and_rows_are_left_out_only_when_asked(
    upload, act, worked, as_researcher, project
):
    bad = pair(2, response_1=None)
    upload(pair(1) + bad)
    html = page(as_researcher, project)
    assert "pairs.jsonl, line 2" in html
    assert "response_1 should be text, found null." in html
    assert act("import_begin").status_code == 422
    assert not Example.objects.exists()
    worked(lambda: act("import_begin", {"skip_invalid": "on"}))
    assert Example.objects.visible().count() == 1
    refused = as_researcher.get(reverse("import_refused", args=[project.slug, 1, 0]))
    assert b"".join(refused.streaming_content) == bad.encode()
    assert refused["Content-Type"] == "application/octet-stream"
    assert refused["Content-Disposition"].startswith("attachment")
    assert refused["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "pairs.csv"),
        (b"question,response_1,response_2\nO\xf9,a,b\n", "pairs.csv"),
        (pair(1, **{"a\ud800": 1}), "pairs.jsonl"),
        (pair(1, **{"a\0": 1}), "pairs.jsonl"),
    ],
)
def test_a_file_of_which_nothing_can_be_read_has_no_columns_to_map(
    upload, as_researcher, project, content, name
):
    upload(content, name=name)
    html = page(as_researcher, project)
    assert "This file can't be imported." in html
    assert "Columns are missing" not in html
    assert "Which column holds what?" not in html


def test_columns_that_are_not_recognised_can_be_mapped(upload, act, as_researcher, project):
    upload("id,question,mine,theirs\n1,q,a,b\n", name="pairs.csv")
    html = page(as_researcher, project)
    assert "Columns are missing." in html
    assert "Import 1 pair" not in html
    fields = {"column-0": "external_id", "column-1": "question"}
    act("import_check", fields | {"column-2": "response_1", "column-3": "response_2"})
    assert Import.objects.get().mapping == {"mine": "response_1", "theirs": "response_2"}
    assert "Import 1 pair" in page(as_researcher, project)


def test_cells_of_messages_are_a_conversation_unless_somebody_says_they_are_texts(
    upload, act, as_researcher, project
):
    upload('id,prompt,a,b\n1,"[{""role"": ""user"", ""content"": ""Why?""}]",x,y\n', "pairs.csv")
    fields = {"column-0": "external_id", "column-2": "response_1", "column-3": "response_2"}
    act("import_check", fields | {"column-1": "question"})
    html = page(as_researcher, project)
    assert "1 row in which a cell holds messages as JSON, read as a conversation." in html
    assert '<option value="question:text">question: texts</option>' in html
    act("import_check", fields | {"column-1": "question:text"})
    html = page(as_researcher, project)
    assert "read as a conversation" not in html
    assert '<option value="question:text" selected>' in html
    assert Import.objects.get().mapping["prompt"] == "question:text"


def test_two_columns_for_one_field_are_refused(upload, act):
    upload("id,question,mine,theirs\n1,q,a,b\n", name="pairs.csv")
    fields = {"column-0": "external_id", "column-1": "question"}
    response = act("import_check", fields | {"column-2": "response_1", "column-3": "response_1"})
    assert response.status_code == 422
    assert "Several columns are mapped to response_1" in response.content.decode()


def test_pandalms_columns_stay_recognised_through_the_form(upload, act, as_researcher, project):
    row = {"idx": 1, "cmp_key": "one_two", "instruction": "do", "input": "this"}
    upload(json.dumps([row | {"response1": "a", "response2": "b"}]), name="testset.json")
    form = as_researcher.get(reverse("import_detail", args=[project.slug, 1])).context["form"]
    assert "cmp_key" not in form.columns.values()
    act("import_check", {name: form[name].initial for name in form.fields})
    found = Import.objects.get()
    assert found.mapping == {}
    assert found.summary["rows"][0]["models"] == ["one", "two"]


def test_conflicts_with_the_project_are_listed(upload, act, worked, as_researcher, project):
    upload(pair(1))
    worked(lambda: act("import_begin"))
    upload(pair(1, response_1="other") + pair(2))
    html = as_researcher.get(reverse("import_detail", args=[project.slug, 2])).content.decode()
    assert "another response_1" in html
    assert "Import 1 pair" in html


def test_while_it_is_written_the_page_asks_again_and_then_reloads(as_researcher, project):
    found = make_import(project, state=Import.State.WRITING, n_rows=10, n_written=4)
    url = reverse("import_detail", args=[project.slug, found.number])
    asked = {"HTTP_HX_REQUEST": "true", "HTTP_HX_TARGET": "import-state"}
    response = as_researcher.get(url, **asked)
    html = response.content.decode()
    assert html.lstrip().startswith('<div id="import-state"')
    assert 'hx-trigger="every 1s"' in html
    assert "No worker is running." in html
    Import.objects.update(state=Import.State.DONE)
    assert as_researcher.get(url, **asked)["HX-Refresh"] == "true"


def test_an_import_whose_writer_died_can_be_resumed(upload, act, worked, as_researcher, project):
    upload("".join(pair(n) for n in range(5)))
    worked(lambda: act("import_begin"))
    Example.objects.filter(number__gt=1).delete()
    dead = {"state": Import.State.WRITING, "holder": "elsewhere:1:1:x"}
    Import.objects.update(n_written=2, lease_until="2020-01-01T00:00Z", **dead)
    for path in uploads_of(Import.objects.get()):
        path.write_text("".join(pair(n) for n in range(5)), encoding="utf-8")
    html = page(as_researcher, project)
    assert "The writer stopped before the end" in html
    assert Example.objects.visible().count() == 0
    worked(lambda: act("import_begin"))
    assert Example.objects.visible().count() == 5


def test_an_import_that_no_worker_took_is_sent_again(
    as_researcher, project, django_capture_on_commit_callbacks
):
    make_import(project, state=Import.State.WRITING, lease_until="2020-01-01T00:00Z")
    with django_capture_on_commit_callbacks() as callbacks:
        page(as_researcher, project)
    assert len(callbacks) == 1
    assert Import.objects.get().state == Import.State.WRITING


def test_a_checked_import_is_discarded_with_its_upload(upload, act):
    upload(pair(1))
    (path,) = uploads_of(Import.objects.get())
    act("import_undo")
    assert Import.objects.get().state == Import.State.UNDONE
    assert not path.parent.exists()


def test_undoing_a_finished_import_asks_for_its_name(upload, act, worked):
    upload(pair(1))
    worked(lambda: act("import_begin"))
    assert act("import_undo").status_code == 422
    assert Example.objects.visible().exists()
    act("import_undo", {"confirm": "import 1"})
    assert not Example.objects.exists()


def test_judged_examples_are_not_undone(upload, act, worked, project):
    upload(pair(1))
    worked(lambda: act("import_begin"))
    make_verdict(make_run(project), Example.objects.get(), 0.2)
    response = act("import_undo", {"confirm": "import 1"})
    assert response.status_code == 422
    assert "so they stay" in response.content.decode()


def test_a_file_with_nothing_new_in_it_is_not_offered(upload, act, worked, as_researcher, project):
    upload(pair(1))
    worked(lambda: act("import_begin"))
    upload(pair(1))
    html = as_researcher.get(reverse("import_detail", args=[project.slug, 2])).content.decode()
    assert "This file contains nothing new." in html
    assert reverse("import_begin", args=[project.slug, 2]) not in html


def test_a_confirmed_import_is_sent_to_the_quick_queue(
    upload, act, settings, django_capture_on_commit_callbacks
):
    messages = settings.QUEUE_FOLDER / "messages"
    before = set(messages.glob("*.quick.msg"))
    upload(pair(1))
    with django_capture_on_commit_callbacks(execute=True):
        act("import_begin")
    (message,) = set(messages.glob("*.quick.msg")) - before
    assert "judging.tasks.write_import" in message.read_text()


def test_a_form_without_a_file_is_refused(as_researcher, project):
    response = as_researcher.post(reverse("imports", args=[project.slug]), {"file_format": "auto"})
    assert response.status_code == 422
    assert not Import.objects.exists()


def test_an_old_spreadsheet_is_refused_in_the_form_and_not_kept(upload, media):
    response = upload(b"\xd0\xcf\x11\xe0....", name="pairs.xls")
    assert response.status_code == 422
    assert "an old spreadsheet (.xls)" in response.content.decode()
    assert not list(media.rglob("*.xls"))


def test_what_only_looks_like_a_workbook_imports_nothing(upload, as_researcher, project):
    assert upload(b"PK\x03\x04....", name="pairs.xlsx").status_code == 302
    assert "damaged" in page(as_researcher, project)
    assert not Example.objects.exists()


def test_a_file_name_can_not_leave_its_folder(upload, media):
    upload(pair(1), name="../../evil.jsonl")
    (path,) = uploads_of(Import.objects.get())
    assert path.is_relative_to(media)


def test_text_of_a_file_is_never_markup(upload, as_researcher, project):
    upload(pair(1, question="<script>alert(1)</script>", label="<b>maybe</b>"))
    html = page(as_researcher, project)
    assert "<script>alert" not in html
    assert "<b>maybe" not in html


def test_writing_is_left_to_the_worker(upload, act, monkeypatch):
    upload(pair(1))
    monkeypatch.setattr(writing, "write", lambda *_: pytest.fail("the page wrote"))
    act("import_begin")
    assert Import.objects.get().state == Import.State.WRITING


def test_codes_that_can_mean_two_things_are_asked_about(
    upload, act, as_researcher, project, worked
):
    upload("".join(pair(n, label=n) for n in range(3)))
    html = page(as_researcher, project)
    assert "What do the codes of gold labels mean?" in html
    assert "Import 3 pairs" not in html
    assert "0: response 1 is better, 1: response 2 is better, 2: tie" in html
    assert act("import_begin").status_code == 422
    act("import_check", {**as_shown(project), "labels": "0=win,1=lose,2=tie"})
    assert "0 means response 1 is better, 1 means response 2 is better, 2 means tie" in page(
        as_researcher, project
    )
    # Another change keeps what was said, unless it is about the column of the labels.
    act("import_check", {**as_shown(project), "labels": "0=win,1=lose,2=tie"})
    worked(lambda: act("import_begin"))
    assert list(Example.objects.order_by("number").values_list("gold_label", flat=True)) == [
        "win", "lose", "tie",
    ]  # fmt: skip


def as_shown(project):
    """What the form of columns sends if nothing is changed."""
    form = MappingForm(Import.objects.get(project=project).summary)
    return {name: field.initial for name, field in form.fields.items()}


def test_a_file_of_conflicts_alone_is_not_said_to_be_in_the_project(
    upload, as_researcher, project, worked, act
):
    upload(pair(1) + pair(2))
    worked(lambda: act("import_begin"))
    upload(pair(1, question="other") + pair(2, question="another"))
    last = reverse("import_detail", args=[project.slug, 2])
    html = as_researcher.get(last).content.decode()
    assert "The project already has these pairs" not in html
    assert "The project has other content under each of these IDs." in html
    upload(pair(1) + pair(2, question="another"))
    html = as_researcher.get(last.replace("/2", "/3")).content.decode()
    assert "The project already has 1 of these pairs, and other content under 1 ID." in html
    upload(pair(1) + pair(2))
    html = as_researcher.get(last.replace("/2", "/4")).content.decode()
    assert "The project already has these pairs." in html
