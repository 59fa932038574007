"""Puts numbered messages into the default broker's queue, or takes them: its own process.

`python -m tests.fairjudge_site.messages FOLDER put FIRST COUNT`, or `FOLDER take`, which prints the
numbers it took until the file FOLDER/over exists and the queue is empty.
"""

import sys
from pathlib import Path
from queue import Empty

from kombu import Connection
from kombu.transport import TRANSPORT_ALIASES

# Long enough to be written in several pieces.
PADDING = "x" * 100_000


def connection(folder: Path) -> Connection:
    TRANSPORT_ALIASES["filesystem"] = "fairjudge_site.broker:FolderTransport"
    options = {"data_folder_in": str(folder / "messages")}
    options |= {"data_folder_out": str(folder / "messages")}
    options |= {
        "processed_folder": str(folder / "taken"),
        "control_folder": str(folder / "control"),
    }
    return Connection("filesystem://localhost", transport_options=options)


def put(folder: Path, first: int, count: int) -> None:
    with connection(folder) as broker, broker.SimpleQueue("many") as queue:
        for number in range(first, first + count):
            queue.put({"number": number, "padding": PADDING})


def take(folder: Path) -> None:
    with connection(folder) as broker, broker.SimpleQueue("many") as queue:
        while True:
            over = (folder / "over").exists()
            try:
                message = queue.get(block=False)
            except Empty:
                if over:
                    return
                continue
            message.ack()
            print(message.payload["number"], flush=True)  # noqa: T201


if __name__ == "__main__":
    place = Path(sys.argv[1])
    if sys.argv[2] == "put":
        put(place, int(sys.argv[3]), int(sys.argv[4]))
    else:
        take(place)
