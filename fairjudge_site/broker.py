"""The queue without a server: kombu's filesystem transport, made safe for many processes."""

import json
import os
import time
import uuid
from pathlib import Path
from queue import Empty

from kombu.transport import filesystem


class FolderChannel(filesystem.Channel):
    """Writes a message under another name and renames it, so that no reader gets half of it.

    A worker claims a message by renaming it into the `taken` folder. Of several workers exactly one
    succeeds.
    """

    def _put(self, queue: str, payload: dict, **kwargs) -> None:
        name = f"{time.time_ns():020}_{uuid.uuid4()}.{queue}.msg"
        write_whole(Path(self.data_folder_out, name), payload)

    def _get(self, queue: str) -> dict:
        # Names begin with the time, so the oldest message comes first.
        for name in sorted(os.listdir(self.data_folder_in)):
            if name.partition(".")[2] != f"{queue}.msg":
                continue
            taken = Path(self.processed_folder, name)
            try:
                os.rename(Path(self.data_folder_in, name), taken)
            except FileNotFoundError:
                continue
            text = taken.read_text()
            # A message only wakes. If this process dies now, a sweep finds the work in the
            # database.
            taken.unlink()
            return json.loads(text)
        raise Empty

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        """Add the binding by replacing the whole table, so that readers see the old or the new."""
        lock = Path(self.control_folder, "lock")
        with open(lock, "w") as held:
            filesystem.lock(held, filesystem.LOCK_EX)
            binding = filesystem.exchange_queue_t(routing_key or "", pattern or "", queue or "")
            table = self.get_table(exchange)
            if binding not in table:
                write_whole(self._exchange_file(exchange), [binding, *table])


class FolderTransport(filesystem.Transport):
    Channel = FolderChannel


def write_whole(path: Path, content: object) -> None:
    unfinished = path.with_name(f"{uuid.uuid4()}.unfinished")
    unfinished.write_text(json.dumps(content))
    os.replace(unfinished, path)
