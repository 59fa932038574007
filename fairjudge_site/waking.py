"""Tasks whose message only wakes a worker: what is to be done stands in the database."""

from typing import Any

from celery.contrib.django.task import DjangoTask
from django.db import transaction


class WakingTask(DjangoTask):
    """A broker that is away loses nothing, so it must not fail what has just been committed."""

    def delay_on_commit(self, *args: Any, **kwargs: Any) -> None:
        def wake() -> None:
            self.delay(*args, **kwargs)

        transaction.on_commit(wake, robust=True)
