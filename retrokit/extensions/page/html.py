"""Sheets and pictures as HTML that loads nothing: every text escaped, colours of the page in light and dark."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree
from zlib import crc32

from jinja2 import Environment, Template
from markupsafe import Markup
from matplotlib import rc_context

from retrokit.core import figures
from retrokit.core.notices import UNSAFE, harmless
from retrokit.core.sheet import Sheet

_NUMBER = re.compile(r"[<≤]?\s*([+-]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[+-]?\d+)?)")
_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_COLOR = re.compile(r"#[0-9a-f]{6}\b")
_INKS = {
    "#000000": "currentColor",
    "#ffffff": "var(--paper)",
    "#b0b0b0": "var(--rule)",
    "#cccccc": "var(--rule)",
    **{color.lower(): f"var(--ink-{number})" for number, color in enumerate(figures.COLORS) if color[0] == "#"},
}


def sort_key(text: str) -> float | None:
    """The number that a cell begins with, the mean if an SD follows; ``None``: there is none.

    >>> sort_key("0.7123 ± 0.0100"), sort_key("1,204"), sort_key("–")
    (0.7123, 1204.0, None)
    """
    match = _NUMBER.match(text.strip())
    return float(match[1].replace(",", "")) if match else None


@cache
def template() -> Template:
    """The page, with its parts as macros."""
    environment = Environment(autoescape=True, finalize=lambda value: harmless(value) if type(value) is str else value)
    environment.globals["sort_key"] = sort_key
    return environment.from_string((resources.files("retrokit.extensions.page") / "page.html").read_text("utf-8"))


def write(macro: str, *values: Any) -> Markup:
    """What one of the template's macros makes of the values: ``sheet``, ``heading``, ``paragraph``…"""
    return Markup(getattr(template().module, macro)(*values))


def to_html(sheet: Sheet) -> Markup:
    """The table, whose columns a reader can sort where no row is the continuation of another, its notes below."""
    return write("sheet", sheet)


def pictures(
    draw: Callable[..., Any], result: Any, title: str, titles: Mapping[str, str] = MappingProxyType({})
) -> Markup:
    """What ``draw(result, folder)`` draws into a folder, as figures. ``titles`` are what the pictures show, by the name
    of the file or how it begins; ``title`` is that of any other."""
    drawings = []
    with TemporaryDirectory() as folder, _for_a_page():
        draw(result, folder)
        for file in sorted(Path(folder).glob("*.svg")):
            starts = [start for start in titles if file.stem.startswith(start)]
            picture_title = titles[starts[0]] if starts else title or file.stem
            drawings.append(to_figure(file.read_text("utf-8"), picture_title))
    joined = Markup("").join(drawings)
    return Markup('<div class="figures">{}</div>').format(joined) if len(drawings) > 1 else joined


@contextmanager
def _for_a_page() -> Iterator[None]:
    """Within the block, figures are saved as SVG only, and their texts stay texts."""
    before = figures.ENDINGS.set((".svg",))
    try:
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "retrokit"}):
            yield
    finally:
        figures.ENDINGS.reset(before)


def to_figure(svg: str, title: str) -> Markup:
    """A picture of matplotlib's as a figure of a page. Its colours follow the page's, but for what is drawn on a colour
    of its own."""
    svg = re.sub("<metadata>.*?</metadata>", "", UNSAFE.sub("", svg), flags=re.DOTALL)
    prefix = f"p{crc32((title + svg).encode()):08x}-"
    root = ElementTree.fromstring(svg)
    groups = [group for group in root.iter() if group.get("id", "").startswith(figures.FIXED)]
    fixed: set[ElementTree.Element] = set()
    for group in groups:
        fixed.update(group.iter())
    for element in list(root.iter()):
        for style in element.findall(f"{_SVG}style"):
            element.remove(style)
        element.attrib = _attributes(element, prefix, is_group=element in groups, has_inks=element not in fixed)
    width = float(root.get("width", "460.8pt").removesuffix("pt")) * 4 / 3
    root.attrib = {"viewBox": root.get("viewBox", ""), "width": f"{width:.0f}", "role": "img"}
    root.set("aria-labelledby", f"{prefix}title")
    label = ElementTree.Element(f"{_SVG}title", {"id": f"{prefix}title"})
    label.text = harmless(title)
    root.insert(0, label)
    ElementTree.register_namespace("", _SVG.strip("{}"))
    return write("figure", title, Markup(ElementTree.tostring(root, encoding="unicode")))


def _attributes(element: ElementTree.Element, prefix: str, is_group: bool, has_inks: bool) -> dict[str, str]:
    """The attributes of an element, ids with the ``prefix`` of its picture; with ``has_inks``, colours of the page. A
    group of fixed colours has a class in place of its id."""
    changed = {}
    for name, value in element.attrib.items():
        if name == "id" and is_group:
            changed["class"] = figures.FIXED
        elif name == "id":
            changed[name] = prefix + value
        elif name == _LINK:
            changed["href"] = re.sub("^#", f"#{prefix}", value)
        else:
            changed[name] = value.replace("url(#", f"url(#{prefix}")
            if has_inks:
                changed[name] = _COLOR.sub(lambda match: _INKS.get(match[0], match[0]), changed[name])
    return changed
