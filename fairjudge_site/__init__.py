"""The deployed site: settings, addresses, queue, processes, health and backups.

Everything about judges and people belongs to `judging` and `annotation`.
"""
