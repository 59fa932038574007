"""Small pictures, drawn by code, as people bring them."""

import io
import zipfile
from collections.abc import Mapping
from typing import Any

from PIL import Image, PngImagePlugin

MADE_BY = "atlas-2 was here"


def picture(kind: str = "PNG", size: tuple[int, int] = (48, 32), colour: Any = "red") -> bytes:
    """A picture without metadata."""
    target = io.BytesIO()
    Image.new("RGB", size, colour).save(target, kind)
    return target.getvalue()


def telltale_png(size: tuple[int, int] = (48, 32)) -> bytes:
    """A PNG that says in a text which model made it."""
    about = PngImagePlugin.PngInfo()
    about.add_text("Software", MADE_BY)
    target = io.BytesIO()
    Image.new("RGB", size, "green").save(target, "PNG", pnginfo=about)
    return target.getvalue()


def sideways_jpeg() -> bytes:
    """A JPEG held sideways, 60 × 20 as stored, its left half black; with a camera's words in it."""
    drawn = Image.new("RGB", (60, 20), "white")
    drawn.paste("black", (0, 0, 30, 20))
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x0110] = MADE_BY
    target = io.BytesIO()
    drawn.save(target, "JPEG", exif=exif, quality=95, comment=MADE_BY)
    return target.getvalue()


def moving_gif() -> bytes:
    target = io.BytesIO()
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(target, "GIF", save_all=True, append_images=frames[1:])
    return target.getvalue()


def packed(files: Mapping[str, bytes | str]) -> bytes:
    """A ZIP of these files."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target.getvalue()
