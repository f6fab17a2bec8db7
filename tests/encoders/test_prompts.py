"""What is put before a text: the user's prompt, the model's own, that of its family, nothing; and never two."""

import json
import pickle
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mteb
import numpy as np
import pytest
from mteb.models.model_implementations.jina_models import JinaWrapper
from mteb.models.model_implementations.qwen3_models import instruction_template
from mteb.types import PromptType
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer

import retrokit
from retrokit.cli.entry import run as cli
from retrokit.core.notices import listening
from retrokit.data.prompted import WEB_SEARCH
from retrokit.encoders.prompts import FAMILIES, family_of, template_of
from retrokit.evaluation.mteb.model import MtebSearch
from tests.evaluation.fakes import Notices, write_folder, write_lines
from tests.models import sentences

TEXTS = sentences(4, seed=5)
INSTRUCTION = "Given a scientific claim, retrieve documents that support or refute the claim"

OWN = {meta.name: (meta, family) for meta in mteb.get_model_metas() if (family := family_of(meta.name)[0])}
"""The models of mteb that the table knows."""
OWN = {"Snowflake Arctic", "Snowflake Arctic v2", "EmbeddingGemma"}
"""Families of which mteb keeps no prompts: it reads them from the model's own configuration."""
DIFFERENT = {
    "Stella": "mteb has no template and puts the bare instruction before a query; the card has `Instruct: …\nQuery: `",
    "NV-Embed": "mteb instructs passages too; the card says that they need no instruction",
}


def of_mteb(meta: Any) -> tuple[str | None, str | None, str | None]:
    """The prompt of queries, of documents, and the template with ``{instruction}``, as mteb keeps them."""
    options, slot = meta.loader_kwargs, "{instruction}"
    template, prompts = options.get("instruction_template"), options.get("model_prompts") or {}
    if meta.name.startswith("Qwen/Qwen3-Embedding"):
        template = instruction_template
    if callable(template):
        whole, documents = template(slot, PromptType.query), template(slot, PromptType.document)
    else:
        whole = documents = template
    if template is not None:
        return None, None if options.get("apply_instruction_to_passages") is False else documents or None, whole
    if "Retrieval-query" in prompts:  # names of LoRA adapters
        prompts = {
            role: JinaWrapper.jina_task_to_prompt[prompts[f"Retrieval-{role}"]] for role in ("query", "document")
        }
    query = prompts.get("query")
    return query and query.removesuffix("{text}"), prompts.get("document"), None


def test_the_table_is_mtebs() -> None:
    """For every model that mteb and the table know."""
    differing, known = set(), set()
    for meta in mteb.get_model_metas():
        family, _ = family_of(meta.name)
        if family is None:
            continue
        known.add(family.name)
        query, document, template = of_mteb(meta)
        if template is not None:
            agree = template_of({"query": family.query}) == template and document == family.document
        elif family.name in OWN and not meta.loader_kwargs.get("model_prompts"):
            agree = (query, document) == (None, None) and meta.use_instructions
        else:
            agree = (query, document) == (family.query, family.document)
        if not agree:
            differing.add(family.name)
        if family.tasks:
            own = {**family.tasks, "query": family.query, "document": family.document}
            assert meta.loader_kwargs["model_prompts"] == own
    assert differing == {*DIFFERENT}
    assert {family.name for family in FAMILIES} - known == {"Instructor"}  # which mteb does not have
    assert all(family_of(family.source)[0] == family for family in FAMILIES)


def e5(tmp_path: Path, bert: Path, name: str = "e5-small-v2") -> Path:
    shutil.copytree(bert, tmp_path / name)
    return tmp_path / name


def heard(spec: str) -> tuple[Any, list[str]]:
    with listening(notices := Notices()):
        encoder = retrokit.encoder(spec, device="cpu")
    return encoder, notices.messages


def test_a_family_gives_prompts_to_a_model_without_any(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    folder, plain = e5(tmp_path, tiny_bert), retrokit.encoder(str(tiny_bert), device="cpu")
    for _ in range(2):  # loaded, then remembered
        encoder, messages = heard(str(folder))
        assert messages == [
            f"{folder}: is a bare checkpoint; assuming mean pooling (`pooling=`) and prompts of E5 (folder's name "
            "e5-small-v2): query 'query: ', document 'passage: ' (`query_prompt=`, `document_prompt=`)"
        ]
        for role, prompt in (("query", "query: "), ("document", "passage: ")):
            prompted = plain.embed([prompt + text for text in TEXTS], role, "fp32")
            np.testing.assert_allclose(encoder.embed(TEXTS, role, "fp32"), prompted, rtol=0, atol=1e-5)
    shutil.move(folder, tmp_path / "renamed")  # the same files, which the cache knows
    assert heard(str(tmp_path / "renamed"))[0].prompts == {"query": None, "document": None}


def test_the_user_comes_first_then_the_model(tiny_bert: Path, tmp_path: Path) -> None:
    folder = e5(tmp_path, tiny_bert)
    encoder, messages = heard(f'{folder},query_prompt="ask: "')
    assert encoder.prompts == {"query": "ask: ", "document": "passage: "}
    assert len(messages) == 1
    encoder, messages = heard(f"{folder},query_prompt=,document_prompt=")
    assert encoder.prompts == {"query": None, "document": None}
    assert "E5" not in " ".join(messages)
    SentenceTransformer(str(folder), device="cpu", prompts={"search_query": "q: "}).save(str(tmp_path / "x/e5-base"))
    encoder, messages = heard(str(tmp_path / "x/e5-base"))
    assert encoder.prompts == {"query": "q: ", "document": None}
    assert not any("E5" in message for message in messages)
    encoder, messages = heard(f"{tmp_path / 'x/e5-base'},query_prompt=")
    assert (encoder.prompts, messages) == ({"query": None, "document": None}, [])


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        (
            {"query": "q: ", "passage": "p: "},
            "",
            "uses its prompts document 'p: ', unlike encode_document of sentence-transformers; "
            "choose others with `document_prompt=`",
        ),
        (
            {"s2p_query": "q: ", "corpus": "c: "},
            "",
            "uses its prompts query 'q: ', document 'c: ', unlike encode_query and encode_document of "
            "sentence-transformers; choose others with `query_prompt=`, `document_prompt=`",
        ),
        (
            {"s2p_query": "q: ", "corpus": "c: "},
            ",document_prompt=",
            "uses its prompts query 'q: ', unlike encode_query of sentence-transformers; "
            "choose others with `query_prompt=`",
        ),
        ({"query": "q: ", "passage": "p: "}, ',document_prompt="d: "', ""),
        ({"query": "q: ", "document": "d: ", "passage": "p: "}, "", ""),
        ({"sts": "s: "}, "", ""),
    ],
)
def test_prompts_that_the_library_leaves_out_are_reported(
    prompts: dict[str, str],
    options: str,
    message: str,
    tiny_bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "model"
    SentenceTransformer(str(tiny_bert), device="cpu", prompts=prompts).save(str(folder), create_model_card=False)
    library = SentenceTransformer(str(folder), device="cpu")
    for _ in range(2):  # loaded, then remembered
        encoder, messages = heard(f"{folder}{options}")
        assert messages == ([f"{folder}: {message}"] if message else [])
    for role, encode in (("query", library.encode_query), ("document", library.encode_document)):
        have_one_prompt = (encoder.prompts[role] or "") == prompts.get(role, "")
        assert np.allclose(encoder.embed(TEXTS, role, "fp32"), encode(TEXTS), rtol=0, atol=1e-5) == have_one_prompt
        assert have_one_prompt or f"{role} '" in message or f"{role}_prompt" in options


CARD = "---\nlanguage: en\n{}\n---\n# A model\nbase_model: intfloat/e5-base\n"


@pytest.mark.parametrize(
    ("file", "content", "known_by"),
    [
        ("README.md", CARD.format("model-index:\n- name: e5-small"), "README.md: e5-small"),
        ("README.md", CARD.format("license: mit"), ""),
        ("README.md", CARD.format("base_model: BAAI/bge-small-zh"), ""),  # others may have trained it without prompts
        ("config.json", '{"_name_or_path": "intfloat/e5-base-v2"}', ""),
    ],
)
def test_a_folder_is_known_by_what_it_says(tmp_path: Path, file: str, content: str, known_by: str) -> None:
    (tmp_path / file).write_text(content)
    assert family_of(str(tmp_path))[1].startswith(known_by)
    assert bool(family_of(str(tmp_path))[0]) == bool(known_by)


OTHER = "Instruct: Given a web search query, find it.\nQuery:"
E5_INSTRUCT = next(family.query for family in FAMILIES if family.name == "E5 instruct")


@pytest.mark.parametrize(
    ("prompts", "query", "document"),
    [
        ({}, f"Instruct: {INSTRUCTION}\nQuery: ", ""),  # as ever
        ({"query": E5_INSTRUCT}, f"Instruct: {INSTRUCTION}\nQuery: ", ""),
        ({"query": OTHER, "document": "d: "}, f"Instruct: {INSTRUCTION}\nQuery:", "d: "),
        ({"query": "query: ", "document": "passage: "}, "query: ", "passage: "),
        ({"query": "task: search result | query: "}, f"task: {INSTRUCTION} | query: ", ""),
        ({"query": "q: ", "document": "d: ", "Retrieval-query": "ask: ", "Retrieval": "r: "}, "ask: ", "r: "),
        ({"query": OTHER, "SciFact": "claim: "}, "claim: ", "claim: "),
    ],
)
def test_a_task_of_mteb_is_read_in_the_models_own_template(
    prompts: dict[str, str],
    query: str,
    document: str,
    tiny_bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    SentenceTransformer(str(tiny_bert), device="cpu", prompts=prompts).save(str(tmp_path / "model"))
    plain = retrokit.encoder(str(tiny_bert), device="cpu")
    task = SimpleNamespace(prompt={"query": INSTRUCTION}, name="SciFact", type="Retrieval")
    for _ in range(1 if prompts else 3):  # loaded, remembered, and with the own prompts in the cache too
        encoder = retrokit.encoder(str(tmp_path / "model"), device="cpu")
        for kind, expected in ((PromptType.query, query), (PromptType.document, document)):
            items = MtebSearch._texts(SimpleNamespace(task_prompts=True), [{"text": TEXTS}], task, kind)
            assert (encoder.prompt_of(items, kind.value) or "") == expected
            read = plain.embed([expected + text for text in TEXTS], kind.value, "fp32")
            np.testing.assert_allclose(encoder.embed(items, kind.value, "fp32"), read, rtol=0, atol=1e-5)
            again = [pickle.loads(pickle.dumps(item)) for item in items]
            np.testing.assert_array_equal(
                encoder.embed(again, kind.value, "fp32"), encoder.embed(items, kind.value, "fp32")
            )
            own = plain.embed([(prompts.get(kind.value) or "") + text for text in TEXTS], kind.value, "fp32")
            np.testing.assert_allclose(encoder.embed(TEXTS, kind.value, "fp32"), own, rtol=0, atol=1e-5)


def test_a_template_becomes_a_prompt(tiny_bert: Path) -> None:
    encoder = retrokit.encoder(f'{tiny_bert},query_prompt="Do {{instruction}}. Ask: {{text}}"', device="cpu")
    assert encoder.prompts["query"] == f"Do {WEB_SEARCH}. Ask: "
    assert template_of(encoder.prompts) == "Do {instruction}. Ask: "


@pytest.mark.parametrize("template", ["Do {instruction}: ", "{text} is it", "{text}{text}"])
def test_a_template_has_its_place_for_the_text_at_the_end(
    template: str, tiny_bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = f"query_prompt={template} is not text before every query; a template ends with {{text}}"
    spec = f'{tiny_bert},query_prompt="{template}"'
    assert cli(["eval", "minilm", spec, "--on", f"beir:{tmp_path}"]) == 2
    assert problem in capsys.readouterr().err


@pytest.fixture
def data(tmp_path: Path) -> Path:
    documents = {f"d{place}": f"{text} {text}" for place, text in enumerate(sentences(5, seed=8))}
    queries = {f"q{place}": text for place, text in enumerate(sentences(5, seed=9))}
    folder = write_folder(tmp_path / "data", documents, queries, {f"q{place}": {f"d{place}": 1} for place in range(5)})
    lines = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    write_lines(folder / "corpus.jsonl", [{**line, "title": "cat"} for line in lines])
    write_lines(tmp_path / "pairs.jsonl", ({"anchor": text, "positive": f"{text} now"} for text in queries.values()))
    return folder


def expected(folder: Path, role: str, number: int, text: str, limit: int) -> str:
    """As transformers' own tokenizer reads a text, and what it leaves."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(text, truncation=True, max_length=limit)["input_ids"]
    encoding = tokenizer(text, return_offsets_mapping=True)
    whole, rest = encoding["input_ids"], ""
    if len(whole) > len(ids):
        rest = text[encoding["offset_mapping"][len(ids) - 1][0] :]
    count = f"{len(ids)} of {len(whole)}" if rest else f"{len(ids)}"
    return f", {role} {number}: {count} tokens: {tokenizer.decode(ids)}" + (f"; cut off: {rest}" if rest else "")


def test_results_contain_prompts_and_comparisons_report_different_ones(
    tiny_bert: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, base = e5(tmp_path, tiny_bert), str(tmp_path / "base.json")
    other = f'{folder},query_prompt=""'
    assert cli(["eval", str(folder), other, "--on", f"beir:{data}", "--json"]) == 0
    printed = capsys.readouterr()
    results = json.loads(printed.out)["results"]
    assert results[0]["configuration"]["prompts"] == {"query": "query: ", "document": "passage: "}
    assert results[1]["configuration"]["prompts"] == {"query": None, "document": "passage: "}
    differing = f"{folder} cosine: query 'query: ', document 'passage: '; {other} cosine: document 'passage: '"
    assert printed.err.count(f"the compared systems have different prompts: {differing}") == 1
    assert cli(["eval", str(folder), "--on", f"beir:{data}", "--save-baseline", base]) == 0
    assert "different prompts" not in capsys.readouterr().err
    assert cli(["eval", other, "--on", f"beir:{data}", "--baseline", base]) == 0
    changed = f"{other} cosine has other prompts: query 'query: ', document 'passage: ', now document 'passage: '"
    assert f"{base}: {changed}" in capsys.readouterr().err
