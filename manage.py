#!/usr/bin/env python
"""Entry to every command from a checkout: `manage.py help` lists them."""

from fairjudge_site.__main__ import main

if __name__ == "__main__":
    main()
