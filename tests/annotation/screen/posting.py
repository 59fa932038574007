"""Asking for an item and posting to it as the page does, with or without its script."""

from annotation.rounds.opening import RoundSettings
from annotation.screen.hand import address_of

ALL = RoundSettings(everything=True, votes=1)


def first_item(client, round_):
    """The token of the item that is handed out."""
    answer = client.get(address_of(round_))
    assert answer.status_code == 302, answer.content.decode()
    return answer.url.split("/")[2].split("?")[0]


def post(client, token, what="vote", script=False, **fields):
    headers = {"X-Annotate": "1"} if script else {}
    fields = {"token": token} | fields
    return client.post(f"/annotate/{token}/{what}", fields, headers=headers)


def text_of(answer):
    return " ".join(answer.content.decode().split())
