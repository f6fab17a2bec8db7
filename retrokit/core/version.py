"""The version of the package, and the address of its pages."""

__version__ = "0.1.0"
DOCUMENTATION = "https://github.com/OWNER/retrokit/tree/main/docs"
