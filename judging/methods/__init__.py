"""The science: pure functions on arrays, with frozen results and seeded randomness.

Nothing here uses Django, reads a file or asks a judge. Throughout, N is the number of examples; a
sign is int8: 1 win, 0 tie, -1 lose of response 1; scores and weights are float64; `rng` is the only
source of randomness; and a figure that can't be computed is `Undefined` with its reason."""
