"""Projects, their members, logins, permissions and the audit trail.

What a project holds belongs to `dataset`; what happens to it belongs to `runs` and `annotation`.
"""
