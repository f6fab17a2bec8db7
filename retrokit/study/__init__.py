"""Studies: the commands of one TOML file, every combination of their options, as a graph that an engine works through.

:mod:`~retrokit.study.tables` reads the file, :mod:`~retrokit.study.steps` makes the steps, each a command line that a
user could type, :mod:`~retrokit.study.engine` has Snakemake work through them, :mod:`~retrokit.study.step` runs one,
and :mod:`~retrokit.study.state` tells what became of each.
"""
