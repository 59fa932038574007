"""A sentence model on this machine, as a function from sentences to vectors.

Nothing is downloaded: the path is a folder that sentence-transformers has written. If it has an
ONNX file, onnxruntime and tokenizers are enough to read it; otherwise sentence-transformers does.

Pages show why a model can't be used. The path on this machine goes to the log only.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from judging.core.errors import UserError
from judging.methods.portia.alignment import Embed

Vectors = NDArray[np.float32]

logger = logging.getLogger(__name__)
BATCH = 32
MAX_TOKENS = 512
_ONNX_FILES = ("model.onnx", "onnx/model.onnx")


def load_sentence_model(path: Path) -> Embed:
    """Load the model at `path`. Raises UserError if there is none or a package is missing."""
    if not path.is_dir():
        raise UserError(
            f"There is no sentence model at {path.name}. Name a folder with model.onnx and "
            "tokenizer.json, or one that sentence-transformers has written."
        )
    for name in _ONNX_FILES:
        if (path / name).is_file():
            return _OnnxModel(path / name, path / "tokenizer.json")
    return _sentence_transformers(path)


class _OnnxModel:
    """The model's own sentence vectors if it gives them, else the mean of the tokens' vectors."""

    def __init__(self, model: Path, tokenizer: Path) -> None:
        runtime = _package("onnxruntime", "embeddings")
        tokenizers = _package("tokenizers", "embeddings")
        if not tokenizer.is_file():
            raise UserError(f"The sentence model at {model.parent.name} has no tokenizer.json.")
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer))
            self._session = runtime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        except Exception as problem:  # Both libraries raise bare classes of their own.
            raise _unreadable(model, problem) from problem
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.enable_padding()
        self._inputs = [entry.name for entry in self._session.get_inputs()]
        outputs = [entry.name for entry in self._session.get_outputs()]
        self._output = "sentence_embedding" if "sentence_embedding" in outputs else outputs[0]

    def __call__(self, sentences: Sequence[str]) -> Vectors:
        batches = range(0, len(sentences), BATCH)
        return np.concatenate([self._batch(sentences[i : i + BATCH]) for i in batches])

    def _batch(self, sentences: Sequence[str]) -> Vectors:
        encoded = self._tokenizer.encode_batch(
            # The tokenizer refuses lone surrogates, which texts from JSON may hold.
            [sentence.encode("utf-8", "replace").decode() for sentence in sentences]
        )
        arrays = {
            "input_ids": np.array([entry.ids for entry in encoded], dtype=np.int64),
            "attention_mask": np.array([entry.attention_mask for entry in encoded], dtype=np.int64),
            "token_type_ids": np.array([entry.type_ids for entry in encoded], dtype=np.int64),
        }
        unknown = set(self._inputs) - arrays.keys()
        if unknown:
            raise UserError(f"The sentence model asks for {', '.join(sorted(unknown))}.")
        inputs = {name: arrays[name] for name in self._inputs}
        output: Vectors = self._session.run([self._output], inputs)[0]
        # The model pools by itself: one vector a sentence.
        if output.ndim == 2:
            return output
        # Padding has vectors too, which must not enter the mean.
        mask = arrays["attention_mask"][:, :, None].astype(np.float32)
        mean: Vectors = (output * mask).sum(axis=1) / np.maximum(mask.sum(axis=1), 1)
        return mean


def _sentence_transformers(path: Path) -> Embed:
    library = _package("sentence_transformers", "")
    try:
        model = library.SentenceTransformer(str(path), device="cpu", local_files_only=True)
    except Exception as problem:  # Its many dependencies raise classes of their own.
        raise _unreadable(path, problem) from problem

    def embed(sentences: Sequence[str]) -> Vectors:
        vectors: Vectors = model.encode(list(sentences), show_progress_bar=False)
        return vectors

    return embed


def _unreadable(model: Path, problem: Exception) -> UserError:
    logger.warning("The sentence model %s cannot be read: %s", model, problem)
    kind = type(problem).__name__
    return UserError(f"The sentence model {model.name} cannot be read ({kind}; see the log).")


def _package(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        wanted = f"'fairjudge[{extra}]'" if extra else name.replace("_", "-")
        raise UserError(
            f"Sentence embeddings from this model need a package that is not installed: "
            f"pip install {wanted}"
        ) from None
