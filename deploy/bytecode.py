"""Imports every module once, so that its bytecode is in the image: `python bytecode.py`, in /app.

Bytecode of all packages would take 60 MB more, most of it for modules that nothing imports.
"""

import importlib
import os
import pkgutil
import sys
import tempfile

# Single sign-on is loaded only with its variables, and runs of these begin something.
LEFT_OUT = ("fairjudge_site.oidc", "__main__")


def main() -> None:
    sys.path.insert(0, os.getcwd())
    os.environ["DJANGO_SETTINGS_MODULE"] = "fairjudge_site.settings"
    with tempfile.TemporaryDirectory() as data:
        os.environ["FAIRJUDGE_DATA"] = data
        import django

        django.setup()
        for top in ("judging", "annotation", "fairjudge_site"):
            for module in pkgutil.walk_packages([top], f"{top}."):
                if not module.name.endswith(LEFT_OUT):
                    importlib.import_module(module.name)


if __name__ == "__main__":
    main()
