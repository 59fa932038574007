import importlib.util
import struct

import numpy as np
import pytest

from judging.core.errors import UserError
from judging.llm.sentence_models import load_sentence_model
from judging.methods.portia.alignment import EmbeddingSimilarity, semantically_aligned

HAS_ONNX = all(map(importlib.util.find_spec, ("onnxruntime", "tokenizers")))
needs_onnx = pytest.mark.skipif(not HAS_ONNX, reason="missing: fairjudge[embeddings]")

WORDS = ["[UNK]", "cat", "feline", "car", "."]
VECTORS = np.array([[0, 0], [1, 0], [0.9, 0.1], [0, 1], [0, 0]], dtype=np.float32)
INT64, FLOAT = 7, 1


def field(number, payload):
    """One protobuf field: a whole number, or bytes with their length."""
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def value_info(name, kind, *axes):
    shape = b"".join(field(1, field(2, axis.encode())) for axis in axes)
    tensor = field(1, kind) + field(2, shape)
    return field(1, name.encode()) + field(2, field(1, tensor))


def onnx_lookup():
    """An ONNX file of one node, as onnx.proto has it: the vector of each token."""
    node = field(1, b"vectors") + field(1, b"input_ids") + field(2, b"hidden") + field(4, b"Gather")
    table = (
        b"".join(field(1, size) for size in VECTORS.shape)
        + field(2, FLOAT)
        + field(8, b"vectors")
        + field(9, struct.pack(f"<{VECTORS.size}f", *VECTORS.ravel()))
    )
    graph = (
        field(1, node)
        + field(2, b"lookup")
        + field(5, table)
        + field(11, value_info("input_ids", INT64, "batch", "tokens"))
        + field(11, value_info("attention_mask", INT64, "batch", "tokens"))
        + field(12, value_info("hidden", FLOAT, "batch", "tokens", "size"))
    )
    return field(1, 8) + field(8, field(2, 13)) + field(7, graph)


@pytest.fixture
def model(tmp_path):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "model.onnx").write_bytes(onnx_lookup())
    return tmp_path


@needs_onnx
def test_an_onnx_model_gives_the_mean_of_its_tokens_without_the_padding(model):
    embed = load_sentence_model(model)
    vectors = embed(["cat", "cat car", "feline"] + ["car"] * 40)
    assert vectors[:3] == pytest.approx(np.array([[1, 0], [0.5, 0.5], [0.9, 0.1]]))
    assert vectors.shape == (43, 2)


@needs_onnx
def test_responses_are_aligned_by_the_model(model):
    similarity = EmbeddingSimilarity(load_sentence_model(model))
    found = semantically_aligned(
        "cat. car. car.", [5, 10], "feline. feline. car.", [8, 16], 2, similarity
    )
    assert (found.cuts_1, found.cuts_2) == ((5,), (16,))


@needs_onnx
def test_a_folder_without_a_tokenizer_is_named(model):
    (model / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"has no tokenizer\.json"):
        load_sentence_model(model)


@needs_onnx
def test_a_broken_model_is_refused_in_a_sentence(model):
    (model / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(UserError, match="cannot be read") as refused:
        load_sentence_model(model)
    assert str(model.parent) not in str(refused.value)


@pytest.mark.skipif(HAS_ONNX, reason="fairjudge[embeddings] is installed")
def test_a_missing_package_is_named_with_the_extra_that_brings_it(tmp_path):
    (tmp_path / "model.onnx").write_bytes(onnx_lookup())
    with pytest.raises(UserError, match=r"pip install 'fairjudge\[embeddings\]'"):
        load_sentence_model(tmp_path)


@pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is not None,
    reason="sentence-transformers is installed",
)
def test_any_other_folder_needs_sentence_transformers(tmp_path):
    with pytest.raises(UserError, match="pip install sentence-transformers"):
        load_sentence_model(tmp_path)


def test_a_path_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match="no sentence model at nowhere") as refused:
        load_sentence_model(tmp_path / "nowhere")
    assert str(tmp_path) not in str(refused.value)
