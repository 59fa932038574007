"""The Celery app: the tasks of every installed app, and what a worker does beside them."""

import os
import threading

from celery import Celery
from celery.signals import worker_ready, worker_shutdown, worker_shutting_down
from kombu.transport import TRANSPORT_ALIASES

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairjudge_site.settings")
TRANSPORT_ALIASES["filesystem"] = "fairjudge_site.broker:Transport"
STOP_WITHIN = 20.0

app = Celery("fairjudge")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@worker_ready.connect
def start_heartbeat(sender, **kwargs) -> None:
    from fairjudge_site.heartbeat import Heartbeat

    app.heartbeat = Heartbeat(sender.hostname, list(app.amqp.queues.consume_from))
    app.heartbeat.start()


@worker_shutting_down.connect
def ask_tasks_to_stop(**kwargs) -> None:
    """Celery waits for running tasks without end; a run is picked up later wherever it was left."""
    from judging.core.processes import stop_requested

    stop_requested.set()
    deadline = threading.Timer(STOP_WITHIN, os._exit, [1])
    deadline.daemon = True
    deadline.start()


@worker_shutdown.connect
def end_heartbeat(**kwargs) -> None:
    app.heartbeat.end()
