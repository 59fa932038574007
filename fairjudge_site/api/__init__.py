"""The REST interface under /api/v1: one module a resource, each a thin way to the domain.

Rules belong to the rooms below, and pages and commands call the same functions. Here is only what
HTTP needs: tokens, problems as JSON, idempotency keys, cursors, and the schema.
"""
