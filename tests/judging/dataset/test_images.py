import base64
import io
import json
import zlib

import datasets
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.core.management.base import CommandError
from PIL import Image as Pillow

from annotation.deletion import delete_project
from judging.core.errors import UserError
from judging.core.images import MOST_PIXELS, hashes_in
from judging.dataset import writing
from judging.dataset.images import LEFT_AS_TEXT
from judging.dataset.models import Example, ExampleImage, Image, Import
from judging.dataset.uploads import check_again, first_pass, record_import, store
from judging.dataset.writing import import_files, undo
from judging.projects.models import Role
from judging.projects.tokens import issue_token
from tests import other_tools
from tests.factories import make_member, make_project
from tests.pictures import MADE_BY, moving_gif, packed, picture, sideways_jpeg, telltale_png

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path / "media"


def rows(*examples) -> str:
    named = [
        {"id": f"e{n}", "question": question, "response_1": first, "response_2": second}
        for n, (question, first, second) in enumerate(examples, start=1)
    ]
    return "\n".join(json.dumps(row) for row in named)


def uploaded(content: bytes, name: str = "pairs.zip"):
    return store([SimpleUploadedFile(name, content)])


def problems(content: bytes, name: str = "pairs.zip") -> list[tuple[int, str]]:
    found = first_pass(None, uploaded(content, name)).summary.problems
    return [(problem.place.line, problem.sentence) for problem in found]


def data_url(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


@pytest.mark.databases
def test_a_zip_brings_each_image_once_upright_and_without_what_it_said(settings):
    project = make_project()
    asked = "What is this? ![a photo](photos/side%20ways.jpg)"
    content = packed(
        {
            "data/pairs.jsonl": rows(
                (asked, "![ ](photos/x.png)", "`![code](no.png)`"),
                ("Which?", "![A](photos/atlas-2.png)", '![B](<photos/a copy.png> "atlas")'),
            ),
            "data/photos/side ways.jpg": sideways_jpeg(),
            "data/photos/x.png": telltale_png(),
            "photos/atlas-2.png": telltale_png(),
            "photos/a copy.png": telltale_png(),
            "__MACOSX/data/._pairs.jsonl": "nothing",
        }
    )
    imported = record_import(project, None, uploaded(content))
    assert imported.summary["acceptable"]
    # Nobody sees an image before its example is there.
    assert not ExampleImage.objects.exists()
    writing.begin(imported, background=False)
    assert writing.write(imported.pk)
    one, two = Example.objects.order_by("number")
    photo = Image.objects.get(content_type="image/jpeg")
    (made,) = Image.objects.filter(content_type="image/png")
    assert Image.objects.count() == 2
    assert one.question == f"What is this? ![a photo](sha256:{photo.pk})"
    assert one.response_2 == "`![code](no.png)`"
    assert two.response_1 == f"![A](sha256:{made.pk})"
    assert two.response_2 == f"![B](sha256:{made.pk})"
    assert {link.image_id for link in one.images.all()} == {photo.pk, made.pk}
    for image in (photo, made):
        assert MADE_BY.encode() not in bytes(image.content)
    upright = Pillow.open(io.BytesIO(bytes(photo.content)))
    assert (upright.size, photo.width, photo.height) == ((20, 60), 20, 60)
    assert upright.getpixel((10, 5))[0] < 30
    assert upright.getpixel((10, 55))[0] > 225
    assert not upright.getexif()
    # The site keeps no copy of the ZIP.
    assert not [path for path in settings.MEDIA_ROOT.rglob("*") if path.is_file()]

    again = import_files(project, None, uploaded(content))
    assert (again.n_written, again.n_known, Image.objects.count()) == (0, 2, 2)


def test_messages_hold_images_as_openai_and_anthropic_write_them():
    project = make_project()
    small = base64.b64encode(picture()).decode()
    asked = [
        {"role": "user", "content": [
            {"type": "text", "text": "Which is red?"},
            {"type": "image_url", "image_url": {"url": data_url(picture()), "detail": "high"}},
        ]},
    ]  # fmt: skip
    told = [
        {"role": "assistant", "content": [
            {"type": "image", "source": {
                "type": "base64", "media_type": "image/png", "data": small}},
            {"type": "image", "image": "b.png", "alt": "blue [one]"},
        ]},
    ]  # fmt: skip
    row = {"id": "a", "question": asked, "response_1": told, "response_2": "None."}
    content = packed({"p.jsonl": json.dumps(row), "b.png": picture(colour="blue")})
    import_files(project, None, uploaded(content))
    example = Example.objects.get()
    (red,) = hashes_in(example.question)
    (blue,) = hashes_in(example.response_1) - {red}
    assert example.question == f"Which is red?\n![](sha256:{red})"
    assert example.response_1 == f"![](sha256:{red})\n![blue (one)](sha256:{blue})"
    assert small not in example.conversation
    assert set(ExampleImage.objects.values_list("image", flat=True)) == {red, blue}
    plain = {**row, "id": "b", "response_1": [{"role": "assistant", "content": [
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}]}  # fmt: skip
    ((line, sentence),) = problems(json.dumps(plain).encode(), "p.jsonl")
    assert line == 1
    assert "FAIRJUDGE_IMAGE_HOSTS" in sentence


def bomb() -> bytes:
    """A PNG of few bytes that says it has 100,000 × 100,000 pixels."""
    content = bytearray(picture())
    content[16:24] = (100_000).to_bytes(4) * 2
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4)
    return bytes(content)


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (None, "is not in the ZIP"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "is an SVG"),
        (b"\xef\xbb\xbf <?xml version='1.0'?><svg/>", "is an SVG"),
        (b"%PDF-1.4", "is no PNG, JPEG, WebP or GIF"),
        (picture()[:60], "damaged"),
        (picture("BMP"), "is no PNG"),
        (bomb(), f"An image may have {MOST_PIXELS:,}"),
        (picture(size=(5001, 5000)), f"An image may have {MOST_PIXELS:,}"),
        (moving_gif(), "moves"),
        (b"\x89PNG" + bytes(1_100_000), "is larger than 1 MiB"),
    ],
    ids="missing svg xml pdf cut bmp bomb pixels moving large".split(),
)
def test_an_image_that_cant_be_used_is_an_error_with_its_line(settings, image, said):
    settings.FAIRJUDGE_MAX_IMAGE_BYTES = 2**20
    files = {"p.jsonl": rows(("q", "a", "b"), ("q2", "see ![x](i.png)", "c"))}
    content = packed(files | ({"i.png": image} if image is not None else {}))
    ((line, sentence),) = problems(content)
    assert line == 2
    assert said in sentence
    with pytest.raises(UserError):
        import_files(make_project(), None, uploaded(content))
    assert not Example.objects.exists()
    assert not Image.objects.exists()


def test_what_a_row_leaves_out_by_its_image_is_left_out_in_the_second_pass_too():
    project = make_project()
    content = packed({"p.jsonl": rows(("q", "![](data:,x)", "b"), ("q2", "a", "b"))})
    done = import_files(project, None, uploaded(content), skip_invalid=True)
    assert (done.n_written, done.n_refused) == (1, 1)


@pytest.mark.parametrize("name", ["../p.jsonl", "/p.jsonl", "a\\p.jsonl", "n" * 201])
def test_a_zip_with_names_that_lead_elsewhere_is_refused(name, settings):
    with pytest.raises(UserError, match="not allowed"):
        first_pass(None, uploaded(packed({name: "x", "p.jsonl": rows(("q", "a", "b"))})))
    left = [path.name for path in settings.MEDIA_ROOT.rglob("*") if path.is_file()]
    assert left == ["pairs.zip"]


def test_a_zip_that_inflates_without_end_or_holds_no_pairs_is_refused():
    with pytest.raises(UserError, match="it would inflate to more than 256 MiB"):
        first_pass(None, uploaded(packed({"p.jsonl": bytes(257 << 20)})))
    with pytest.raises(UserError, match=r"The ZIP holds no file of \.parquet"):
        first_pass(None, uploaded(packed({"a.png": picture()})))


def test_images_by_address_come_once_from_hosts_that_the_operator_lists(settings, receiver):
    receiver.body = picture()
    project = make_project()
    url = f"http://{receiver.host}/a.png"
    elsewhere = "http://localhost:9/a.png"
    content = rows(("q", f"![x]({url})", f"![y]({elsewhere})"), ("q2", f"![x]({url})", "b"))
    left = record_import(project, None, uploaded(content.encode(), "p.jsonl"))
    assert [one["kind"] for one in left.summary["notices"]] == [LEFT_AS_TEXT]
    assert left.summary["notices"][0]["count"] == 2
    assert "images" not in left.options
    assert not receiver.received

    settings.FAIRJUDGE_IMAGE_HOSTS = {receiver.host}
    assert check_again(left, "auto", {})
    assert [one.path for one in receiver.received] == ["/a.png"]
    assert check_again(Import.objects.get(pk=left.pk), "auto", {})
    left.refresh_from_db()
    writing.begin(left, background=False)
    writing.write(left.pk)
    assert [one.path for one in receiver.received] == ["/a.png"]
    first = Example.objects.order_by("number").first()
    assert first.response_1 == f"![x](sha256:{Image.objects.get().pk})"
    assert first.response_2 == f"![y]({elsewhere})"
    # Not even a listed host may be in a private network unless the operator says so.
    settings.FAIRJUDGE_WEBHOOK_HOSTS = frozenset()
    other = rows(("q", f"![x]({url}?2)", "b")).encode()
    ((_, sentence),) = problems(other, "p.jsonl")
    assert "private network" in sentence
    assert [one.path for one in receiver.received] == ["/a.png"]


@pytest.mark.parametrize("status", [302, 404])
def test_an_address_that_leads_elsewhere_or_nowhere_is_an_error(settings, receiver, status):
    settings.FAIRJUDGE_IMAGE_HOSTS = {receiver.host}
    receiver.statuses, receiver.headers = [status], {"Location": "/b.png"}
    content = rows(("q", f"![x](http://{receiver.host}/a.png)", "b")).encode()
    ((line, sentence),) = problems(content, "p.jsonl")
    assert (line, f"status {status}" in sentence) == (1, True)


@pytest.mark.databases
def test_an_image_goes_with_the_last_project_that_uses_it():
    content = packed({"p.jsonl": rows(("q", "![](i.png)", "b")), "i.png": picture()})
    ours, theirs = make_project(), make_project()
    for project in (ours, theirs):
        import_files(project, None, uploaded(content))
    assert Image.objects.count() == 1
    delete_project(ours, None)
    assert Image.objects.count() == 1
    undo(Import.objects.get(project=theirs), None)
    assert not Image.objects.exists()


@pytest.mark.databases
def test_a_hash_names_an_image_of_the_project_and_of_no_other():
    content = packed({"p.jsonl": rows(("q", "![](i.png)", "b")), "i.png": picture()})
    ours, theirs = make_project(), make_project()
    import_files(theirs, None, uploaded(content))
    known = rows(("q2", f"![](sha256:{Image.objects.get().pk})", "b")).encode()
    with pytest.raises(UserError):
        import_files(ours, None, uploaded(known, "p.jsonl"))
    assert import_files(theirs, None, uploaded(known, "p.jsonl")).n_written == 0
    assert Import.objects.filter(project=theirs).count() == 2


def test_a_program_sends_a_zip_too(client, settings):
    project = make_project("pets")
    _, token = issue_token(make_member(project, Role.OWNER), "notebook", ["read", "write"])
    content = packed({"p.jsonl": rows(("q", "![](i.png)", "b")), "i.png": picture()})
    asked = {
        "content_type": "application/zip", "headers": {"Authorization": f"Bearer {token}"}
    }  # fmt: skip
    estimate = client.post("/api/v1/projects/pets/examples/estimate", content, **asked)
    assert estimate.json()["new"] == 1, estimate.json()
    assert not [path for path in settings.MEDIA_ROOT.rglob("*") if path.is_file()]
    answer = client.post("/api/v1/projects/pets/examples", content, **asked)
    assert answer.status_code == 202, answer.json()
    assert writing.write(Import.objects.get().pk)
    assert ExampleImage.objects.get().image == Image.objects.get()
    broken = packed({"p.jsonl": rows(("q", "![](none.png)", "b"))})
    refused = client.post("/api/v1/projects/pets/examples", broken, **asked)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["line"] == 1


@pytest.mark.databases
def test_an_exported_data_set_brings_its_images_along_and_adds_nothing_at_home(tmp_path):
    pair = ("See ![](a.png)", "![](b.jpg)", "no")
    asked = [{"role": "user", "content": [
        {"type": "text", "text": "Which?"}, {"type": "image", "image": "a.png"}]}]  # fmt: skip
    talk = json.dumps({"id": "talk", "question": asked, "response_1": "a", "response_2": "b"})
    content = {
        "p.jsonl": f"{rows(pair)}\n{talk}",
        "a.png": telltale_png(),
        "b.jpg": sideways_jpeg(),
    }
    home, away = make_project("home"), make_project("away")
    import_files(home, None, uploaded(packed(content)))
    for name in ("folder", "set.zip"):
        out = tmp_path / name
        call_command("export", "home", "--format", "dataset", "-o", str(out), verbosity=0)
        again = import_files(home, None, [out])
        assert (again.n_written, again.n_known, again.n_conflicts) == (0, 2, 0)
        brought = import_files(away, None, [out])
        assert brought.n_written + brought.n_known == 2
        assert Image.objects.count() == 2
        texts = ("question", "response_1", "response_2", "conversation")
        ours, theirs = (
            list(Example.objects.filter(project=one).order_by("number").values_list(*texts))
            for one in (home, away)
        )
        assert ours == theirs
        assert ExampleImage.objects.filter(example__project=away).count() == 3
    names = {path.stem for path in (tmp_path / "folder" / "images").iterdir()}
    assert names == set(Image.objects.values_list("pk", flat=True))
    opened = datasets.load_dataset(str(tmp_path / "folder"), cache_dir=str(tmp_path / "cache"))
    assert opened["train"].num_rows == 2


def test_the_command_leaves_nothing_of_a_zip_that_it_only_checks(tmp_path, settings):
    path = tmp_path / "pairs.zip"
    path.write_bytes(packed({"p.jsonl": rows(("q", "![](i.png)", "b")), "i.png": picture()}))
    for options in (["--dry-run"], []):
        call_command("import_examples", "new", str(path), *options, verbosity=0)
        assert Image.objects.exists() == (not options)
        assert not [one for one in settings.MEDIA_ROOT.rglob("*") if one.is_file()]
    assert path.exists()


def eval_log(model: str, answers: dict[int, str], head: str = "header.json") -> bytes:
    """Return a log as inspect_ai writes it unless another format is asked for."""
    log = other_tools.inspect_log(model, answers)
    samples = log.pop("samples")
    members = {f"samples/{one['id']}_epoch_1.json": json.dumps(one, indent=2) for one in samples}
    journal = {"_journal/start.json": json.dumps(log), "summaries.json": "[]"}
    return packed(journal | members | {head: json.dumps(log)})


@pytest.mark.parametrize("head", ["header.json", "start.json"])
def test_two_eval_logs_of_inspect_are_pairs(head):
    project = make_project()
    first = eval_log("openai/gpt-4o", {1: "Hello!", 2: "Hi!"}, head)
    second = eval_log("google/gemini", {2: "Hey!", 1: "Good day!"}, head)
    files = [SimpleUploadedFile(f"{n}.eval", log) for n, log in enumerate((first, second))]
    import_files(project, None, store(files))
    pair = Example.objects.get(external_id="1:openai/gpt-4o:google/gemini")
    assert (pair.response_1, pair.response_2, pair.reference) == ("Hello!", "Good day!", "Hello")


def test_an_eval_log_that_names_no_evaluation_is_refused():
    broken = packed({"header.json": "[]", "samples/1_epoch_1.json": "{}"})
    with pytest.raises(UserError, match=r"its header.json doesn't say what was evaluated"):
        problems(broken, "broken.eval")


def test_a_command_names_the_file_in_a_zip_and_not_where_it_was_unpacked(tmp_path, capsys):
    path = tmp_path / "pairs.zip"
    path.write_bytes(packed({"data/pairs.jsonl": rows(("q ![x](no.png)", "", "b"))}))
    with pytest.raises(CommandError, match="problem"):
        call_command("import_examples", "pets", path)
    assert capsys.readouterr().err.startswith("data/pairs.jsonl, line 1: ")
