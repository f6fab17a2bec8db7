"""Readers and writers of the files that retrieval research uses: one file per format, each streaming where it can.

Every reader refuses bad input with a :class:`core.errors.DataError` of one line that names the file, the line and
what was expected. Importing this package, or any file of it, imports nothing but the standard library.
"""
