"""The local judge's own process: `python -m judging.local_judge.server MODEL_FILE PARENT_PID`.

Prints its base URL as one line on standard output once it listens; the model's log is on standard
error. It serves until it is ended, and ends with its parent.
"""

import os
import signal
import sys

from judging.core.processes import end_with_parent
from judging.local_judge.running import MODEL_NAME

# Half a gigabyte of memory; a larger context or a cache of prompts takes more than that again.
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
    # Nothing else of this process may reach the pipe, whose reader is gone by then.
    os.dup2(2, 1)
    signal.pause()


def threads() -> int:
    """Half the cores: threads that wait for one another in a loop crawl where cores are shared.

    Two threads on two busy cores took 1,400 to 1,900 ms a token, one thread 90 to 140.
    """
    return max(1, min(8, (os.cpu_count() or 1) // 2))


if __name__ == "__main__":
    end_with_parent(int(sys.argv[2]), signal.SIGKILL)
    # The terminal sends Ctrl-C to the whole group; whoever started the server stops it in turn.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(sys.argv[1])
