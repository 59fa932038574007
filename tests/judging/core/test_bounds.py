"""Archives, JSON and streams from outside are read within bounds, whatever they claim."""

import asyncio
import io
import zipfile

import pytest

from judging.core.bounds import Archive, ArchiveBounds, TooLarge, shallow_json
from judging.llm.client.transport import gathered

SMALL = ArchiveBounds(members=3, inflated=2**22, free=2**20)


def packed(members, method=zipfile.ZIP_DEFLATED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def test_what_is_within_bounds_is_read(tmp_path):
    file = tmp_path / "a.zip"
    file.write_bytes(packed({"a": b"one", "b": b"x" * 2**19}))
    for source in (file, file.read_bytes()):
        with Archive(source, SMALL) as archive:
            assert archive.names == ["a", "b"]
            assert archive.read("a", 3) == b"one"
            archive.extract("b", tmp_path / str(type(source)) / "b")
    with Archive(file, SMALL) as archive, pytest.raises(TooLarge, match="a is larger"):
        archive.read("a", 2)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (packed({str(n): b"" for n in range(4)}), "more than 3 members"),
        (packed({"a": b" " * (2**20 + 1)}), "inflate to more than 1 MiB"),
        (packed({"a": b" " * 2**19, "b": b" " * 2**20}), "inflate to more than 1 MiB"),
        (packed({"a": b" " * 9}, zipfile.ZIP_BZIP2), "a way that has no bound"),
        (packed({"a": b" " * 9}, zipfile.ZIP_LZMA), "a way that has no bound"),
    ],
)
def test_what_is_not_is_refused_before_it_inflates(content, says):
    with pytest.raises(TooLarge, match=says):
        Archive(content, SMALL)


def test_a_size_that_is_too_small_in_the_head_gives_no_more_than_it_says():
    content = bytearray(packed({"a": b" " * 2**24}))
    size = (2**24).to_bytes(4, "little")
    content = content.replace(size, (99).to_bytes(4, "little"))
    with Archive(bytes(content), SMALL) as archive, pytest.raises(zipfile.BadZipFile):
        archive.read("a")


def test_a_directory_without_an_end_and_a_reading_without_an_end(monkeypatch, tmp_path):
    file = tmp_path / "a.zip"
    file.write_bytes(packed({str(n): b"" for n in range(3)}))
    monkeypatch.setattr("judging.core.bounds.LARGEST_DIRECTORY", 100)
    with pytest.raises(TooLarge, match="too many members"):
        Archive(file, SMALL)
    over = ArchiveBounds(3, 2**20, 2**20, seconds=-1)
    with Archive(packed({"a": b"x"}), over) as archive, pytest.raises(TooLarge, match="too long"):
        archive.read("a")


def test_json_is_as_deep_as_can_be_walked():
    assert shallow_json('{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}
    for text in ("[" * 61 + "]" * 61, '{"a":' * 61 + "1" + "}" * 61, "[" * 10**6 + "]" * 10**6):
        with pytest.raises(TooLarge, match="nested too deeply"):
            shallow_json(text)
    with pytest.raises(ValueError, match="Expecting"):
        shallow_json("[" * 10 + "no")


def test_a_stream_is_stopped_at_its_bound():
    taken = []

    async def parts():
        for _ in range(99):
            taken.append(1)
            yield b"x" * 2**20

    assert asyncio.run(gathered(parts(), 99 * 2**20)) == b"x" * 99 * 2**20
    taken.clear()
    with pytest.raises(TooLarge, match="longer than 2 MiB"):
        asyncio.run(gathered(parts(), 2**21))
    assert len(taken) == 3
