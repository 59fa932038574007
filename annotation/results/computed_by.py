"""Which state of the code computed a report: a later one may compute a figure in another way."""

from functools import cache
from hashlib import sha256
from pathlib import Path

import annotation.results
import judging.methods


@cache
def code() -> str:
    """A hash over all that figures are computed by, the same wherever it is installed."""
    digest = sha256()
    for package in (judging.methods, annotation.results):
        folder = Path(str(package.__file__)).parent
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder).as_posix()}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
