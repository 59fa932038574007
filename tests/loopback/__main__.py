"""The loopback server as a process: prints its address, and ends with SIGTERM or Ctrl-C."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from tests.loopback.judges import BiasedJudge
from tests.loopback.latency import fixed, lognormal
from tests.loopback.quirks import Quirks
from tests.loopback.server import LoopbackServer


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.loopback", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds; the median with sigma")
    parser.add_argument("--sigma", type=float, default=0.0, help="log-normal latencies")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--position-bias", type=float, default=1.0)
    parser.add_argument("--noise", type=float, default=0.8)
    parser.add_argument("--rate-429", type=float, default=0.0, help="share of requests")
    parser.add_argument("--rate-500", type=float, default=0.0, help="share of requests")
    parser.add_argument("--capacity", type=int, help="requests served at once, the rest get a 429")
    parser.add_argument("--max-n", type=int)
    parser.add_argument("--ignore-n", action="store_true")
    parser.add_argument("--log", type=Path, help="JSON lines, one a request")
    return parser.parse_args()


def server_for(options: argparse.Namespace) -> LoopbackServer:
    return LoopbackServer(
        judge=BiasedJudge(options.position_bias, options.noise, options.seed),
        latency=(
            lognormal(options.latency, options.sigma, options.seed)
            if options.sigma
            else fixed(options.latency)
        ),
        quirks=Quirks(max_n=options.max_n, ignores_n=options.ignore_n),
        capacity=options.capacity,
        flaky=(options.rate_429, options.rate_500),
        port=options.port,
        log_path=options.log,
        keep_log=False,
    )


async def serve(options: argparse.Namespace) -> None:
    server = server_for(options)
    runner = await server.start()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    sys.stdout.write(f"{server.base_url}\n")
    sys.stdout.flush()
    await stop.wait()
    await runner.cleanup()


asyncio.run(serve(arguments()))
