"""From samples to a verdict: calibrated scores, label, BPDE, and position effects.

How right a verdict is belongs to `agreement`."""
