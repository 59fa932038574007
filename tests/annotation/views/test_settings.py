import pytest
from django.urls import reverse

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("name", ["settings", "trail", "people"])
def test_owner_pages_open(client, owner, project, name):
    client.force_login(owner)
    assert client.get(reverse(name, args=[project.slug])).status_code == 200
