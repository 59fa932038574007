import numpy as np

from annotation.results.merge.final_labels import places_of, spread

IDS = np.array([7, 3, 9])


def test_places_are_found_in_any_order():
    assert places_of(IDS, [9, 3, 4, 100, 7]).tolist() == [2, 1, -1, -1, 0]
    assert places_of(IDS, []).tolist() == []
    assert places_of(IDS[:0], [3]).tolist() == [-1]


def test_values_stand_at_their_examples():
    found = spread(IDS, [9, 4, 7], [0.25, 0.5, 1.0])
    np.testing.assert_array_equal(found, [1.0, np.nan, 0.25])
