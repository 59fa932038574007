import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairjudge_site.celery import app
from judging.tasks import pump_run
from tests.fairjudge_site.messages import connection

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
MESSAGES = 1_000


@pytest.fixture
def folder(tmp_path):
    for name in ("messages", "taken", "control"):
        (tmp_path / name).mkdir()
    return tmp_path


def process(folder, *arguments):
    command = [sys.executable, "-m", "tests.fairjudge_site.messages", str(folder), *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_every_message_of_many_processes_arrives_whole_and_once(folder):
    takers = [process(folder, "take") for _ in range(3)]
    half = str(MESSAGES // 2)
    putters = [process(folder, "put", first, half) for first in ("0", half)]
    for putter in putters:
        assert putter.wait() == 0
        putter.stdout.close()
    (folder / "over").touch()
    taken = []
    for taker in takers:
        output, _ = taker.communicate()
        assert taker.returncode == 0
        taken += [int(line) for line in output.split()]
    assert sorted(taken) == list(range(MESSAGES))
    assert os.listdir(folder / "messages") == os.listdir(folder / "taken") == []


def test_messages_leave_in_the_order_they_came(folder):
    with connection(folder) as broker, broker.SimpleQueue("one") as queue:
        for number in range(20):
            queue.put(number)
        assert [queue.get(block=False).payload for _ in range(20)] == list(range(20))


def test_queues_that_are_declared_at_once_are_all_bound(folder):
    names = [f"queue{number}" for number in range(6)]
    code = (
        "import sys; from pathlib import Path; from kombu import Exchange, Queue\n"
        "from tests.fairjudge_site.messages import connection\n"
        "with connection(Path(sys.argv[1])) as broker:\n"
        "    Queue(sys.argv[2], Exchange('shared'), 'key')(broker.default_channel).declare()\n"
    )
    declaring = [
        subprocess.Popen([sys.executable, "-c", code, str(folder), name], cwd=ROOT)
        for name in names
    ]
    assert [each.wait() for each in declaring] == [0] * len(names)
    with connection(folder) as broker:
        table = broker.default_channel.get_table("shared")
    assert sorted(binding.queue for binding in table) == names


def test_a_task_reaches_the_queue_it_is_for_and_no_other():
    with app.connection_for_write() as broker:
        channel = broker.default_channel
        for queue in app.amqp.queues.values():
            queue(channel).declare()
        before = {name: channel._size(name) for name in app.amqp.queues}
        pump_run.delay(0)
        after = {name: channel._size(name) for name in app.amqp.queues}
    assert after == {**before, "runs": before["runs"] + 1}


@pytest.mark.parametrize(
    "address",
    ["redis://127.0.0.1:1/0", pytest.param("amqp://127.0.0.1:1//", marks=pytest.mark.long)],
)
def test_a_broker_that_is_away_fails_nothing_that_was_committed(own_environment, address):
    away = {**own_environment, "CELERY_BROKER_URL": address}
    code = "from judging.core.waking import *; wake_on_commit(PUMP_RUN, 0); print('went on')"
    command = [sys.executable, "manage.py", "shell", "--no-imports", "--command", code]
    done = subprocess.run(command, cwd=ROOT, env=away, capture_output=True, text=True, check=False)
    assert done.stdout == "went on\n"
    assert "The broker does not answer (" in done.stderr
    assert "Connection refused" in done.stderr
    assert "Traceback" not in done.stderr


LARGE = """
from django.test import Client
from django.utils import timezone
from annotation.models import Round
from annotation.rounds.opening import RoundSettings, open_round
from judging.core.models import Worker
from judging.dataset.models import Example
from judging.projects.models import Membership, Role
from tests import factories as make

project = make.make_project("large")
owner = make.make_member(project, Role.OWNER, "olga")
run = make.make_run(project)
examples = make.make_examples(project, 5_001)
for example in examples[:20]:
    make.make_verdict(run, example, 0.5)
now = timezone.now()
Worker.objects.create(name="w", queues="runs,quick", started_at=now, seen_at=now)
"""
SEE = """
Membership.objects.filter(user=owner).update(unblinded_at=now)
client = Client(SERVER_NAME="localhost")
client.force_login(owner)
plan = f"plan/preview?run={run.pk}&how=beta&beta=20&votes=1&audit=0"
for page in ("results/verdict", "results/verdict", plan):
    answer = client.get("/p/large/" + page)
    text = answer.content.decode()
    print(answer.status_code, "The queue does not answer" in text)
"""
VOTE = """
round_ = open_round(project, None, run, RoundSettings(beta=50, votes=1, learn=20))
person = make.make_annotator(project)
from annotation.models import Draft
from annotation.queue.queue import claim_next
from annotation.votes.voting import record_vote
while isinstance(draft := claim_next(round_, person), Draft):
    record_vote(draft, {"overall": "left"})
print("voted")
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "address",
    ["redis://127.0.0.1:1/0", pytest.param("amqp://127.0.0.1:1//", marks=pytest.mark.long)],
)
def test_large_results_and_votes_wait_for_a_broker_that_is_away(environment_with_tables, address):
    """The page says so, and the sweep asks for the figures once the broker is back."""

    def shell(code, broker):
        command = [sys.executable, "manage.py", "shell", "--no-imports", "--command", code]
        environment = {**environment_with_tables, "CELERY_BROKER_URL": broker}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done

    sweep = "from annotation.results.report.cache import wake_for_reports; wake_for_reports()"
    away = shell(LARGE + SEE + VOTE + sweep, address)
    assert away.stdout.splitlines() == ["200 True", "200 True", "200 True", "voted"]
    assert "Traceback" not in away.stderr
    for task in ("renew_report", "go_on_with_round"):
        assert f"tasks.{task}. The work is recorded in the database" in away.stderr
    messages = Path(environment_with_tables["FAIRJUDGE_DATA"]) / "queue" / "messages"
    shell(f"{sweep}; wake_for_reports()", "")
    assert len(list(messages.iterdir())) == 1
