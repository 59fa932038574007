"""Whether this process was asked to end, so that long work can stop without loss."""

import threading

stop_requested = threading.Event()
