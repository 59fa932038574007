"""Examples and single responses: reading files, checking them, and writing them into a project.

Votes and recorded judgments are read with the same readers, but written in their own rooms.
"""
