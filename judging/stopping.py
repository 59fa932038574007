"""Whether this process was asked to end, so that long work can stop at a place that loses nothing."""

import threading

stop_requested = threading.Event()
