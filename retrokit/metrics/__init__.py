"""Measures: ranking quality and significance, as pure functions on plain numbers."""
