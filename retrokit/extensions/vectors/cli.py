"""``retrokit vectors train``, ``bridge``, ``identify``, ``verify`` and ``adopt``."""

from dataclasses import replace

from retrokit.cli.api import DRY_RUN, TIME, common, in_options, show_record, show_result, train_encoder
from retrokit.core.errors import GateFailed
from retrokit.extensions.vectors.settings import (
    AdoptSettings,
    BridgeSettings,
    CanarySettings,
    IdentifySettings,
    VectorsConfig,
)


def train(
    config: VectorsConfig,
    dry_run: bool = DRY_RUN,
    time: bool = TIME,
    as_json: bool = common("as_json"),
) -> None:
    """Train queries only, against the vectors of an export, which stay as they are.

    retrokit vectors train exported/documents --data beir:data/mine,split=train --holdout 0.1 -o runs/queries

    retrokit vectors train exported/documents --data pairs.jsonl --query-side encoder -o runs/queries
    """
    train_encoder("retrokit.extensions.vectors.query_side:plan", config, dry_run, time, as_json)


def bridge(settings: BridgeSettings, as_json: bool = common("as_json")) -> None:
    """Search old vectors with a new encoder, by a map learned from texts that both embed.

    retrokit vectors bridge exported/documents runs/new -o runs/bridge --on beir:data/mine

    retrokit vectors bridge exported/documents runs/new --into new -o exported/bridged
    """
    from retrokit.extensions.vectors.bridging import bridge

    result = bridge(settings)
    result = replace(result, verdict=in_options(result.verdict))
    show_record(as_json, "bridge", result)


def identify(settings: IdentifySettings, as_json: bool = common("as_json")) -> None:
    """Find which encoder, prompt, pooling or length gave each vector of a table.

    retrokit vectors identify index.parquet --candidates minilm --texts corpus.jsonl --again again.txt

    retrokit vectors identify exported/documents --candidates minilm --candidates runs/old --fail-under 0.99

    The first candidate, as documents, is expected. Other rows are tried with one change at a time: other prompts, the
    role query, other poolings, shorter lengths, the text of another row. Norms, zeros at the end and grids (float16,
    int8) are named too. Rounding is no difference.

    All else is "none of these": edited texts, other models, two changes, longer lengths, binary vectors. Give what you
    suspect as a candidate: minilm,max_length=512.

    Of more than 5,000 rows a sample is embedded, and shares have exact 95% intervals. Edited texts, cuts and weak
    prompts are missed in the other rows.
    """
    from retrokit.extensions.vectors.identification import identify

    result = identify(settings)
    show_record(as_json, "vectors-identify", result)
    for gate in result.gates:
        if gate.message:
            raise GateFailed(gate.message)


def verify(settings: CanarySettings, as_json: bool = common("as_json")) -> None:
    """Check that another server or model folder gives the vectors of an export.

    retrokit vectors verify exported/documents api:MODEL,url=http://localhost:8080/v1

    retrokit vectors verify exported/documents models/other

    Exits with 1 if the vectors do not agree, and names the cause if one change makes them agree.
    """
    from retrokit.extensions.vectors.canaries import verify

    report = verify(settings)
    show_record(as_json, "vectors-verify", report)
    if not report.agrees:
        raise GateFailed(f"{report.encoder}: its vectors do not agree with those of {report.export}")


def adopt(settings: AdoptSettings, as_json: bool = common("as_json")) -> None:
    """Register vectors that Ray, Daft or another job wrote as an export.

    retrokit vectors adopt embedded/ minilm --on beir:data/mine -o exported/documents

    Embeds a sample of the texts again, and refuses vectors that differ. Each text must have one vector.
    """
    from retrokit.extensions.vectors.adoption import adopt
    from retrokit.report.tables import export_sheet

    result = adopt(settings)
    show_result(as_json, "export", {"folder": str(result.folder), **result.note}, export_sheet(result))
