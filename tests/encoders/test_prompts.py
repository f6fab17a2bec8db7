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

import retrokit
from retrokit.cli.entry import run as cli
from retrokit.core.errors import UsageError
from retrokit.core.notices import listening
from retrokit.data.prompted import WEB_SEARCH, Prompted
from retrokit.encoders.prompts import FAMILIES, family_of, template_of
from retrokit.evaluation.mteb.model import MtebSearch
from tests.evaluation.fakes import Notices
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
    assert (encoder.prompts, messages) == ({"query": "q: ", "document": None}, [])
    encoder, messages = heard(f"{tmp_path / 'x/e5-base'},query_prompt=")
    assert (encoder.prompts, messages) == ({"query": None, "document": None}, [])


CARD = "---\nlanguage: en\n{}\n---\n# A model\nbase_model: intfloat/e5-base\n"


@pytest.mark.parametrize(
    ("file", "content", "known_by"),
    [
        (
            "config.json",
            '{"_name_or_path": "intfloat/e5-base-v2/"}',
            "_name_or_path in config.json: intfloat/e5-base-v2/",
        ),
        (
            "config.json",
            '{"_name_or_path": "/root/BAAI_bge-large-en"}',
            "_name_or_path in config.json: /root/BAAI_bge-la",
        ),
        ("README.md", CARD.format("base_model: BAAI/bge-small-zh"), "README.md: BAAI/bge-small-zh"),
        ("README.md", CARD.format('base_model:\n- "intfloat/e5-large"'), "README.md: intfloat/e5-large"),
        ("README.md", CARD.format("model-index:\n- name: e5-small"), "README.md: e5-small"),
        ("README.md", CARD.format("license: mit"), ""),
        ("README.md", CARD.format("base_model: nreimers/MiniLM-L6-H384-uncased"), ""),
        ("config.json", '{"_name_or_path": "me/my-e5-small-tuned"}', ""),
    ],
)
def test_a_folder_is_known_by_what_it_says(tmp_path: Path, file: str, content: str, known_by: str) -> None:
    (tmp_path / file).write_text(content)
    assert family_of(str(tmp_path))[1].startswith(known_by)
    assert bool(family_of(str(tmp_path))[0]) == bool(known_by)


def test_the_hubs_cache_and_models_of_retrokit(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--intfloat--e5-base" / "snapshots" / "0a1b"
    snapshot.mkdir(parents=True)
    assert family_of(str(snapshot))[1] == "folder's name intfloat/e5-base"
    run = tmp_path / "e5-base"
    run.mkdir()
    assert family_of(str(run))[0] is not None
    (run / "retrokit.json").write_text(json.dumps({"status": "finished", "similarity": "dot"}))
    (run / "checkpoints" / "checkpoint-3").mkdir(parents=True)
    (run / "checkpoints" / "checkpoint-3" / "README.md").write_text(CARD.format("base_model: intfloat/e5-base"))
    for folder in (run, run / "checkpoints" / "checkpoint-3"):
        assert family_of(str(folder)) == (None, "")


def test_what_retrokit_and_its_packages_bring_has_no_family() -> None:
    assert family_of(retrokit.encoders.folders.minilm_path()) == (None, "")


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
    for _ in range(3):  # loaded, remembered, and with the own prompts in the cache too
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


def test_a_task_without_an_instruction_has_mtebs_default_in_a_template(tiny_bert: Path) -> None:
    task = SimpleNamespace(prompt=None, name="SciFact", type="Retrieval")
    (item,) = MtebSearch._texts(SimpleNamespace(task_prompts=True), [{"text": ["cat"]}], task, PromptType.query)
    default = mteb.get_task("SciFact").abstask_prompt
    assert default
    for given, expected in ((f"Instruct: {WEB_SEARCH}\nQuery: ", f"Instruct: {default}\nQuery: "), ("q: ", "q: ")):
        encoder = retrokit.encoder(f'{tiny_bert},query_prompt="{given}"', device="cpu")
        assert encoder.prompt_of([item], "query") == expected
    assert retrokit.encoder(str(tiny_bert), device="cpu").prompt_of([item], "query") is None


def test_chunks_of_a_text_with_an_instruction_keep_it(tiny_bert: Path) -> None:
    encoder = retrokit.encoder(f"{tiny_bert},chunks=24,pool=mean", device="cpu")
    item = Prompted("Find: ", " ".join(TEXTS * 3), "Find")
    chunks, _ = encoder.split([item])
    assert len(chunks) > 1
    assert all(isinstance(chunk, Prompted) and chunk.instruction == "Find" for chunk in chunks)
    assert [chunk.text[:5] for chunk in chunks[:1]] == [item.text[:5]]


def test_a_template_becomes_a_prompt(tiny_bert: Path) -> None:
    encoder = retrokit.encoder(f'{tiny_bert},query_prompt="Do {{instruction}}. Ask: {{text}}"', device="cpu")
    assert encoder.prompts["query"] == f"Do {WEB_SEARCH}. Ask: "
    assert template_of(encoder.prompts) == "Do {instruction}. Ask: "


@pytest.mark.parametrize("template", ["Do {instruction}: ", "{text} is it", "{text}{text}"])
def test_a_template_has_its_place_for_the_text_at_the_end(
    template: str, tiny_bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = f"query_prompt={template} is not text before every query; a template ends with {{text}}"
    with pytest.raises(UsageError, match="a template ends with"):
        retrokit.encoder(f'api:m,query_prompt="{template}"')
    spec = f'{tiny_bert},query_prompt="{template}"'
    assert cli(["eval", "minilm", spec, "--on", f"beir:{tmp_path}"]) == 2
    assert problem in capsys.readouterr().err
