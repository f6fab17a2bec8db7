"""Sheets and pictures as HTML that loads nothing: every text escaped, colours of the page in light and dark."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree

from jinja2 import Environment, Template
from markupsafe import Markup, escape

from retrokit.core import figures
from retrokit.core.notices import UNSAFE, harmless
from retrokit.core.sheet import Sheet

_NUMBER = re.compile(r"[<≤]?\s*([+-]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[+-]?\d+)?)")
_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_DRAWN = {"svg", "g", "defs", "path", "use", "text", "tspan", "clipPath", "rect", "image", "circle", "line", "polygon"}
_COLOR = re.compile(r"#[0-9a-f]{6}\b")
_INKS = {
    "#000000": "currentColor",
    "#ffffff": "var(--paper)",
    "#b0b0b0": "var(--rule)",
    "#cccccc": "var(--rule)",
    **{color.lower(): f"var(--ink-{number})" for number, color in enumerate(figures.COLORS) if color[0] == "#"},
}
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


def sort_key(text: str) -> float | None:
    """The number that a cell begins with, which is the mean where a deviation follows; ``None``: there is none.

    >>> sort_key("0.7123 ± 0.0100"), sort_key("1,204"), sort_key("–")
    (0.7123, 1204.0, None)
    """
    match = _NUMBER.match(text.strip())
    return float(match[1].replace(",", "")) if match else None


def _finalized(value: Any) -> Any:
    """Every text that the template writes, which is nothing but text."""
    return harmless(value) if type(value) is str else value


@cache
def template() -> Template:
    """The page, and as its macros what stands on it."""
    environment = Environment(autoescape=True, finalize=_finalized)
    environment.globals["sort_key"] = sort_key
    environment.filters["in_lines"] = lambda text: escape(harmless(text, lines=True))
    return environment.from_string((resources.files("retrokit.report") / "page.html").read_text("utf-8"))


def write(macro: str, *values: Any) -> Markup:
    """What one of the template's macros makes of the values: ``sheet``, ``heading``, ``paragraph``…"""
    return Markup(getattr(template().module, macro)(*values))


def to_html(sheet: Sheet) -> Markup:
    """The table, whose columns a reader can sort where no row is the continuation of another, its notes below."""
    return write("sheet", sheet)


# --- pictures

_numbers = count(1)


def number_pictures_anew() -> None:
    """Begin a page: its pictures, and so their ids, are numbered from 1."""
    global _numbers
    _numbers = count(1)


def pictures(
    draw: Callable[..., Any], result: Any, title: str, titles: Mapping[str, str] = MappingProxyType({})
) -> Markup:
    """What ``draw(result, folder)`` draws into a folder, as figures. ``titles`` are what the pictures show, by the name
    of the file or how it begins; ``title`` is that of any other."""
    drawings = []
    with TemporaryDirectory() as folder, figures.for_a_page():
        draw(result, folder)
        for file in sorted(Path(folder).glob("*.svg")):
            own = (text for start, text in titles.items() if file.stem.startswith(start))
            drawings.append(to_figure(file.read_text("utf-8"), next(own, title or file.stem)))
    both = Markup("").join(drawings)
    return Markup('<div class="figures">{}</div>').format(both) if len(drawings) > 1 else both


def to_figure(svg: str, title: str) -> Markup:
    """A picture of matplotlib's as a figure of a page, with ``title`` for those who see it and those who do not. Of it
    only shapes and texts are kept; its ids are the page's own, and its colours follow the page's."""
    number = next(_numbers)
    root = ElementTree.fromstring(UNSAFE.sub("", svg))
    ids = {element.get("id"): f"p{number}-{place}" for place, element in enumerate(root.iter()) if element.get("id")}
    _adapt(root, ids, False)
    width = float(root.get("width", "460.8pt").removesuffix("pt")) * 4 / 3
    root.attrib = {"viewBox": root.get("viewBox", ""), "width": f"{width:.0f}", "role": "img"}
    root.set("aria-labelledby", f"p{number}-title")
    named = ElementTree.Element(f"{_SVG}title", {"id": f"p{number}-title"})
    named.text = harmless(title)
    root.insert(0, named)
    ElementTree.register_namespace("", _SVG.strip("{}"))
    return write("figure", title, Markup(ElementTree.tostring(root, encoding="unicode")))


def _adapt(element: ElementTree.Element, ids: Mapping[str | None, str], fixed: bool) -> None:
    """Leave shapes and texts alone, rename ids, and let colours follow the page; what is drawn on a colour of its own,
    a cell of a heat map, keeps its own."""
    if element.get("id", "").startswith(figures.FIXED):
        element.set("class", figures.FIXED)
        fixed = True
    attributes = {}
    for name, value in element.attrib.items():
        name = "href" if name == _LINK else name
        if name == "id":
            if value.startswith(figures.FIXED):
                continue
            value = ids[value]
        elif name == "href":
            is_picture = value.startswith("data:image/png;base64,")
            value = f"#{ids[value[1:]]}" if value.startswith("#") else value if is_picture else ""
        elif name.startswith(("on", "{")):
            continue
        else:
            value = _REFERENCE.sub(lambda match: f"url(#{ids.get(match[1], '')})", value)
            if not fixed:
                value = _COLOR.sub(lambda match: _INKS.get(match[0], match[0]), value)
        attributes[name] = value
    element.attrib = attributes
    for part in list(element):
        if not isinstance(part.tag, str) or part.tag.removeprefix(_SVG) not in _DRAWN:
            element.remove(part)
        else:
            _adapt(part, ids, fixed)
