"""Studies: the commands of one TOML file, every combination of their options, run as a graph by Snakemake.

:mod:`~retrokit.study.steps` reads the file and makes the steps, each a command line that a user could type.
:mod:`~retrokit.study.engine` runs them, :mod:`~retrokit.study.state` reads their states.
"""
