"""The grammar of names, validation, did-you-mean, fallback, laziness. Only the standard library is needed for it."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrokit.core.errors import LARGEST, LARGEST_WHOLE, MissingExtra, UsageError
from retrokit.core.registry import Entry, Param, Registry, Spec, SpecRegistry, parse_all

HERE = "tests.core.test_registry"


def record(**options):
    """What the entries below make: the keywords that they were called with."""
    return options


def on_device(device=None):
    """What loads a model makes: here its device."""
    return device


class Made:
    """A product that can carry a spec."""

    def __init__(self, **options):
        self.options = options


THING = Entry(
    "thing",
    "all kinds of parameters",
    f"{HERE}:record",
    (
        Param("text", str),
        Param("count", 5, minimum=1, maximum=1000),
        Param("size", int, minimum=-LARGEST_WHOLE),
        Param("rate", float),
        Param("share", 0.5, minimum=0.0, maximum=1.0),
        Param("on", False),
        Param("kind", "a", choices=("a", "b")),
        Param("code", str, pattern=r"x\d+", help="x and digits"),
    ),
    positional="text",
)
PLAIN = Entry("plain", "no parameters", f"{HERE}:record")
NEEDY = Entry(
    "needy", "a required parameter", f"{HERE}:record", (Param("size", int, required=True),), positional="size"
)
OPEN = Entry("open", "takes paths", f"{HERE}:record", (Param("path", required=True), Param("pooling")), "path")


def things() -> Registry:
    return Registry("thing", "retrokit.tests.none", [THING, PLAIN, NEEDY])


def openings() -> Registry:
    return Registry("encoder", "retrokit.tests.none", [THING, OPEN, PLAIN], fallback="open")


VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text(',="\\ :\n\tä日a1', max_size=12)


@st.composite
def specs(draw):
    params = {
        "text": VALUES,
        "count": st.integers(1, 1000).filter(lambda count: count != 5),
        "size": st.integers(-LARGEST_WHOLE, LARGEST_WHOLE),
        "rate": st.floats(-LARGEST, LARGEST),
        "share": st.floats(0, 1).filter(lambda share: share != 0.5),
        "on": st.just(True),
        "kind": st.just("b"),
        "code": st.from_regex(r"x[0-9]+", fullmatch=True),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(params))))
    return Spec("thing", {name: draw(params[name]) for name in sorted(chosen)}, positional="text")


@given(specs())
def test_what_is_printed_is_read_back(spec):
    read = things().parse(str(spec))
    assert read == spec
    assert {name: type(value) for name, value in read.params.items()} == {n: type(v) for n, v in spec.params.items()}
    assert str(read) == str(spec)
    assert hash(read) == hash(spec)


@given(VALUES.filter(bool))
def test_a_fallbacks_value_is_read_back_with_and_without_its_name(value):
    registry = openings()
    spec = Spec("open", {"path": value}, positional="path")
    read = registry.parse(str(spec))
    assert read == spec
    assert registry.parse(str(read)) == spec


@pytest.mark.parametrize(
    ("text", "path"),
    [("lr=3", "lr=3"), ("a,b=2,pooling=x", "a,b=2"), ("open:a,b", "a,b"), ("open:lr=3,pooling=x", "lr=3")],
)
def test_a_path_that_needs_quotes_is_quoted_in_the_message(text, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / path).mkdir()
    with pytest.raises(UsageError, match=f'; for the path: open:"{path}"$'):
        openings().parse(text)
    assert openings().parse(f'open:"{path}"').params["path"] == path


def test_options_of_a_bare_name_or_path_after_the_wrong_mark(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    registry = openings()
    assert registry.parse("thing,count=2") == registry.parse("thing:count=2")
    assert str(registry.parse("thing,count=2")) == "thing:count=2"
    assert registry.parse("run:pooling=cls").params == {"path": "run:pooling=cls"}
    (tmp_path / "run").mkdir()
    with pytest.raises(UsageError, match="parameters follow a path after a comma: run,pooling=cls"):
        registry.parse("run:pooling=cls")
    forced = registry.parse('open:"run:1"')
    assert forced.params == {"path": "run:1"}
    assert registry.parse(str(forced)) == forced


@pytest.mark.parametrize("name", ["plain", "thing", "thing:x", "plain:1"])
def test_a_folder_called_like_an_entry_is_read_back(name):
    registry = openings()
    for text in (f"open:{name}", f'"{name}"', f'"{name}",pooling=cls'):
        spec = registry.parse(text)
        assert (spec.name, spec.params["path"]) == ("open", name)
        assert registry.parse(str(spec)) == spec


def test_examples_of_the_grammar():
    registry = things()
    examples = {
        "plain": {},
        "thing": {},
        "thing:abc": {"text": "abc"},
        "thing:text=abc": {"text": "abc"},
        "thing:abc,count=7,on=TRUE": {"text": "abc", "count": 7, "on": True},
        'thing:"a,b=\\"c\\"\\\\",size=-3': {"text": 'a,b="c"\\', "size": -3},
        "thing:a:b/c": {"text": "a:b/c"},
        "thing:text=": {"text": ""},
        "thing:rate=1e-3": {"rate": 0.001},
        "needy:16": {"size": 16},
    }
    for text, params in examples.items():
        spec = registry.parse(text)
        assert (spec.name, dict(spec.params)) == (text.partition(":")[0], params), text


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("thing:x,share=0.5,count=5,on=false,kind=a", "thing:x"),
        ("thing:count=5", "thing"),
        ("thing:on=true,count=6,text=x", "thing:x,count=6,on=true"),
        ("thing:a=b", None),
        ('thing:"a=b"', 'thing:"a=b"'),
        ('thing:" a"', 'thing:" a"'),
        ("thing:rate=0.10", "thing:rate=0.1"),
    ],
)
def test_printing_is_canonical(text, printed):
    if printed is None:
        with pytest.raises(UsageError, match="thing has no parameter 'a'"):
            things().parse(text)
    else:
        assert str(things().parse(text)) == printed


def test_options_fill_in_the_defaults():
    registry = things()
    assert registry.options(registry.parse("thing:x,count=9")) == {
        **{"text": "x", "count": 9, "size": None, "rate": None},
        **{"share": 0.5, "on": False, "kind": "a", "code": None},
    }
    assert registry.create("thing:x,on=true", device="here")["device"] == "here"
    assert registry.create("thing:x,on=true")["on"] is True


def test_a_device_of_the_spec_goes_before_that_of_the_caller():
    kinds = [Entry("placed", "has a device", f"{HERE}:on_device", (Param("device"),)), PLAIN]
    registry = Registry("thing", "retrokit.tests.none", [*kinds, Entry("free", "has one too", f"{HERE}:on_device")])
    assert registry.create_on("placed:device=cuda", "cpu") == "cuda"
    assert registry.create_on("placed:device=cuda", None) == "cuda"
    assert registry.create_on("placed", "cpu") == registry.create_on("free", "cpu") == "cpu"
    assert registry.create_on("placed", None) is None
    assert registry.create_on("plain", "cpu") == {}, "nothing that has a device"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("thing:size=1.5", "thing:size=1.5: size=1.5 is not a whole number"),
        ("thing:rate=fast", "thing:rate=fast: rate=fast is not a number"),
        ("thing:on=yes", "thing:on=yes: on=yes is neither true nor false"),
        ("thing:count=0", "thing:count=0: count=0 is out of range (1 to 1000)"),
        ("thing:count=1001", "thing:count=1001: count=1001 is out of range (1 to 1000)"),
        ("thing:share=nan", "thing:share=nan: share=nan is out of range (0 to 1)"),
        ("thing:rate=nan", "thing:rate=nan: rate=nan is out of range (a finite number)"),
        ("thing:rate=-inf", "thing:rate=-inf: rate=-inf is out of range (at least -1000000000)"),
        ("thing:rate=1e300", "thing:rate=1e300: rate=1e300 is out of range (at most 1000000000)"),
        (
            "thing:size=99999999999",
            "thing:size=99999999999: size=99999999999 is out of range (-2147483647 to 2147483647)",
        ),
        ("thing:kind=c", "thing:kind=c: kind=c is none of a, b"),
        ("thing:code=y1", "thing:code=y1: code=y1 is not x and digits"),
        ("thing:code=x1z", "thing:code=x1z: code=x1z is not x and digits"),
        ("thing:count=2,count=3", "thing:count=2,count=3: count is given twice"),
        ("thing:a,text=b", "thing:a,text=b: text is given twice"),
        ("thing:cuont=2", "thing:cuont=2: thing has no parameter 'cuont' (did you mean count?); it takes text, count,"),
        ("thing:fake:m,speed=2", 'options of fake:m need quotes: thing:"fake:m,speed=2"'),
        ("thing:a,b", "thing:a,b: 'b' has no name; thing takes text=TEXT, count"),
        ("plain:a", "plain:a: 'a' has no name; plain takes no parameters"),
        ("needy", "needy: needy needs size (needy:size=N)"),
        ("needy:", "'needy:': nothing after the colon"),
        ("needy,", "'needy,': nothing after the comma"),
        ('thing:"a', 'thing:"a: the quoted value has no closing quote'),
        ('thing:"a"b', "expected a comma after the quoted value, found 'b'"),
        ("thing:a,", "'' has no name"),
    ],
)
def test_wrong_parameters_say_what_was_expected(text, message):
    with pytest.raises(UsageError) as caught:
        things().parse(text)
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


def test_all_problems_of_one_text_are_in_one_message():
    with pytest.raises(UsageError) as caught:
        things().parse("thing:count=0,kind=z,shape=1")
    for part in ("count=0 is out of range", "kind=z is none of a, b", "no parameter 'shape' (did you mean share?)"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("param", "text", "says"),
    [
        (Param("n", int, minimum=2), "1", "at least 2"),
        (Param("n", int, maximum=2), "3", "1 to 2"),
        (Param("n", float, maximum=2), "3", "at most 2"),
        (Param("n", int, minimum=2), "9999999999", "2 to 2147483647"),
    ],
)
def test_half_open_ranges(param, text, says):
    with pytest.raises(UsageError, match=says):
        param.value_from(text, "x")
    assert param.value_from("2", "x") == 2


def test_an_unknown_name_gets_the_nearest_and_the_list():
    with pytest.raises(UsageError) as caught:
        things().parse("thimg:x")
    assert str(caught.value) == "unknown thing 'thimg' (did you mean thing?); known: thing, plain, needy"
    with pytest.raises(UsageError) as caught:
        things().parse("zzz")
    assert str(caught.value) == "unknown thing 'zzz'; known: thing, plain, needy"
    with pytest.raises(UsageError, match="unknown thing ''"):
        things().parse("")


def test_all_wrong_names_are_reported_at_once():
    registry, other = things(), openings()
    requests = [(registry, "thong"), (other, "some/path"), (registry, "needy:x"), (other, "plian"), (registry, "plain")]
    with pytest.raises(UsageError) as caught:
        parse_all(requests)
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("unknown thing 'thong' (did you mean thing?)")
    assert lines[1] == "needy:x: size=x is not a whole number"
    assert lines[2].startswith("unknown encoder 'plian' (did you mean plain?)")
    assert parse_all([requests[1], requests[4]]) == [
        Spec("open", {"path": "some/path"}, "path"),
        Spec("plain"),
    ]


@pytest.mark.parametrize("path", ["runs/qnorm", "./x", "/a/b.c", "org/model-v1", "C:\\models\\x", "zzz", "a:b"])
def test_what_is_no_name_goes_to_the_fallback(path):
    spec = openings().parse(path)
    assert (spec.name, spec.params) == ("open", {"path": path})
    with_option = openings().parse(f"{path},pooling=cls")
    assert with_option.params == {"path": path, "pooling": "cls"}


@pytest.mark.parametrize("text", ["thimg", "thimg:16", "thimg,pooling=cls"])
def test_a_misspelt_name_is_no_path_unless_forced_or_there(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    registry = openings()
    with pytest.raises(UsageError) as caught:
        registry.parse(text)
    assert "unknown encoder 'thimg' (did you mean thing?)" in str(caught.value)
    assert f"for a path or hub id of that name: open:{text}" in str(caught.value)
    forced = registry.parse(f"open:{text}")
    assert forced.params["path"] == text.partition(",")[0]
    assert registry.parse(str(forced)) == forced
    (tmp_path / "thimg").mkdir()
    if ":" not in text:
        there = registry.parse(text)
        assert there.params["path"] == "thimg"
        (tmp_path / "thimg").rmdir()
        assert registry.parse(str(there)) == there


def test_a_name_registered_twice_is_an_error():
    registry = things()
    with pytest.raises(UsageError, match="thing 'plain' is registered twice"):
        registry.add(PLAIN)
    with pytest.raises(UsageError, match="registered twice"):
        Registry("thing", "retrokit.tests.none", [PLAIN, THING, PLAIN])
    assert registry.names() == ["thing", "plain", "needy"]


def test_entries_are_lazy():
    target = "no_such_module_anywhere.deeper:thing"
    registry = Registry("thing", "retrokit.tests.none", [Entry("ghost", "is not there", target, (Param("x", 3),))])
    assert registry.names() == ["ghost"]
    assert str(registry.parse("ghost:x=4")) == "ghost:x=4"
    assert "ghost" in registry.describe()
    assert "is not there" in registry.describe()
    assert "x=3" in registry.describe()
    with pytest.raises(UsageError, match="does not load: No module named 'no_such_module_anywhere'"):
        registry.create("ghost")


def test_only_create_imports(tmp_path, monkeypatch):
    (tmp_path / "imported_late.py").write_text("def make(**options):\n    return options\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry("thing", "retrokit.tests.none", [Entry("late", "", "imported_late:make", (Param("x", int),))])
    spec = registry.parse("late:x=1")
    registry.describe()
    registry.entries()
    assert "imported_late" not in sys.modules
    assert registry.create(spec) == {"x": 1}
    assert "imported_late" in sys.modules
    del sys.modules["imported_late"]


def test_a_missing_extra_is_the_command_that_installs_it():
    entry = Entry("ghost", "", "no_such_module_anywhere:thing", extra="haunted")
    with pytest.raises(MissingExtra) as caught:
        Registry("thing", "retrokit.tests.none", [entry]).create("ghost")
    assert str(caught.value) == "ghost needs an optional package: python -m pip install 'retrokit-ir[haunted]'"
    assert caught.value.exit_code == 3
    assert caught.value.extra == "haunted"


def test_products_of_a_spec_registry_carry_the_canonical_spec():
    entry = Entry("made", "", f"{HERE}:Made", (Param("size", 4), Param("kind", "a")), positional="size")
    registry = SpecRegistry("thing", "retrokit.tests.none", [entry])
    assert registry.create("made:size=4,kind=b").spec == "made:kind=b"
    assert registry.create(registry.parse("made:size=8")).spec == "made:8"
    assert registry.create("made").options == {"size": 4, "kind": "a"}


def test_a_name_that_is_also_a_path_says_how_to_mean_the_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "needy").mkdir()
    with pytest.raises(UsageError, match=r"^needy: needy needs size \(needy:size=N\); for the path: \./needy$"):
        things().parse("needy")
