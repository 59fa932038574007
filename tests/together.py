"""Several threads that do something in the same moment."""

import threading
from collections.abc import Callable

from django.db import connection

AT_ONCE = 5


def at_once(action: Callable[[int], object], times: int = AT_ONCE) -> list[object]:
    """What each of the simultaneous calls returned or raised."""
    together, outcomes = threading.Barrier(times), []

    def call(number):
        try:
            together.wait()
            outcomes.append(action(number))
        except Exception as error:
            outcomes.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=call, args=[number]) for number in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes
