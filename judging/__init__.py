"""Projects, examples, judges and runs; the science in `methods`, the client in `llm`."""
