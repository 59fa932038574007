"""Images in texts: how a text names one, and what of a picture's file is kept.

In a text, an image is Markdown: `![description](sha256:…)`. The hash is that of the file that is
kept: a PNG or JPEG file made again from the pixels, upright, without EXIF and other metadata. So
neither its name nor its file says which model or camera it came from.
"""

import hashlib
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from judging.core.bounds import MEBIBYTE
from judging.core.errors import UserError

SCHEME = "sha256:"
MOST_PIXELS = 25_000_000
# How many times as large as an uploaded file a kept one may be: WebP becomes PNG.
MOST_GROWN = 4
# What estimates count for an image, since only the endpoint knows. Anthropic's models count at most
# about this many, and OpenAI's rule of tiles gives at most 1,445 for a model such as GPT-4o.
TOKENS = 1_600
_LONGEST_ALT = 1_000
# Markers in a JPEG file: where the picture begins and ends, and which segments describe it.
_SCAN, _END, _SAYINGS, _JFIF_BYTES = 0xDA, b"\xff\xd9", (*range(0xE0, 0xF0), 0xFE), 16
_CODE = (
    r"^[ ]{0,3}(?P<fence>`{3,}|~{3,})[^\n]*$(?s:.*?)(?:^[ ]{0,3}(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?<!`)(?P<ticks>`+)(?!`)[^`\n]{1,1000}(?<!`)(?P=ticks)(?!`)"
)
_NAMED = (
    rf"!\[(?P<alt>(?:[^\[\]\\]|\\.){{0,{_LONGEST_ALT}}})\]"
    r"\([ \t]*(?:<(?P<angled>[^<>\n]*)>|(?P<bare>[^\s()<>]+(?:\([^\s()<>]*\)[^\s()<>]*)*))"
    r"(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'))?[ \t]*\)"
)
_ANY = re.compile(f"{_CODE}|{_NAMED}", re.MULTILINE)
_STORED = re.compile(r"!\[([^\[\]\\\n]*)\]\(sha256:([0-9a-f]{64})\)")


# At the end of an excerpt, the address of an image may be cut off.
_SHOWN = re.compile(
    r"!\[([^\[\]\\\n]*)\]\((?:sha256:[0-9a-f]{64}\)|(?:s|sh|sha|sha2|sha25|sha256:?[0-9a-f]*)?…?\Z)"
)


class NoImage(ValueError):
    """Why a file can't be used as an image, as the end of a sentence that begins with its name."""


@dataclass(frozen=True, slots=True)
class Placed:
    """An image within a text."""

    alt: str
    sha256: str


def marked(alt: str, target: str) -> str:
    """Return the Markdown of an image. Its description has no brackets, so that it is read once."""
    plain = re.sub(r"\\(.)", r"\1", alt, flags=re.DOTALL).replace("\\", "")
    plain = " ".join(plain.replace("[", "(").replace("]", ")").split())[:_LONGEST_ALT]
    bare = re.fullmatch(r"[^\s()<>]+", target)
    return f"![{plain}]({target})" if bare else f"![{plain}](<{target}>)"


def replaced(text: str, resolve: Callable[[str], str]) -> str:
    """Return a text whose images have other targets. Code stays as it is.

    Args:
        resolve: gives the hash for the target of an image, "" to leave it as it is.
    """

    def put(match: re.Match[str]) -> str:
        target = match["angled"] if match["bare"] is None else match["bare"]
        sha256 = resolve(target) if target else ""
        return marked(match["alt"], SCHEME + sha256) if sha256 else match[0]

    return _ANY.sub(put, text) if "![" in text else text


def pieces(text: str) -> Iterator[str | Placed]:
    """Yield a text in pieces: between two images, what is written there, if anything."""
    at = 0
    for match in _STORED.finditer(text) if SCHEME in text else ():
        if match.start() > at:
            yield text[at : match.start()]
        yield Placed(match[1], match[2])
        at = match.end()
    if at < len(text):
        yield text[at:]


def hashes_in(*texts: str) -> set[str]:
    """Return the hashes of all images in some texts."""
    return {match[2] for text in texts if SCHEME in text for match in _STORED.finditer(text)}


def in_words(text: str) -> str:
    """Return a text or its beginning with each stored image as `[image: its description]`."""
    return _SHOWN.sub(lambda match: f"[image: {match[1]}]" if match[1].strip() else "[image]", text)


def without_images(text: str) -> tuple[str, int]:
    """Return a text without its images, and how many these are."""
    return _STORED.subn("", text) if SCHEME in text else (text, 0)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """An image as it is kept."""

    sha256: str
    content_type: str
    width: int
    height: int
    content: bytes


def suffix_of(content_type: str) -> str:
    return ".jpg" if content_type == "image/jpeg" else ".png"


def cleaned(content: bytes, largest: int) -> Cleaned:
    """Return an image upright and without metadata. A JPEG file stays one, all others become PNG.

    What is cleaned stays the same if it is cleaned again.

    Raises:
        NoImage: it is no such image, too large, moving, or a bomb.
        UserError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        raise UserError(
            "Images need the package Pillow, which is not installed. Nothing was imported. "
            "Install it with: pip install 'fairjudge[images]'"
        ) from None
    if len(content) > largest:
        raise NoImage(
            f"is larger than {largest / MEBIBYTE:g} MiB, the most that FAIRJUDGE_MAX_IMAGE_MB "
            "allows. Make it smaller"
        )
    head = content[:1000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head.startswith((b"<svg", b"<?xml", b"<!doctype svg")):
        raise NoImage("is an SVG, which can hold programs. Convert it to PNG")
    try:
        with Image.open(io.BytesIO(content), formats=("PNG", "JPEG", "WEBP", "GIF")) as opened:
            kind = "PNG" if opened.format in ("PNG", "WEBP", "GIF") else "JPEG"
            if opened.width * opened.height > MOST_PIXELS:
                raise NoImage(_too_many_pixels(f"{opened.width} × {opened.height}"))
            if kind == "PNG" and getattr(opened, "n_frames", 1) > 1:
                raise NoImage(
                    "moves, and a judge would see only its first picture. Use a still image"
                )
            upright = _pixels(opened)
            bare = kind == "JPEG" and upright.mode == opened.mode and _is_bare(content)
        target = io.BytesIO()
        options: dict[str, Any] = {"quality": 95, "subsampling": 0} if kind == "JPEG" else {}
        upright.save(target, kind, **options)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise NoImage(_too_many_pixels("more")) from None
    except NoImage:
        raise
    except Exception:
        # Pillow's readers raise whatever they come upon in a damaged file.
        raise NoImage("is no PNG, JPEG, WebP or GIF image, or it is damaged") from None
    made = content if bare else target.getvalue()
    if len(made) > MOST_GROWN * largest:
        raise NoImage("becomes far larger as PNG. Make it smaller, or convert it to JPEG")
    sha256 = hashlib.sha256(made).hexdigest()
    return Cleaned(sha256, f"image/{kind.lower()}", upright.width, upright.height, made)


def _is_bare(content: bytes) -> bool:
    """Return True for a JPEG file of nothing but a picture. Making it again would only blur it."""
    at = 2
    while content[at : at + 1] == b"\xff" and at + 4 <= len(content):
        kind, size = content[at + 1], int.from_bytes(content[at + 2 : at + 4])
        if kind == _SCAN:
            return content.find(_END, at) == len(content) - len(_END)
        # The first of these says how many dots an inch has, and may hold a small picture.
        if kind in _SAYINGS and (kind != _SAYINGS[0] or size != _JFIF_BYTES):
            return False
        at += 2 + size
    return False


def _too_many_pixels(size: str) -> str:
    return f"has {size} pixels. An image may have {MOST_PIXELS:,}. Make it smaller"


def _pixels(opened: Any) -> Any:
    """Return the pixels alone, turned as the camera was held, in the colours of screens."""
    from PIL import ImageCms, ImageOps

    profile = opened.info.get("icc_profile")
    image = ImageOps.exif_transpose(opened)
    if profile and image.mode == "RGB":
        try:
            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            image = ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"))
        except (ImageCms.PyCMSError, OSError):
            # A profile that can't be read is left out, as browsers do.
            pass
    if image.mode.startswith("I;16"):
        # Pillow would clip 16-bit grey to 255 instead of scaling it.
        image = image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if image.has_transparency_data:
        image = image.convert("RGBA")
    elif image.mode not in ("L", "RGB"):
        image = image.convert("RGB")
    image.info = {}
    return image
