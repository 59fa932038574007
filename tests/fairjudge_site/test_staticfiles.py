import re

import pytest
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.management import call_command
from django.templatetags.static import static

from fairjudge_site.requests import CollectedStorage


def test_before_they_are_collected_files_have_their_plain_names():
    assert static("css/app.css") == "/static/css/app.css"


@pytest.fixture
def collected(settings, tmp_path):
    """The storage of a site that collects its files when it starts, as runall does."""
    settings.STATIC_ROOT = tmp_path
    call_command("collectstatic", interactive=False, verbosity=0)
    yield CollectedStorage()
    staticfiles_storage.hashed_files = {}


def test_collected_files_have_a_name_for_each_content_and_are_compressed(collected, tmp_path):
    link = collected.url("css/app.css")
    assert re.fullmatch(r"/static/css/app\.[0-9a-f]{12}\.css", link)
    file = tmp_path / link.removeprefix("/static/")
    assert file.is_file()
    assert file.with_name(f"{file.name}.gz").is_file()
