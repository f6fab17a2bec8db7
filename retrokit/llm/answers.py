"""Reading a model's answer in a requested form.

Models follow an answer's format loosely: other case, Markdown, numbering, quotation marks, code fences, a friendly word
before and after. An answer that is still unambiguous is read. Any other is rejected, for a retry that says why.
"""

import re
from collections.abc import Sequence

from retrokit.llm.base import has_unpaired_marks
from retrokit.llm.prompts import TAG

# Thai, Lao, Myanmar, Khmer, kana, Han and the compatibility ideographs are written without spaces
_ALONE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+")
_MISREAD = re.compile("[\u00c2-\u00f4][\u0080-\u00bf]{1,3}")


def words_of(text: str) -> list[str]:
    """The words of ``text`` in order.

    >>> words_of("“Self-employed” in 2024: 日本")
    ['self', 'employed', 'in', '2024', '日', '本']
    >>> words_of("CafÃ©s")
    ['cafés']
    """
    return [word.lower() for word in _WORD.findall(_MISREAD.sub(_mended, text))]


def _mended(misread: re.Match[str]) -> str:
    try:
        return misread[0].encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return misread[0]


def share_within(part: Sequence[str], whole: Sequence[str], length: int = 3) -> float:
    """How much of ``part`` occurs word for word in ``whole``: the share of its words that lie in a run of ``length``
    words that also occurs anywhere in ``whole``. Runs are shorter if ``part`` is.

    >>> share_within("the cat sat down".split(), "down there the cat sat".split())
    0.75
    >>> share_within(["down"], ["sat", "down"]), share_within([], ["sat"])
    (1.0, 1.0)
    """
    if not part:
        return 1.0
    length = min(length, len(part))
    held = {tuple(whole[start : start + length]) for start in range(len(whole) - length + 1)}
    within = [False] * len(part)
    for start in range(len(part) - length + 1):
        if tuple(part[start : start + length]) in held:
            within[start : start + length] = [True] * length
    return sum(within) / len(part)


def holds_run(words: Sequence[str], run: Sequence[str]) -> bool:
    """Whether ``words`` contains ``run`` as it is.

    >>> holds_run(["a", "bank", "account"], ["bank", "account"]), holds_run(["bankers"], ["bank"])
    (True, False)
    """
    size = len(run)
    return any(list(words[start : start + size]) == list(run) for start in range(len(words) - size + 1))


_QUOTES = (('"', '"'), ("“", "”"), ("„", "“"), ("«", "»"), ("'", "'"), ("‘", "’"), ("「", "」"), ("`", "`"))
_EMPHASIS = ("***", "**", "__", "*", "_")
LIST_MARK = re.compile(
    r"^\s*(?:[-*•–—]\s+|\(?\d{1,2}[.):]\s+|\[\d{1,2}\]\s+|(?:s|sentence)\s?\d{1,2}\s*[:.)]\s*)", re.I
)
_DECORATION = "*_#>`\"'“”‘’„«» \t"
_CLOSING = re.compile(
    r"^[\W_]*(?:note\b\s*[:\-]|explanation\s*:|reasoning\s*:|let me know\b|i hope\b|hope (?:this|that) helps|"
    r"(?:this|the) (?:summary|expansion|expanded passage|paraphrase|paraphrased passage|new sentences?) (?:above )?"
    r"(?:retains|keeps|preserves|answers|provides|maintains|replaces)\b|"
    r"these (?:new |key |two )?sentences (?:directly )?(?:answer|provide|do not|are)\b|please let me know)",
    re.IGNORECASE,
)


class Rejected(Exception):
    """An answer that cannot be used.

    Attributes:
        cause: what it is counted under.
        reason: in a few words, for the retry of the model.
        blamed: the prompt that is to blame, where it is another than the last one.
    """

    def __init__(self, cause: str, reason: str, blamed: str = "") -> None:
        super().__init__(reason)
        self.cause, self.reason, self.blamed = cause, reason, blamed


def read_text(answer: str, marker: str) -> str:
    """The text after ``marker``, without the wrapping and the closing words of the model.

    Raises:
        Rejected: there is no marker, or nothing after it.
    """
    return _unwrapped(_without_closing(after(answer, marker)), marker)


def read_sentences(answer: str, marker: str) -> list[str]:
    """The sentences after ``marker``: its lines, without the marks of a list and quotation marks.

    Raises:
        Rejected: there is no marker, or nothing after it.
    """
    lines = [bare(LIST_MARK.sub("", line)) for line in read_text(answer, marker).splitlines()]
    sentences = [line for line in lines if words_of(line)]
    if not sentences:
        raise Rejected("off_format", f"no sentence stands after {marker!r}")
    return sentences


def read_verdict(answer: str, yes: str, no: str) -> bool:
    """Whether the answer is ``yes``.

    The start of the answer decides, else its last line, else what follows "answer is", else which of the two words it
    contains at all.

    Raises:
        Rejected: it says neither, or both.
    """
    text = TAG.sub(" ", answer).strip()
    lines = [line.strip(_DECORATION + ".!。！:") for line in text.splitlines() if line.strip(_DECORATION)]
    first, last = (lines[0], lines[-1]) if lines else ("", "")
    only_choice = rf"{_pattern(yes)}\W*(?:or|and)?\W*{_pattern(no)}"  # the line repeats "yes or no"
    if not re.match(only_choice, first, re.IGNORECASE):
        for verdict in (_leading(first, yes, no), _leading(last, yes, no, alone=True), _announced(text, yes, no)):
            if verdict is not None:
                return verdict
        is_yes, is_no = _holds(text, yes), _holds(text, no)
        if is_yes != is_no:
            return is_yes
    raise Rejected("off_format", f"the answer is neither {yes!r} nor {no!r}")


def _pattern(word: str) -> str:
    # a word of a script without spaces need not end where a letter follows
    bounded = word.isascii() or word[-1:].isascii()
    return rf"(?<!\w){re.escape(word)}(?!\w)" if bounded else re.escape(word)


def _holds(text: str, word: str) -> bool:
    return re.search(_pattern(word), text, re.IGNORECASE) is not None


def _leading(line: str, yes: str, no: str, alone: bool = False) -> bool | None:
    end = r"\W*$" if alone else ""
    for word, verdict in ((yes, True), (no, False)):
        if re.match(_pattern(word) + end, line, re.IGNORECASE):
            return verdict
    return None


def _announced(text: str, yes: str, no: str) -> bool | None:
    both = f"({_pattern(yes)})|{_pattern(no)}"
    said = list(re.finditer(rf"(?:answer|verdict|conclusion|output)(?:\s+is|\s+would be)?\W*(?:{both})", text, re.I))
    return said[-1][1] is not None if said else None


def place_of(answer: str, marker: str) -> tuple[int, int]:
    """Where the marker starts and ends: its first place at the start of a line, else its first place anywhere."""
    stem = r"\s+".join(re.escape(word) for word in marker.rstrip(" :：").split())
    colon = r"[\s*_\"'”’`]*[:：]" if marker.rstrip().endswith((":", "：")) else ""
    decorated = rf"(?P<quote>[\"'“‘])?{stem}{colon}[*_`]*(?(quote)[\"'”’])"
    patterns = (
        rf"^[{re.escape(_DECORATION)}\d.)]*?{decorated}",
        rf"(?<!\w){decorated}",
        rf"^#+\s*{stem}\W*$",  # Markdown's headings need no colon
    )
    for pattern in patterns:
        match = re.search(pattern, answer, re.IGNORECASE | re.MULTILINE)
        if match:
            return match.span()
    raise Rejected("off_format", f"the answer does not have {marker!r}")


def after(answer: str, marker: str) -> str:
    """The text after the marker. Raises as :func:`place_of`."""
    return answer[place_of(answer, marker)[1] :].strip()


def _without_closing(text: str) -> str:
    """``text`` without its last paragraphs if they are about the answer and no part of it."""
    paragraphs = re.split(r"(\n\s*\n)", text)
    while len(paragraphs) > 2 and (_CLOSING.match(paragraphs[-1]) or re.fullmatch(r"[\s*_-]*", paragraphs[-1])):
        del paragraphs[-2:]
    return "".join(paragraphs)


def _unwrapped(text: str, marker: str) -> str:
    text = TAG.sub("", text).strip()
    fenced = re.match(r"```\w*\n(.*?)\n?```", text, re.DOTALL)
    text = bare(fenced[1] if fenced else text)
    if not words_of(text):
        raise Rejected("off_format", f"nothing stands after {marker!r}")
    is_cut_from_json = text.count("{") != text.count("}")
    if has_unpaired_marks(text) or is_cut_from_json:
        raise Rejected("off_format", f"the text after {marker!r} contains markup")
    return text


def bare(text: str) -> str:
    """``text`` without the quotation marks, emphasis and white space around all of it."""
    while True:
        text = text.strip()
        inner = _without_emphasis(text)
        if inner == text:
            inner = _without_quotes(text)
        if inner == text:
            return text
        text = inner


def _without_emphasis(text: str) -> str:
    for mark in _EMPHASIS:
        if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
            inside = text[len(mark) : -len(mark)]
            return text if mark in inside else inside
    return text


def _without_quotes(text: str) -> str:
    """A text that starts with one quotation and ends with another is not quoted as a whole."""
    inside = text[1:-1]
    for opening, closing in _QUOTES:
        is_quoted = len(text) > 2 and text[0] == opening and text[-1] == closing
        if is_quoted and opening not in inside and closing not in inside:
            return inside
    return text
