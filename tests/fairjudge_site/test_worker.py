"""A worker of each queue on each broker: takes its tasks, shows that it lives, and signs off."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import eventually, processes_of

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
SEND = "from judging.tasks import pump_run; pump_run.delay(0)"
WORKERS = "SELECT queues, pid, seen_at FROM judging_worker"


class RunningWorker:
    def __init__(self, environment):
        self.environment = environment
        self.log = Path(environment["FAIRJUDGE_DATA"]).parent / "worker.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "runall", "--only", "runs"],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
            )

    def send(self):
        command = [sys.executable, "manage.py", "shell", "--no-imports", "--command", SEND]
        subprocess.run(command, cwd=ROOT, env=self.environment, check=True)

    def signs_of_life(self):
        file = Path(self.environment["FAIRJUDGE_DATA"]) / "fairjudge.sqlite3"
        with sqlite3.connect(file, timeout=20) as database:
            return database.execute(WORKERS).fetchall()

    def output(self):
        return self.log.read_text()

    def end(self):
        for pid in processes_of(self.environment["FAIRJUDGE_DATA"]):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def start_worker(environment_with_tables):
    started = []

    def start(**variables):
        started.append(RunningWorker({**environment_with_tables, **variables}))
        worker = started[-1]
        assert eventually(lambda: " ready." in worker.output(), 120), worker.output()
        return worker

    yield start
    for each in started:
        each.end()


def assert_a_task_arrives(worker):
    worker.send()
    arrived = eventually(lambda: "pump_run" in worker.output() and "succeeded" in worker.output())
    assert arrived, worker.output()


def test_the_default_broker_needs_no_server_and_the_worker_shows_that_it_lives(start_worker):
    worker = start_worker()
    assert_a_task_arrives(worker)
    assert eventually(worker.signs_of_life)
    ((queues, pid, first_seen),) = worker.signs_of_life()
    assert queues == "runs"
    assert pid in processes_of(worker.environment["FAIRJUDGE_DATA"])
    assert eventually(lambda: worker.signs_of_life()[0][2] > first_seen)
    worker.process.terminate()
    assert worker.process.wait(timeout=300) == 0
    assert worker.signs_of_life() == []


@pytest.mark.long
@pytest.mark.brokers
def test_a_task_arrives_through_redis(start_worker, redis_url):
    assert_a_task_arrives(start_worker(CELERY_BROKER_URL=redis_url))


@pytest.mark.long
@pytest.mark.brokers
def test_a_task_arrives_through_rabbitmq(start_worker, rabbitmq_url):
    assert_a_task_arrives(start_worker(CELERY_BROKER_URL=rabbitmq_url))
