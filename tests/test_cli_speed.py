"""``retrokit --help`` imports little more than a Typer program that does nothing: that is what its time depends on."""

import subprocess
import sys

import typer

from retrokit import cli

EMPTY = """
import sys
import typer

app = typer.Typer()


@app.command()
def one(name: str):
    "Do one thing."


@app.command()
def two(name: str):
    "Do another."


def main():
    app()

"""
OURS = "import sys\nfrom retrokit.cli import main\n"
COUNT = """
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sorted(sys.modules), file=sys.stderr)
"""


def modules(program: str) -> set[str]:
    """What is imported when the program has shown its help."""
    done = subprocess.run(
        [sys.executable, "-c", program + COUNT, "--help"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
    return set(done.stderr.split())


def test_help_imports_little():
    more = modules(OURS) - modules(EMPTY)
    own = {name for name in more if name.split(".")[0] == "retrokit"}
    assert len(own) < 70, sorted(own)
    assert {name.split(".")[0] for name in more - own} <= set(sys.stdlib_module_names)
    assert len(more - own) < 20, sorted(more - own)


def test_the_first_help_page_is_that_of_the_whole_application(capsys):
    typer.main.get_command(cli.app).main(["--help"], prog_name="retrokit", standalone_mode=False)
    whole = capsys.readouterr().out
    assert "distil-static" in whole
    assert cli.run(["--help"]) == 0
    assert capsys.readouterr().out == whole
