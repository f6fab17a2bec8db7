"""Families of edits in addition to those of COMP: other quantities, names, words, and controls."""
