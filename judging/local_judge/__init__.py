"""A small local LLM on this machine, behind an OpenAI-compatible server on loopback.

Talking to it works as with any other endpoint, by `judging.llm`.
"""

from judging.local_judge.running import local_base_url, local_judge, running_local_judge

__all__ = ["local_base_url", "local_judge", "running_local_judge"]
