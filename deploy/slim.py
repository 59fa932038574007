"""Makes an installed environment small: `python slim.py VENV LOCALE EXTRAS`, in the Dockerfile.

What only some sites need goes to the folder EXTRAS: the local judge, PDF files, pictures of plots,
grammars of programming languages, object storages, and traces.
Tests of packages are removed, and so are translations into languages that LOCALE doesn't have.
"""

import shutil
import sys
from pathlib import Path

# The packages of the extras `grammars`, `local`, `otel`, `pdf`, `pictures` and `s3`.
OF_EXTRAS = (
    "boto3", "botocore", "django_storages", "google", "jmespath", "opentelemetry", "protobuf",
    "s3transfer", "storages", "tree_sitter", "typst", "vl_convert", "xllamacpp",
)  # fmt: skip
# A folder `tests` may hold a module that the package itself imports, as one of numpy does.
UNUSED = ("tests/**/test_*.py", "tests/data/**/*", "*.po", "*.pyi", "*.a", "ninja/static/**/*")


def main(venv: Path, locale: Path, extras: Path) -> None:
    (packages,) = venv.glob("lib/python3.*/site-packages")
    # English is what the packages say by themselves. Its folder holds the forms of dates.
    kept = {"en", *(folder.name for folder in locale.iterdir())}
    for catalog in packages.rglob("locale/*/LC_MESSAGES/*.mo"):
        if catalog.parts[-3] not in kept:
            catalog.unlink()
    for found in {path for name in UNUSED for path in packages.rglob(name) if path.is_file()}:
        found.unlink()
    extras.mkdir()
    for name in OF_EXTRAS:
        for found in packages.glob(f"{name}*"):
            shutil.move(found, extras)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
