"""The Celery app: the tasks of all apps, a worker's heartbeat, and how it stops."""

import os
import threading

from celery import Celery, Task
from celery.signals import worker_ready, worker_shutdown, worker_shutting_down
from django.conf import settings
from kombu.transport import TRANSPORT_ALIASES

from judging.core import tracing

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairjudge_site.settings")
TRANSPORT_ALIASES["filesystem"] = "fairjudge_site.broker:FolderTransport"
# A worker that hasn't stopped so long after its calls are cut off is ended. Its runs are resumed by
# another one.
STOP_WITHIN = 10.0


class TracedTask(Task):
    """A task whose time is traced, as part of what woke it."""

    def __call__(self, *args, **kwargs):
        parent = getattr(self.request, "traceparent", None)
        with tracing.span(self.name.rpartition(".")[2], "consumer", parent):
            return super().__call__(*args, **kwargs)


app = Celery("fairjudge", task_cls=TracedTask if settings.FAIRJUDGE_TRACES else Task)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@worker_ready.connect
def start_heartbeat(sender, **kwargs) -> None:
    from fairjudge_site.alerts import watch
    from fairjudge_site.heartbeat import Heartbeat

    app.heartbeat = Heartbeat(sender.hostname, list(app.amqp.queues.consume_from))
    app.heartbeat.start()
    watch()


@worker_shutting_down.connect
def ask_tasks_to_stop(**kwargs) -> None:
    """Ask runs and imports to stop at a safe place: Celery would wait for them without end."""
    from judging.core.processes import stop_requested

    stop_requested.set()
    seconds = settings.FAIRJUDGE_STOP_SECONDS + STOP_WITHIN
    deadline = threading.Timer(seconds, os._exit, [1])
    deadline.daemon = True
    deadline.start()


@worker_shutdown.connect
def end_heartbeat(**kwargs) -> None:
    app.heartbeat.end()
