"""Sheets and pictures as HTML that loads nothing: every text escaped, colours of the page in light and dark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree

from markupsafe import Markup, escape

from retrokit.core import figures
from retrokit.core.notices import UNSAFE, harmless
from retrokit.core.sheet import Cell, Sheet

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


def to_html(sheet: Sheet) -> Markup:
    """The table, whose columns a reader can sort where no row is the continuation of another, its caption below."""
    full = [row for row in sheet.rows if row]
    sortable = len(full) > 1 and all(any(line.strip() for line in row[0]) for row in full)
    heads = [_head(column, sheet.is_number(number), sortable) for number, column in enumerate(sheet.columns)]
    head = Markup("<thead><tr>{}</tr></thead>").format(_joined(heads)) if any(sheet.columns) else ""
    rows = [
        Markup("<tr>{}</tr>").format(_joined(_cell(cell, n == 0, sheet.is_number(n)) for n, cell in enumerate(row)))
        for row in full
    ]
    scrolled = Markup(
        '<div class="scrolled" tabindex="0" role="region" aria-label="{title}"><table>'
        "<caption>{title}</caption>{head}<tbody>{rows}</tbody></table></div>"
    ).format(title=_text(sheet.title or ""), head=head, rows=_joined(rows))
    note = Markup('<p class="note">{}</p>').format(_text(sheet.caption)) if sheet.caption else ""
    return Markup('<div class="sheet">{}{}</div>').format(scrolled, note)


def sort_key(text: str) -> float | None:
    """The number that a cell begins with, which is the mean where a deviation follows; ``None``: there is none.

    >>> sort_key("0.7123 ± 0.0100"), sort_key("1,204"), sort_key("–")
    (0.7123, 1204.0, None)
    """
    match = _NUMBER.match(text.strip())
    return float(match[1].replace(",", "")) if match else None


def _head(column: str, is_number: bool, sortable: bool) -> Markup:
    kind = Markup(' class="number"') if is_number else ""
    name: Any = _text(column)
    if sortable and column:
        name = Markup('<button type="button">{}</button>').format(name)
    return Markup('<th scope="col"{}>{}</th>').format(kind, name)


def _cell(cell: Cell, is_first: bool, is_number: bool) -> Markup:
    lines = [line.rstrip() for line in cell]
    text = Markup("<br>").join(_text(line) for line in lines)
    if not is_number:
        return Markup('<th scope="row">{}</th>' if is_first else "<td>{}</td>").format(text)
    key = sort_key(lines[0]) if lines else None
    sort = Markup("") if key is None else Markup(' data-sort="{}"').format(repr(key))
    return Markup('<td class="number"{}>{}</td>').format(sort, text)


def _joined(parts: Any) -> Markup:
    return Markup("").join(parts)


def _text(text: str) -> Markup:
    """A text of anyone's, which is nothing but text."""
    return escape(harmless(str(text)))


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
    with TemporaryDirectory() as folder, figures.for_a_page():
        draw(result, folder)
        files = sorted(Path(folder).glob("*.svg"))
        drawings = [to_figure(file.read_text("utf-8"), _title(file.stem, titles, title)) for file in files]
        return (
            Markup('<div class="figures">{}</div>').format(_joined(drawings))
            if len(drawings) > 1
            else _joined(drawings)
        )


def _title(name: str, titles: Mapping[str, str], usual: str) -> str:
    return next((title for start, title in titles.items() if name.startswith(start)), usual or name)


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
    text = ElementTree.tostring(root, encoding="unicode")
    return Markup(
        '<figure><div class="scrolled" tabindex="0" role="region" aria-label="{0}">{1}</div>'
        "<figcaption>{0}</figcaption></figure>"
    ).format(_text(title), Markup(text))


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
            value = f"#{ids[value[1:]]}" if value.startswith("#") else value if _is_picture(value) else ""
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


def _is_picture(address: str) -> bool:
    return address.startswith("data:image/png;base64,")
