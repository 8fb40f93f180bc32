"""Several processes: the same run as one, written by the first alone, and no waiting for one that is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from likewise.encoder import Encoder
from likewise.sample import sample_sentences
from likewise.train import TrainReport, parse_config, read_tasks, train_tasks
from likewise.train import processes as processes_module
from likewise.train.processes import Processes, launched, started_here
from training_files import paraphrase_file, sentiment_file, similarity_file, three_tasks, write_rows

PATIENCE = 300
"""Seconds after which a launch counts as hung; it takes some ten."""
ROUNDING = 1e-9
"""Of weights in double precision. AdamW makes whole steps of gradients that are nothing but rounding."""

FEED_FORWARD = dict.fromkeys(("similarity", "paraphrase", "sentiment"), 'head = "feed-forward"')
VARIANTS: dict[str, tuple[str, dict[str, str]]] = {
    "batch norm": ("shared_head = true\n", FEED_FORWARD),
    "pcgrad": ("pcgrad = true\naccumulate = 2\n", FEED_FORWARD),
    "bilstm": ("lstm = 3\n", {"similarity": 'pooling = "bilstm"', "paraphrase": 'pairs = "cross-encoder"'}),
    "smart": ("smart = 10.0\n", {"sentiment": 'head = "feed-forward"\npooling = "qkv"'}),
    "frozen": ('freeze = "lower"\n', {"similarity": 'loss = "cosent"\npooling = "cls"'}),
    "few": ("smart = 10.0\npcgrad = true\n", dict.fromkeys(FEED_FORWARD, 'pairs = "cross-encoder"')),
    "unlabelled": ("", {}),
}
UNLABELLED = "unlabelled"
"""Contrast in chunks, hidden tokens and counts; of two hidden texts one of three processes has none."""
UNLABELLED_TASKS = """
seed = 4
epochs = 2
batch = 2
learning_rate = 1e-3
[[task]]
kind = "contrastive"
views = "pairs"
train = "{folder}/similar.csv"
dev = "{folder}/similar-dev.csv"
[[task]]
kind = "mlm"
train = "{folder}/texts.csv"
dev = "{folder}/texts-dev.csv"
[[task]]
kind = "count"
pooling = "qkv"
train = "{folder}/similar.csv"
dev = "{folder}/similar-dev.csv"
"""
FEW = "few"
"""A step of two pairs of a cross-encoder, in three processes: one of them has nothing to read."""
SETTINGS = """
seed = 4
epochs = 2
batch = {batch}
hidden = 6
learning_rate = 1e-3
selection = 7
{settings}
"""

SCRIPT = '''
"""Every run of a list, then one in which the second process is gone; each tells what it saw and wrote."""
import json, os, sys
from pathlib import Path

plan, rank = json.loads(Path(sys.argv[1]).read_text()), os.environ["RANK"]
wrote = []

def listen(event, given):
    # Opened to be written, renamed or deleted.
    if event == "open" and isinstance(given[0], str) and set(str(given[1] or "r")) & set("wax+"):
        wrote.append(given[0])
    elif event in ("os.rename", "os.remove"):
        wrote.append(str(given[0]))

sys.addaudithook(listen)
import torch
from likewise.encoder import Encoder
from likewise.train import parse_config, read_tasks, train_tasks
from dataclasses import replace

torch.set_num_threads(1)

def run(text, out, progress=None):
    config = replace(parse_config(text), out=out)
    encoder = Encoder.load(plan["model"], device="cpu", dtype="float64")
    return train_tasks(encoder, read_tasks(config.tasks)[0], config, progress=progress)

def gone(done, total, note):
    if rank == "1" and note.startswith("steps"):
        os._exit(3)

found = {name: run(text, f"{plan['out']}/{name}").epochs for name, text in plan["runs"].items()}
told = {"epochs": found, "wrote": [path for path in wrote if path.startswith(plan["out"])]}
Path(f"{plan['told']}/{rank}.json").write_text(json.dumps(told))
run(next(iter(plan["runs"].values())), f"{plan['out']}/gone", gone)
Path(f"{plan['told']}/{rank}.end").write_text("")
'''


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def config_text(folder: Path, name: str) -> str:
    if name == UNLABELLED:
        return UNLABELLED_TASKS.format(folder=folder)
    settings, tasks = VARIANTS[name]
    return SETTINGS.format(settings=settings, batch=2 if name == FEW else 5) + three_tasks(folder, **tasks)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of odd lengths, so that shares are uneven and last batches short."""
    place = tmp_path_factory.mktemp("files")
    for number, (part, count) in enumerate((("", 13), ("-dev", 9))):
        similarity_file(place / f"similar{part}.csv", count, number)
        texts = sample_sentences()[20 * number : 20 * number + count]
        write_rows(place / f"texts{part}.csv", ["sentence"], [[text] for text in texts])
        paraphrase_file(place / f"same{part}.csv", count - 2, number + 10)
        sentiment_file(place / f"felt{part}.csv", count - 4, number + 20)
    return place


@dataclass(frozen=True)
class Launch:
    """What two processes left."""

    code: int
    err: str
    out: Path
    summary: Path

    def of(self, rank: int) -> dict[str, Any]:
        assert (self.summary / f"{rank}.json").exists(), self.err
        found: dict[str, Any] = json.loads((self.summary / f"{rank}.json").read_text())
        return found


def launch(place: Path, count: int, model: Path, runs: dict[str, str]) -> Launch:
    """Several runs in one launch: starting Python takes longer than they do."""
    (place / "told").mkdir()
    run_plan = {"model": str(model), "runs": runs, "out": str(place / "out"), "told": str(place / "told")}
    (place / "plan.json").write_text(json.dumps(run_plan))
    (place / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(count)]
    done = subprocess.run(
        [*command, str(place / "script.py"), str(place / "plan.json")],
        env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    return Launch(done.returncode, done.stderr, place / "out", place / "told")


@pytest.fixture(scope="module")
def two(folder: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Launch:
    runs = {name: config_text(folder, name) for name in VARIANTS if name != FEW}
    return launch(tmp_path_factory.mktemp("two"), 2, tiny_folder, runs)


@pytest.fixture(scope="module")
def three(folder: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Launch:
    runs = {name: config_text(folder, name) for name in (FEW, UNLABELLED)}
    return launch(tmp_path_factory.mktemp("three"), 3, tiny_folder, runs)


@pytest.fixture(scope="module")
def alone(folder: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """A run in this process: its folder and its report."""

    def run(name: str) -> tuple[Path, TrainReport]:
        out = tmp_path_factory.mktemp("alone") / "run"
        config = replace(parse_config(config_text(folder, name)), out=str(out))
        encoder = Encoder.load(str(tiny_folder), device="cpu", dtype="float64")
        return out, train_tasks(encoder, read_tasks(config.tasks)[0], config)

    return run


def plain_numbers(found: Any) -> list[float]:
    """All numbers of nested JSON, in order."""
    if isinstance(found, dict):
        return [number for name in sorted(found) for number in plain_numbers(found[name])]
    if isinstance(found, (list, tuple)):
        return [number for each in found for number in plain_numbers(each)]
    return [float(found)]


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("name", [name for name in VARIANTS if name != FEW])
def test_two_processes_end_where_one_does(two: Launch, alone: Callable[[str], Any], name: str) -> None:
    require_same(two, 2, alone, name)


@pytest.mark.process
@pytest.mark.slow
def test_a_process_without_a_text_follows_the_others(three: Launch, alone: Callable[[str], Any]) -> None:
    for name in (FEW, UNLABELLED):
        require_same(three, 3, alone, name)


def require_same(several: Launch, count: int, alone: Callable[[str], Any], name: str) -> None:
    seen = [several.of(rank)["epochs"][name] for rank in range(count)]
    # To the bit: where they judged an epoch differently, one would stop and the others wait.
    assert all(each == seen[0] for each in seen)
    out, report = alone(name)
    expected = plain_numbers(report.epochs)
    assert plain_numbers(seen[0]) == pytest.approx(expected, rel=ROUNDING, abs=ROUNDING, nan_ok=True)
    for file in ("model.safetensors", "head.safetensors"):
        one, other = load_file(out / file), load_file(several.out / name / file)
        assert one.keys() == other.keys() and any(each.dtype == torch.float64 for each in one.values())
        gaps = {weight: float((one[weight].double() - other[weight].double()).abs().max()) for weight in one}
        assert max(gaps.values()) < ROUNDING, max(gaps, key=gaps.__getitem__)


@pytest.mark.process
def test_runs_moved_the_weights_they_are_compared_by(two: Launch, tiny_folder: Path) -> None:
    two.of(0)
    before, after = load_file(tiny_folder / "model.safetensors"), load_file(two.out / "batch norm/model.safetensors")
    moved = max(float((before[name] - after[name]).abs().max()) for name in after)
    assert moved > 1e6 * ROUNDING


@pytest.mark.process
def test_the_first_process_alone_writes(two: Launch) -> None:
    assert two.of(1)["wrote"] == []
    wrote = two.of(0)["wrote"]
    assert any(path.endswith("checkpoint.draft") for path in wrote)
    assert all(any(f"/{name}/" in path for path in wrote) for name in VARIANTS if name != FEW)


@pytest.mark.process
def test_nobody_waits_for_a_process_that_is_gone(two: Launch) -> None:
    assert two.of(0) and two.of(1)
    assert two.code != 0 and not list(two.summary.glob("*.end"))


# A mistake on the command line


@pytest.fixture(scope="module")
def mistaken(folder: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Launch, str]:
    place = tmp_path_factory.mktemp("mistaken")
    config = place / "bad.toml"
    config.write_text(f'model = "{tiny_folder}"\n' + config_text(folder, "frozen").replace("epochs", "epochz"))
    command = [sys.executable, "-m", "likewise", "train", str(config), "--out", str(place / "run")]
    done = subprocess.run(
        [*command, "--processes", "2"], env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    return Launch(done.returncode, done.stderr, place / "run", place), done.stdout


@pytest.mark.process
def test_a_mistake_ends_all_processes(mistaken: tuple[Launch, str]) -> None:
    launch, out = mistaken
    assert launch.code != 0 and out == "" and not launch.out.exists()
    assert "unknown setting epochz of a config; did you mean epochs?" in launch.err


@pytest.mark.process
def test_a_mistake_is_told_once(mistaken: tuple[Launch, str]) -> None:
    launch, _ = mistaken
    assert launch.code == 2 and len(launch.err.strip().splitlines()) == 1


# Parts


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_shares_are_all_texts_and_none_twice(count: int) -> None:
    for texts in range(9):
        shares = [Processes(rank, count).share(texts) for rank in range(count)]
        assert sorted(place for share in shares for place in share) == list(range(texts))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


class Others:
    """Stands in for torch.distributed: what the other processes would have sent is known."""

    def __init__(self, parts: list[torch.Tensor]) -> None:
        self.parts = parts

    def all_gather(self, found: list[torch.Tensor], mine: torch.Tensor) -> None:
        for place, part in zip(found, self.parts, strict=True):
            assert place.shape == part.shape == mine.shape
            place.copy_(part)

    def all_reduce(self, value: torch.Tensor) -> None:
        value *= len(self.parts)


@pytest.mark.parametrize(("count", "texts"), [(2, 5), (2, 6), (3, 7), (3, 2), (4, 5)])
def test_gathered_rows_stand_in_order(count: int, texts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.arange(texts * 2, dtype=torch.float64).reshape(texts, 2) + 1
    most = -(-texts // count)
    parts = []
    for rank in range(count):
        mine = rows[Processes(rank, count).share(texts)]
        parts.append(torch.cat([mine, mine.new_zeros(most - len(mine), 2)]))
    monkeypatch.setattr(processes_module, "dist", Others(parts))
    for rank in range(count):
        processes = Processes(rank, count)
        mine = rows[processes.share(texts)].requires_grad_()
        found = processes.gathered(mine, texts)
        assert torch.equal(found.detach(), rows)
        # Each process computes the whole loss, so a row's gradient comes as often as there are processes.
        (slope,) = torch.autograd.grad((found * rows).sum(), [mine])
        assert torch.equal(slope, count * rows[processes.share(texts)])


def test_gradients_are_averaged_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes_module, "dist", Others([torch.zeros(1)] * 3))
    gradient = torch.tensor([2.0, -4.0])
    Processes(1, 3).average([gradient])
    assert torch.equal(gradient, torch.tensor([2.0, -4.0]))
    Processes().average([gradient])
    assert Processes().gathered(gradient, 2) is gradient


def test_a_launch_runs_the_same_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(subprocess, "call", lambda command: seen.append(command) or 7)
    assert launched(3, ["train", "x.toml", "--processes", "3"]) == 7
    command = seen[0]
    assert command[0] == sys.executable and command[command.index("--nproc_per_node") + 1] == "3"
    assert command[-6:] == ["-m", "likewise", "train", "x.toml", "--processes", "3"]


def test_a_launched_process_does_not_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert started_here() and Processes.joined(cpu=True) == Processes(0, 1)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert not started_here()
