import pytest

from judging.core.text import Encoding, encode, undecoded, unstorable
from judging.dataset.files import encoding_in, open_text

HEADER = "id,question,response_1,response_2\n1,Größe? 中文,a,b\n"


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
def test_a_file_is_read_in_the_encoding_it_was_written_in(tmp_path, encoding):
    path = tmp_path / "pairs.csv"
    path.write_bytes(HEADER.encode(encoding))
    with open_text(path, newline="") as stream:
        assert stream.read() == HEADER


def test_big_endian_with_a_mark(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_bytes(b"\xfe\xff" + HEADER.encode("utf-16-be"))
    with open_text(path, newline="") as stream:
        assert stream.read() == HEADER


def test_a_utf_8_file_with_nul_bytes_is_not_taken_for_utf_16(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_bytes(b"id,question\n1,a\0b\0c\0d\n")
    assert encoding_in(path) == Encoding("utf-8")


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("utf-8", b"caf\xe9 \xed\xa0\x80 au lait\n"),
        ("utf-16-le", "id,ab".encode("utf-16-le") + b"\x00\xd8" + "z".encode("utf-16-le")),
    ],
)
def test_undecodable_bytes_are_named_and_written_back_as_they_were(tmp_path, encoding, content):
    path = tmp_path / "odd.txt"
    path.write_bytes(content)
    with open_text(path, newline="") as stream:
        text = stream.read()
    assert encoding_in(path) == Encoding(encoding)
    assert "which are not" in undecoded(text, encoding_in(path))
    assert encode(text, encoding_in(path)) == content


def test_the_bytes_are_shown_in_hexadecimal(tmp_path):
    path = tmp_path / "odd.txt"
    path.write_bytes(b"caf\xe9")
    with open_text(path, newline="") as stream:
        assert (
            undecoded(stream.read(), Encoding("utf-8")) == "the bytes E9, which are not UTF-8 text"
        )


def test_text_is_storable_and_a_lone_surrogate_is_not():
    assert unstorable("plain, Ünïcode, 中文, 🙂") is None
    assert unstorable("a\ud83d") == "the lone surrogate \\ud83d"
    assert unstorable("a\0") == "a NUL character"
