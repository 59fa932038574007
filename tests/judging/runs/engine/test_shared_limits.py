import time

import pytest

from judging.llm.client.limits import ProcessLimits, RedisLimits
from judging.runs.endpoints import named_endpoint
from judging.runs.engine.working import shared_limits, work_on
from tests.judging.runs.judging import in_thread, loopback, make_judged_project, started

pytestmark = pytest.mark.django_db(transaction=True)


def test_without_redis_each_process_keeps_to_the_limits_alone(settings):
    settings.CELERY_BROKER_URL = "filesystem://"
    assert isinstance(shared_limits(named_endpoint("local")), ProcessLimits)


@pytest.mark.brokers
def test_two_workers_share_a_minute_through_redis(settings, redis_url):
    """At 600 a minute, 40 requests of two runs take almost 4 s together, and 2 s if each alone."""
    settings.CELERY_BROKER_URL = redis_url
    with loopback(settings) as server:
        assert isinstance(shared_limits(named_endpoint("loop")), RedisLimits)
        first, second = (started(make_judged_project(10), rpm=600) for _ in range(2))
        began = time.monotonic()
        with in_thread(work_on, first):
            assert work_on(second)
        assert time.monotonic() - began > 3.5
    assert server.requests == 40
