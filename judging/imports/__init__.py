"""Reading files of pairs, checking them, and writing them into a project."""
