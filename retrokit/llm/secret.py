"""Whether a text holds a key, as it is or in one of the forms that a service may hand it back in.

Letters and digits alone are compared, so that spaces, hyphens and line breaks hide nothing; and a half of the key, or
of one of its forms, is as bad as all of it.
"""

from __future__ import annotations

import base64
import codecs
import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import unquote

_LEAST = 8
_WORD = 16
_ESCAPE = re.compile(r"(?:%|=|\\x|\\?u00|u\+00|0x)([0-9a-f]{2})", re.IGNORECASE)
_OTHERS = re.compile(r"[^a-z0-9]")


class Secret:
    """A key that no text may hold.

    Attributes:
        guarded: whether texts are searched for its forms. A plain word such as ``EMPTY``, which services that want no
            key are given, may stand in any answer.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.guarded = len(key) >= _LEAST and not (key.isalpha() and len(key) < _WORD)
        self._needles = _needles(_forms(key)) if self.guarded else frozenset()

    def __repr__(self) -> str:
        return "Secret(…)"

    def inside(self, text: str) -> bool:
        """Whether ``text`` holds the key, or half of it, in any form.

        >>> Secret("sk-7f3a91c05e").inside("echo: Basic OnNrLTdmM2E5MWMwNWU=")
        True
        """
        if not self.guarded:
            return False
        views = {_plain(view) for view in _views(text)}
        views |= {view[::-1] for view in views}
        return any(needle in view for view in views for needle in self._needles)


def _plain(text: str) -> str:
    return _OTHERS.sub("", unicodedata.normalize("NFKC", text).lower())


def _views(text: str) -> Iterator[str]:
    """``text``, and what it says if escapes in it are undone, once and twice."""
    yield text
    for _ in range(2):
        undone = html.unescape(unquote(_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)))
        if undone == text:
            return
        yield undone
        text = undone


def _needles(forms: Iterable[str]) -> frozenset[str]:
    """The first and the last half of each form, at least twelve characters of it if it has them."""
    needles = set()
    for form in map(_plain, forms):
        half = max(12, -(-len(form) // 2))
        needles |= {form[:half], form[-half:]}
    return frozenset(needle for needle in needles if len(needle) >= _LEAST)


def _forms(key: str) -> Iterator[str]:
    """The key in the usual encodings, and in one of them after another."""
    for text in (key, key[::-1], codecs.encode(key, "rot13")):
        yield text
        yield from _encoded(text.encode())
    yield from _encoded(key.encode("utf-16-le"))
    for once in (*_WHOLE, lambda raw: raw.hex().encode()):
        yield from _encoded(once(key.encode()))


_WHOLE: tuple[Callable[[bytes], bytes], ...] = (
    base64.b64encode,
    base64.b32encode,
    base64.a85encode,
    base64.b85encode,
)
_PERIODS = (3, 5, 4, 4)


def _encoded(raw: bytes) -> Iterator[str]:
    """``raw`` in each encoding, wherever in a longer text of the same encoding it begins."""
    yield raw.hex()
    yield "".join(map(str, raw))
    yield "".join(f"{byte:08b}" for byte in raw)
    for encode, period in zip(_WHOLE, _PERIODS, strict=True):
        bits = {3: 6, 5: 5}.get(period)
        for before in range(period):
            whole = encode(bytes(before) + raw).decode().rstrip("=")
            # what the neighbours' bits are part of is left out
            yield whole[-(-before * 8 // bits) : (before + len(raw)) * 8 // bits] if bits else whole[5 * (before > 0) :]
