"""The local judge's own process: `python -m judging.local_judge.server MODEL_FILE PARENT_PID`.

Once it listens, it prints its base URL as one line on standard output. The model's log goes to
standard error. It serves until it is stopped, and ends with its parent.
"""

import os
import signal
import sys

from judging.core.processes import end_with_parent
from judging.local_judge.running import MODEL_NAME

# This takes half a gigabyte of memory. A larger context or a cache of prompts more than doubles it.
CONTEXT_TOKENS = 16_384
PARALLEL = 4


def serve(model_file: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model_file
    params.model_alias = {MODEL_NAME}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = PARALLEL
    params.cache_ram_mib = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads()
    params.ui = False
    params.verbosity = 1
    server = xllamacpp.Server(params)
    print(f"{server.listening_address}/v1", flush=True)  # noqa: T201
    # Nothing more may be written to the pipe: the parent reads one line and closes it.
    os.dup2(2, 1)
    signal.pause()


def threads() -> int:
    """Use half the cores: on busy cores, threads that wait for each other in a loop crawl.

    On two busy cores, two threads took 1,400 to 1,900 ms per token, and one thread 90 to 140 ms.
    """
    return max(1, min(8, (os.cpu_count() or 1) // 2))


if __name__ == "__main__":
    end_with_parent(int(sys.argv[2]), signal.SIGKILL)
    # A terminal sends Ctrl-C to the whole group. The process that started the server stops it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(sys.argv[1])
