"""How long annotators wait while strangers hold connections open and send or read very slowly.

    python -m benchmarks.slow_clients [--seconds 20] [--server 'COMMAND … {bind}']

Ten people vote every two seconds in the mean. Meanwhile, without a login: 100 connections send a
byte of a header each second; 200 send nothing; 100 send a byte of a body each second; 100 ask for
the largest static file over and over and read a hundred bytes a second. Whoever is cut off comes
again. Aim: p95 of at most 200 ms without an error. `--server` measures another server.
"""

import argparse
import asyncio
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.annotating.site import environment_of, site
from benchmarks.workspace import ROOT, child

PEOPLE, PACE, MOST_MS = 10, 2.0, 200
LARGE = "/static/js/vega.js"
# What a client sends at once, what it then sends byte by byte, how many there are.
KINDS: dict[str, tuple[bytes, bytes, int]] = {
    "nobody": (b"", b"", 0),
    "silent": (b"", b"", 200),
    "headers": (b"GET /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", b"a", 100),
    "bodies": (
        b"POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 90000\r\n"
        b"Cookie: csrftoken=cccccccccccccccccccccccccccccccc\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\n\r\n",
        b"a",
        100,
    ),
    "readers": (f"GET {LARGE} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() * 20, b"", 100),
}


async def slow_client(port: int, kind: str) -> None:
    """Hold one connection after another."""
    at_once, bit_by_bit, _ = KINDS[kind]
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.write(at_once)
            while not reader.at_eof() and not writer.is_closing():
                await asyncio.sleep(1)
                writer.write(bit_by_bit)
                if kind == "readers":
                    await reader.read(100)
                elif reader._buffer:  # type: ignore[attr-defined]
                    # It was answered: a trickle is of no more use here.
                    break
            writer.close()
        except OSError:
            await asyncio.sleep(1)


async def attack(port: int, kind: str, seconds: float) -> None:
    clients = [asyncio.create_task(slow_client(port, kind)) for _ in range(KINDS[kind][2])]
    await asyncio.sleep(seconds)
    for client in clients:
        client.cancel()


def measure(port: int, kind: str, built: dict[str, object], seconds: int) -> bool:
    """Print how long people wait during this attack. Return whether it is within the limit."""
    words = ["benchmarks.slow_clients", "--attack", kind, "--port", str(port)]
    words += ["--seconds", str(seconds + 60)]
    attackers = subprocess.Popen([sys.executable, "-m", *words], cwd=ROOT)
    try:
        found = child(
            environment_of("", ""), "benchmarks.annotating.annotators", port, seconds, PACE,
            given=json.dumps(built),
        )  # fmt: skip
    finally:
        attackers.terminate()
        attackers.wait()
    waited = [one for each in found["seconds"].values() for one in each]
    p50, p95 = np.percentile(np.array(waited) * 1000, [50, 95]) if waited else (np.inf, np.inf)
    fits = bool(p95 <= MOST_MS and not found["errors"])
    sys.stdout.write(
        f"{KINDS[kind][2]:4} {kind:8} {p50:7.0f} / {p95:7.0f} ms (p50 / p95; limit {MOST_MS}), "
        f"{len(waited)} answers, {len(found['errors'])} errors{'' if fits else '  TOO MUCH'}\n"
    )
    sys.stdout.flush()
    return fits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=20, help="of each kind of client")
    parser.add_argument("--server", help="another server's command, with {bind} in it")
    parser.add_argument("--attack", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args()
    if options.attack:
        asyncio.run(attack(options.port, options.attack, options.seconds))
        return
    fits = True
    with tempfile.TemporaryDirectory() as folder:
        environment = environment_of(folder, "")
        built = child(environment, "benchmarks.workspace", "--build", 500, 100)
        built["people"] = built["people"][:PEOPLE]
        for kind in options.kinds:
            # A server of its own, so that no attack meets what another one left behind.
            log = Path(folder) / f"{kind}.txt"
            command = shlex.split(options.server) if options.server else None
            with site(environment, ROOT, log, command) as (port, _):
                fits &= measure(port, kind, built, options.seconds)
    sys.exit(0 if fits else "Slow clients make annotators wait longer than they may.")


if __name__ == "__main__":
    main()
