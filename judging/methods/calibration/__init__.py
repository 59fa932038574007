"""Calibration of judges that give probabilities: CalibraEval and its baselines.

Reading probabilities from a reply belongs to `judging.llm.parsing`."""
