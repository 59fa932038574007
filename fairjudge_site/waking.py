"""Tasks whose message only wakes a worker: what is to be done stands in the database."""

import logging
from typing import Any

from celery.contrib.django.task import DjangoTask
from django.db import transaction
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)
NOTHING_LOST = "What was asked for is recorded; a worker takes it up once the broker is back."


class WakingTask(DjangoTask):
    """A broker that is away loses nothing, so it must not fail what has just been committed."""

    def delay_on_commit(self, *args: Any, **kwargs: Any) -> None:
        def wake() -> None:
            try:
                self.delay(*args, **kwargs)
            except (OperationalError, OSError) as error:
                logger.warning("The broker does not answer (%s). %s", error, NOTHING_LOST)

        transaction.on_commit(wake, robust=True)
