"""What reviewing examples by rank achieves: curves, certificates, learned routing, panels, cost.

The order of review itself belongs to `verdicts`."""
