"""The file systems of fsspec."""

from retrokit.core.registry import Entry

ANY = Entry("any", "the file systems of fsspec, by the scheme", "retrokit.extensions.addresses.files:Files")
