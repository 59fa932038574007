"""A real small LLM on this machine, behind an OpenAI-compatible server on loopback."""

from judging.local_judge.running import local_base_url, running_local_judge

__all__ = ["local_base_url", "running_local_judge"]
