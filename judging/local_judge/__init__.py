"""A small local LLM on this machine, behind an OpenAI-compatible server on loopback.

It is fetched, started and stopped here. `judging.llm` talks to it as to any other endpoint.
"""

from judging.local_judge.running import local_base_url, local_judge, running_local_judge

__all__ = ["local_base_url", "local_judge", "running_local_judge"]
