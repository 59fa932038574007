import tracemalloc

import pytest

from judging.dataset.files import Source, table
from judging.dataset.records import Refused

HEADER = "id,question,response_1,response_2\n"


@pytest.fixture
def read(tmp_path):
    def read(content, name="pairs.csv", **options):
        path = tmp_path / name
        data = content if isinstance(content, bytes) else content.encode()
        path.write_bytes(data)
        return list(table(Source(path), **options))

    return read


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_record_has_the_line_on_which_it_starts(read, newline):
    text = HEADER + '1,q,"two\nlines",b\n\n2,q,a,b\n3,"x\n\ny",a,b\n\n\n'
    found = read(text.replace("\n", newline))
    assert [record.place.line for record in found] == [2, 5, 6]
    assert found[0].values["response_1"] == f"two{newline}lines"
    assert found[2].raw == f'3,"x{newline}{newline}y",a,b{newline}'


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found_even_where_others_are_more_frequent(read, delimiter):
    text = HEADER.replace(",", delimiter) + delimiter.join(["1", "q", '"a,b;c,d|e\tf"', "b"])
    (record,) = read(text)
    assert record.values["response_1"] == "a,b;c,d|e\tf"


def test_a_header_may_hold_other_delimiters(read):
    (record,) = read("id;question;response_1;response_2;note, if any, of it\n1;q;a;b;c\n")
    assert record.values["response_2"] == "b"


def test_excels_line_that_names_the_delimiter_is_obeyed(read):
    (record,) = read("sep=;\n" + HEADER.replace(",", ";") + "1;q;a;b\n")
    assert (record.values["id"], record.place.line, record.header_line) == ("1", 3, 2)


def test_a_cell_may_be_longer_than_128_kib(read):
    long = "word " * 100_000
    (record,) = read(HEADER + f'1,q,"{long}",b\n')
    assert record.values["response_1"] == long


def test_form_feeds_and_unicode_line_separators_are_part_of_the_text(read):
    header = "id,question,response_1,response_2,a\x0cb\u2028c\n"
    first, second = read(header + "1,q,a\x0b,b\u2028,c\n2,q,a,b,c\n")
    assert (first.place.line, second.place.line) == (2, 3)
    assert first.values["response_2"] == "b\u2028"


def test_rows_of_empty_cells_and_empty_cells_beyond_the_header_are_passed_over(read):
    (record,) = read(HEADER + "1,q,a,b,,\n,,,\n")
    assert list(record.values.values()) == ["1", "q", "a", "b"]


def test_a_row_with_too_few_cells_is_refused_by_line_and_the_next_is_read(read):
    refused, record = read(HEADER + "1,q,a\n2,q,a,b\n")
    (problem,) = refused.problems
    assert problem.place.line == 2
    assert "The row has 3 cells, the header 4 cells." in problem.sentence
    assert refused.raw == "1,q,a\n"
    assert record.values["id"] == "2"


def test_undecodable_bytes_are_refused_by_line_and_column(read):
    refused, record = read(HEADER.encode() + b"1,q,caf\xe9,b\n2,q,caf\xc3\xa9,b\n")
    (problem,) = refused.problems
    assert (problem.place.line, problem.column) == (2, "response_1")
    assert "the bytes E9" in problem.sentence
    assert record.values["response_1"] == "café"


def test_a_nul_is_refused_by_line(read):
    (refused,) = read(HEADER + "1,q,a\0,b\n")
    assert refused.problems[0].column == "response_1"
    assert "a NUL character" in refused.problems[0].sentence


def test_a_quote_that_is_never_closed_ends_the_reading_with_the_line_it_opened_on(read):
    record, refused = read(HEADER + '1,q,a,b\n2,q,"a,b\n3,q,a,b\n')
    assert record.values["id"] == "1"
    assert refused.fatal
    assert refused.problems[0].place.line == 3
    assert "never closed" in refused.problems[0].sentence


def test_text_after_a_closing_quote_is_refused_and_the_next_line_is_read(read):
    refused, record = read(HEADER + '1,q,"a"x,b\n2,q,a,b\n')
    assert isinstance(refused, Refused)
    assert (refused.problems[0].place.line, refused.fatal) == (2, False)
    assert record.values["id"] == "2"


def test_text_after_a_closing_quote_lines_later_ends_the_reading(read):
    (refused,) = read(HEADER + '1,q,"a,b\n2,q,"a",b\n3,q,a,b\n')
    assert refused.fatal
    assert refused.problems[0].place.line == 2


def test_a_header_that_names_a_column_twice_is_refused(read):
    (refused,) = read("id,question,question,response_1,response_2\n1,q,q,a,b\n")
    assert refused.fatal
    assert "question more than once" in refused.problems[0].sentence


@pytest.mark.parametrize(
    "header", [b"\x89PNG\r\n\x1a,b", "Fr\xe5ga,a,b".encode("latin-1"), b"a\0,b"]
)
def test_a_header_that_is_no_text_refuses_the_file(read, header):
    (refused,) = read(header + b"\nq,a,b\n")
    assert refused.fatal
    assert refused.problems[0].sentence.startswith("The header holds ")


def test_the_escape_is_taken_off_only_where_the_column_says_so(read):
    header = "id,question,response_1,response_2,fairjudge_escape\n"
    first, second = read(header + "1,'=q,''-a,'b,1\n2,'=q,''-a,'b,\n")
    assert list(first.values.values())[1:4] == ["=q", "'-a", "'b"]
    assert list(second.values.values())[1:4] == ["'=q", "''-a", "'b"]


def test_a_file_of_blank_lines_has_no_records(read):
    assert read("\n\r\n  \n") == []
    assert read("") == []


def test_an_open_quote_over_many_lines_takes_about_its_own_room(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text('question,response_1\nq,"' + "a\n" * 600_000)
    tracemalloc.start()
    (refused,) = table(Source(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "never closed" in refused.problems[0].sentence
    # The text has 1.2 MB, and the reader itself 4 bytes a letter; line by line it took 42.
    assert peak < 25_000_000


@pytest.mark.parametrize(
    "again",
    [HEADER, "ID,Question,Response 1,Response 2\n", "\ufeffid,question,response_1,response_2\n",
     "question,id,response_1,response_2\n", "idx,prompt,output_a,output_b\n"],
)  # fmt: skip
def test_a_header_within_the_file_is_refused_by_line(read, again):
    first, refused, second = read(HEADER + "1,q,a,b\n" + again + "2,q,a,b\n")
    assert (first.values["id"], second.values["id"]) == ("1", "2")
    assert refused.problems[0].place.line == 3
    assert "header is repeated" in refused.problems[0].sentence


def test_blanks_before_quotes_are_no_part_of_the_cells(read):
    text = (
        'id, "question", response_1, response_2\n1, "Who, me?", "two\nlines", "a ""b"""\n2, q,a,b\n'
    )
    first, second = read(text)
    assert list(first.values.values()) == ["1", "Who, me?", "two\nlines", 'a "b"']
    assert second.values["question"] == "q"


@pytest.mark.parametrize("text", [" a", ' "a"', 'x, "y"', 'a\n "b"', ' "a", "b"', '"a"'])
def test_blanks_that_are_text_stay(read, text):
    cell = '"' + text.replace('"', '""') + '"' if '"' in text else text
    (record,) = read(HEADER + f"1,q,{cell},b\n")
    assert record.values["response_1"] == text


def test_blanks_before_a_quote_far_down_the_file_are_refused_by_line(read):
    rows = "".join(f"{n},question {n},a,b\n" for n in range(6000))
    *records, refused = read(HEADER + rows + 'x,q, "a",b\n')
    assert len(records) == 6000
    assert refused.problems[0].place.line == 6002
    assert "blanks before its opening quote" in refused.problems[0].sentence


@pytest.mark.parametrize("mark", ["1", "1.0", "TRUE", "1,0", " 1 "])
def test_a_table_program_may_have_rewritten_the_mark_of_an_escaped_row(read, mark):
    header = "id,question,response_1,response_2,fairjudge_escape\n"
    escaped, plain = read(header + f"1,q,'=1+1,b,\"{mark}\"\n2,q,'=1,b,0.0\n")
    assert escaped.values["response_1"] == "=1+1"
    assert plain.values["response_1"] == "'=1"


def test_a_mark_of_escape_that_says_nothing_is_refused_by_line(read):
    (refused,) = read("id,question,fairjudge_escape\n1,'=q,perhaps\n")
    assert refused.problems[0].column == "fairjudge_escape"
