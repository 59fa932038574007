import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.dataset import files
from judging.dataset.records import Refused


@pytest.fixture
def lines(tmp_path):
    def read(content):
        path = tmp_path / "pairs.jsonl"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(files.lines(files.Source(path)))

    return read


@pytest.fixture
def array(tmp_path):
    def read(content):
        path = tmp_path / "pairs.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(files.array(files.Source(path)))

    return read


def test_numbers_keep_the_text_they_have_in_the_file(lines):
    (record,) = lines('{"a": 123456789012345678901234567890, "b": 1.10, "c": 1e400, "d": -0}\n')
    assert list(record.values.values()) == ["123456789012345678901234567890", "1.10", "1e400", "-0"]


def test_a_line_without_end_is_refused_as_soon_as_it_is_too_long(lines, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_RECORD", 100)
    just_fits = '{"a": "' + "x" * 90 + '"}'
    first, second = lines(f'{just_fits}\n{{"a": "{"x" * 91}"}}\n{just_fits}\n')
    assert first.values == {"a": "x" * 90}
    assert second.fatal
    assert "line 2: Expected one JSON object, found one longer than" in str(second.problems[0])


def test_a_number_of_ten_thousand_digits_is_read(lines):
    (record,) = lines('{"a": ' + "9" * 10_000 + "}")
    assert record.values["a"] == "9" * 10_000


def test_not_a_number_is_a_missing_value(lines):
    (record,) = lines('{"a": NaN, "b": Infinity}')
    assert record.values == {"a": None, "b": "Infinity"}


def test_blank_lines_are_passed_over_and_the_last_needs_no_newline(lines):
    assert [record.place.line for record in lines('\n{"a": "1"}\r\n\n{"a": "2"}')] == [2, 4]


def test_line_separators_of_unicode_do_not_end_a_line(lines):
    first, second = lines('{"a": "x\u2028\x85y"}\n{"a": "z"}\n')
    assert first.values["a"] == "x\u2028\x85y"
    assert second.place.line == 2


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'{"a": 1', "no ',' delimiter at character "),
        (b'{"a": "b', "a control character within a string"),
        (b'{"a": "\\x"}', "a backslash that escapes nothing"),
        (b'{"a": 1} 2', "more text after it"),
        (b"[1, 2]", "an array"),
        (b'"text"', "a text or number"),
        (b'{"a": "caf\xe9"}', "the bytes E9"),
        (b'{"a": "x\0"}', "a NUL character"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_line_that_is_no_object_is_refused_and_the_next_is_read(lines, line, found):
    refused, record = lines(line + b'\n{"a": "next"}\n')
    assert isinstance(refused, Refused)
    assert refused.problems[0].place.line == 1
    assert found in refused.problems[0].sentence
    assert not refused.fatal
    assert record.values["a"] == "next"


def test_an_object_of_an_array_has_the_line_on_which_it_starts(array):
    found = array('\n[\n {"a": "1"},\n\n {"a":\n  "2"}, {"a": "3"}\n]\n')
    assert [record.place.line for record in found] == [3, 5, 6]
    assert found[1].raw == '{"a":\n  "2"}'


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ('{"a": 1}', 1, "no ["),
        ('[{"a": "1"},\n{"a": "2"', 2, "no ',' delimiter"),
        ('[{"a": "1"},\n{"a": "2', 2, "a string without its closing quote"),
        ('[{"a": "1"}\n{"a": "2"}]', 2, "'{'"),
        ('[{"a": "1"},\n]', 2, "no value at ']'"),
        ('[{"a": "1"}\n', 2, "the end"),
        ('[{"a": "1"},\n', 2, "the end"),
        ('[{"a": "1"}]\n]', 2, "text after the closing ]"),
        ('[{"a": tru}]', 1, "no value"),
        ("[" + "[" * 100_000, 1, "nested too deeply"),
    ],
)
def test_a_broken_array_ends_the_reading_and_names_the_line(array, text, line, found):
    refused = array(text)[-1]
    assert isinstance(refused, Refused)
    assert refused.fatal
    assert refused.problems[0].place.line == line
    assert found in refused.problems[0].sentence


@pytest.mark.parametrize("size", [1, 5, 64])
def test_values_of_an_array_that_are_no_objects_are_refused_one_by_one(array, monkeypatch, size):
    monkeypatch.setattr(files, "CHUNK", size)
    found = array('[1, {"a": "b"}, null, "x", 1234567]')
    assert [isinstance(record, Refused) for record in found] == [True, False, True, True, True]


@given(
    st.lists(st.dictionaries(st.text(), st.text(st.characters(codec="utf-8")), max_size=3)),
    st.sampled_from([1, 2, 3, 7, 64]),
    st.sampled_from([None, 1]),
)
def test_an_array_reads_the_same_however_it_is_cut_into_chunks(tmp_path_factory, rows, size, gap):
    path = tmp_path_factory.mktemp("chunks") / "rows.json"
    path.write_text(json.dumps(rows, indent=gap), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "CHUNK", size)
        assert [record.values for record in files.array(files.Source(path))] == rows


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '{"b": {"a": 1, "a": 1}}', '{"b": [[{"c": 1}, {"a": 1, "a": 2}]]}']
)
def test_a_key_twice_in_an_object_is_refused_by_line(lines, array, text):
    for found in (
        lines('{"a": 1}\n' + text + '\n{"a": 3}\n'),
        array(f'[{{"a": 1}},\n{text},\n{{"a": 3}}]'),
    ):
        first, refused, last = found
        assert (first.values["a"], last.values["a"]) == ("1", "3")
        assert refused.problems[0].place.line == 2
        assert "'a' is there more than once" in refused.problems[0].sentence
