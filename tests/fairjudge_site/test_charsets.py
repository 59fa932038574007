import pytest
from django.urls import reverse

BODY = b"""--B\r
Content-Disposition: form-data; name="username"\r
\r
\\ud800+2AA-\r
--B--\r
"""


def post(client, charset):
    content_type = f"multipart/form-data; boundary=B; charset={charset}"
    return client.generic("POST", reverse("login"), BODY, content_type=content_type)


@pytest.mark.parametrize("charset", ["utf-7", "unicode_escape", "hex", "idna", "utf-16", "latin-1"])
@pytest.mark.django_db
def test_a_form_in_another_codec_is_refused(client, charset):
    answer = post(client, charset)
    assert answer.status_code == 400
    assert b"<title>" in answer.content


@pytest.mark.parametrize("charset", ["utf-8", "UTF8", "no-such-codec"])
@pytest.mark.django_db
def test_utf8_is_read_whatever_it_is_called(client, charset):
    assert post(client, charset).status_code == 200
