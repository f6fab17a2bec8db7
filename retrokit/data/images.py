"""Image files in place of texts, in corpora, queries and training pairs. Two files of the same bytes are equal."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import damage
from retrokit.data.prompted import Prompted

if TYPE_CHECKING:
    from pathlib import Path

    from PIL.Image import Image as Picture

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
"""Formats that are read: none that runs other programs (EPS) or has many pages."""
_sound: set[bytes] = set()
"""Digests of images that were decoded once."""
_GLANCE = (16, 16)  # pixels; a JPEG is decoded at an eighth of its size if no more are asked for


class Image(str):
    """An image file, printed as its path, with the SHA-256 of its bytes; ``where``: file and line that name it."""

    digest: str
    where: tuple[str, int | None]

    def __new__(cls, path: str, digest: str, where: tuple[str, int | None]) -> Image:
        image = super().__new__(cls, path)
        image.digest, image.where = digest, where
        return image

    def __reduce__(self) -> tuple[Any, ...]:
        return Image, (str(self), self.digest, self.where)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Image) and self.digest == other.digest

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((Image, self.digest))

    def picture(self) -> Picture:
        """The image, upright, in RGB. Raises :class:`DataError` if the file has changed since it was read."""
        from PIL.ImageOps import exif_transpose

        content = _content(str(self), *self.where)
        if hashlib.sha256(content).hexdigest() != self.digest:
            raise DataError(self.where[0], f"the image {str(self)!r} has changed since it was read", self.where[1])
        upright: Picture = exif_transpose(_decoded(content, str(self), self.where)).convert("RGB")
        return upright


def open_image(path: str | Path, source: str | None = None, line: int | None = None) -> Image:
    """The image file ``path``, named on the ``line`` of ``source``, decoded once, a JPEG at a fraction of its size.

    Raises:
        DataError: no such file, no image of :data:`FORMATS`, damaged, or of more pixels than PIL's limit.
    """
    where = (source or str(path), line)
    content = _content(str(path), *where)
    content_hash = hashlib.sha256(content)
    if content_hash.digest() not in _sound:
        _decoded(content, str(path), where, _GLANCE)
        _sound.add(content_hash.digest())
    return Image(str(path), content_hash.hexdigest(), where)


def _content(path: str, source: str, line: int | None) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except (OSError, ValueError) as error:  # the latter: a NUL in the name
        raise DataError(source, f"the image {path!r} {damage(error)}", line) from error


def _decoded(content: bytes, path: str, where: tuple[str, int | None], glance: tuple[int, int] | None = None) -> Any:
    import warnings

    import PIL.Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", PIL.Image.DecompressionBombWarning)
            picture = PIL.Image.open(io.BytesIO(content), formats=FORMATS)
            if glance is not None:
                picture.draft("RGB", glance)
            picture.load()
    except (PIL.Image.DecompressionBombWarning, PIL.Image.DecompressionBombError) as error:
        most = f"more than {PIL.Image.MAX_IMAGE_PIXELS:,} pixels"
        raise DataError(where[0], f"the image {path!r} is refused: it has {most}", where[1]) from error
    except PIL.UnidentifiedImageError as error:
        problem = f"{path!r} is no image; expected {', '.join(FORMATS)}"
        raise DataError(where[0], problem, where[1]) from error
    except Exception as error:  # whatever a decoder raises is about the file
        raise DataError(where[0], f"the image {path!r} is damaged: {error}", where[1]) from error
    return picture


def content_of(item: str) -> bytes:
    """The bytes of an item for a digest: UTF-8 of a text, no UTF-8 of an image."""
    if isinstance(item, Image):
        return b"\xffimage " + item.digest.encode()
    if isinstance(item, Prompted) and item.prefix:
        return b"\xffprompted " + item.encode("utf-8", "surrogatepass")
    return item.encode("utf-8", "surrogatepass")  # a lone half of a surrogate pair is no reason to fail here


def with_images(digest: str, items: Iterable[str]) -> str:
    """``digest``, ``sha256:<hex>``, of files, with the bytes of the images among their ``items``."""
    whole = hashlib.sha256(digest.encode())
    images = [item.digest for item in items if isinstance(item, Image)]
    whole.update("".join(images).encode())
    return f"sha256:{whole.hexdigest()}" if images else digest


def check_texts(items: Sequence[str], what: str) -> None:
    """Raise :class:`UsageError` about ``what``, which takes only texts, if there is an image among ``items``."""
    image = next((item for item in items if isinstance(item, Image)), None)
    if image is not None:
        raise UsageError(f"{what} takes texts, and no images: {str(image)!r} ({':'.join(map(str, image.where))})")
