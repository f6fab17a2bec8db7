"""Readers and writers of the files that retrieval research uses: one file per format, each streaming where it can.

Every reader refuses bad input with a :class:`core.errors.DataError` of one line that names the file, the line and
the expected content. Importing this package, or any file of it, imports only the standard library.
"""
