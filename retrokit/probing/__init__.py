"""Looks inside an encoder that tell what to do next: one file per probe, each returning plain records."""
