"""``retrokit cache``."""

from retrokit.cli.common import show
from retrokit.core.errors import UsageError
from retrokit.core.settings import common, setting


def cache(
    limit: str | None = setting(None, "Evict least-recently-used entries to this size, e.g. 5GB."),
    clear: bool = setting(False, "Remove all entries.", excludes=("limit",)),
    as_json: bool = common("as_json"),
) -> None:
    """Show the size of the embedding cache by encoder, or reduce it.

    retrokit cache --limit 5GB
    """
    from retrokit.encoders.kept import clear_kept
    from retrokit.encoders.store import open_cache, read_size
    from retrokit.report.tables import cache_json, cache_table

    embedding_cache = open_cache()
    if embedding_cache is None:
        raise UsageError("the embedding cache is disabled (RETROKIT_CACHE=off, --no-cache)")
    if clear or limit is not None:
        embedding_cache.shrink(read_size(limit, "`limit=`") if limit is not None else 0)
    if clear:
        clear_kept(embedding_cache.folder)
    show(*(cache_json(embedding_cache) if as_json else cache_table(embedding_cache)))
