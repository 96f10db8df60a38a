"""Pictures: what a model's `input.preprocess` asks of its client. Needs Pillow (pip install penstock[pictures])."""
from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InvalidError, UnsupportedError

if TYPE_CHECKING:
    from .pool import Model, Signature

_SIDE_MAX = 16384


def is_picture(value: Any) -> bool:
    """A Pillow image. (It cannot be one while Pillow is not loaded.)"""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(value, pillow.Image)


def are_files(value: Any) -> bool:
    """The bytes of a file, or of several."""
    several = value if isinstance(value, (list, tuple)) else [value]
    return len(several) > 0 and all(isinstance(one, (bytes, bytearray, memoryview)) for one in several)


def files(value: Any) -> Any:
    """One element for each file, which the worker decodes."""
    several = value if isinstance(value, (list, tuple)) else [value]
    out = np.empty(len(several), dtype=object)
    for i, one in enumerate(several):
        out[i] = bytes(one)
    return out


def _size(wish: Any, key: str, sig: "Signature", dim: int, most: int) -> int:
    stated = sig.dims[dim] if len(sig.dims) == 4 else 0
    value = wish.get(key, stated if 0 < stated <= most else None)
    if not isinstance(value, (int, float)) or not 1 <= value <= most:
        raise InvalidError(f"the model's preprocess.{key} must be a number from 1 to {most}.")
    return int(value)


def _deep(picture: Any) -> bool:
    """16 bits a pixel. Pillow before 11 opens such a PNG as "I"."""
    return str(picture.mode).startswith("I;16") or (picture.mode == "I" and getattr(picture, "format", None) == "PNG")


def _converted(picture: Any, mode: str) -> Any:
    try:
        return picture.convert(mode)
    except ValueError as error:
        raise UnsupportedError(f"a Pillow image of mode {picture.mode} cannot be sent: {error}. Convert it to RGB.") from None


def _shallow(picture: Any) -> Any:
    """8 bits a channel, as the C client and the worker decode files: of 16 bits the high 8. (Pillow's convert() would make 255 of all that is above it.)"""
    from PIL import Image
    if _deep(picture):
        return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8))
    if picture.mode in ("I", "F"):
        raise UnsupportedError(f"a Pillow image of mode {picture.mode} does not say which of its numbers is white: make one of mode L of it.")
    return picture


def _png(picture: Any) -> bytes:
    out = io.BytesIO()
    if not _deep(picture) and picture.mode not in ("1", "L", "LA", "P", "RGB", "RGBA"):
        picture = _converted(_shallow(picture), "RGBA" if picture.mode in ("PA", "La", "RGBa") else "RGB")
    picture.save(out, "PNG")  # with its Exif, if it has one
    return out.getvalue()


def pixels(model: "Model", sig: "Signature", picture: Any) -> Any:
    """uint8 [1, height, width, channels]; order, inversion, mean and scale are the worker's. Where the worker decodes files, the picture as one."""
    from PIL import Image, ImageOps
    if sig.pictures:
        return files(_png(picture))
    wish = json.loads(model.preprocess) if model.preprocess else None
    if not isinstance(wish, dict) or wish.get("input", model.inputs[0].name) not in (sig.name, ""):
        raise UnsupportedError(f'the model "{model.name}" takes no pictures for its input "{sig.name}": its config.json has no input.preprocess for it. Send an array.')
    channels = _size(wish, "channels", sig, 3, 3)
    size = (_size(wish, "width", sig, 2, _SIDE_MAX), _size(wish, "height", sig, 1, _SIDE_MAX))
    filters = {"bilinear": Image.Resampling.BILINEAR, "nearest": Image.Resampling.NEAREST, "area": Image.Resampling.BOX}
    resize, fit = filters.get(wish.get("resize", "bilinear")), wish.get("fit", "stretch")
    if resize is None or fit not in ("stretch", "crop", "pad") or channels == 2:
        raise UnsupportedError(f"the model's preprocess is {model.preprocess}, which this client does not know.")
    image = ImageOps.exif_transpose(_shallow(picture))
    if image.has_transparency_data if hasattr(image, "has_transparency_data") else image.mode in ("RGBA", "LA", "PA"):
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), _converted(image, "RGBA"))
    image = _converted(image, "L" if channels == 1 else "RGB")
    if fit == "stretch":
        image = image.resize(size, resize)
    elif fit == "crop":
        image = ImageOps.fit(image, size, resize)
    else:
        image = ImageOps.pad(image, size, resize)
    return np.asarray(image, np.uint8).reshape(1, size[1], size[0], channels)
