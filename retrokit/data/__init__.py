"""Readers and writers of the files that retrieval research uses: one file per format, each streaming where it can.

Every reader refuses bad input with a :class:`core.errors.DataError` of one line that names the file, the line and
the expected content. Importing this package, or any file of it, imports only the standard library.
"""

from retrokit.core.registry import Param

DOCSTRINGS = "docstrings"
"""The built-in data set (:mod:`retrokit.data.docstrings`), as training data and as a task."""
DOCSTRINGS_TEXTS = "texts.jsonl"
"""In the folder of the set: the documents of the split train, as texts without labels."""
FEWEST = 60
DOCUMENTS = Param("documents", 1500, minimum=FEWEST, maximum=10_000, help="documents at most")
