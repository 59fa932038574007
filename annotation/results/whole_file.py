"""A file that is whole or not there: written beside its place, and moved into it at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from judging.errors import UserError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Where to write it meanwhile. Raises UserError where that can't be; then nothing is left."""
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder. Name the file too; nothing was written.")
        partial = path.with_name(f"{path.name}.part")
        try:
            yield partial
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{path} could not be written: {error.strerror}.") from error
