"""Projects, examples, judges and their runs; the science in `methods`, the judge client in `llm`."""
