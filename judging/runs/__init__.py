"""Runs: one judge, one method and one template, asked about every example of a project.

Talking to the endpoint belongs to `judging.llm`; what people say belongs to `annotation`.
"""
