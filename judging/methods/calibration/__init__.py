"""Calibrating a judge that gives probabilities: one interface, each method in a module of its own.

method = method_named("calibraeval")
calibration = method.fit(probabilities)      # Undefined where it can't be fitted
calibrated = calibration.apply(probabilities)
"""
