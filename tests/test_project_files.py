"""Workflows, templates and files of trust: they can be read, ask for few rights, and agree with the code."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TOOLS = ("dev", "docs", "release")  # extras of those who change Likewise
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PINNED = re.compile(r"^\s*-? *uses: [\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+$")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_ask_for_few_rights_and_pin_their_actions(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    read = yaml.safe_load(text)
    assert read["permissions"] == {"contents": "read"}
    assert all("permissions" not in job and job["timeout-minutes"] <= 240 for job in read["jobs"].values())
    uses = [line for line in text.splitlines() if "uses:" in line]
    assert uses and [line for line in uses if not PINNED.match(line)] == []


def test_workflows_run_targets_of_the_makefile() -> None:
    targets = {name for path in WORKFLOWS for name in re.findall(r"- run: make ([\w-]+)", path.read_text())}
    assert {"lint", "test", "test-all", "nightly", "docs", "release"} <= targets
    assert [name for name in targets if not re.search(rf"^{name}:", MAKEFILE, re.MULTILINE)] == []


def test_workflows_test_every_python_that_the_project_names() -> None:
    tested = yaml.safe_load((ROOT / ".github/workflows/checks.yml").read_text())["jobs"]["tests"]
    named = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+", one)]
    assert tested["strategy"]["matrix"]["python"] == named


def test_the_lowest_versions_that_are_tested_are_those_that_the_project_allows() -> None:
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    tested = {name: Version(pin) for name, _, pin in (line.partition("==") for line in lines) if pin}
    extras = PROJECT["optional-dependencies"]
    given = [*PROJECT["dependencies"], *(one for name, own in extras.items() if name not in TOOLS for one in own)]
    asked = [Requirement(one) for one in given]
    lowest = {one.name: Version(next(iter(one.specifier)).version) for one in asked if one.specifier}
    compared = lowest.keys() & tested.keys()
    assert len(compared) >= 30 and {one: tested[one] for one in compared} == {one: lowest[one] for one in compared}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_templates_are_forms(path: Path) -> None:
    read = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.stem == "config":
        assert read == {"blank_issues_enabled": True}
        return
    assert read["name"] and read["description"]
    assert [part["attributes"]["label"] for part in read["body"]]
    assert any(part.get("validations", {}).get("required") for part in read["body"])


def test_hooks_run_what_make_lint_runs() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"  # nothing is fetched, so the versions are those of .venv
    entries = [hook["entry"] for hook in repository["hooks"]]
    for tool in ("ruff check", "ruff format", "mypy"):
        assert any(tool in entry for entry in entries) and f"/{tool}" in MAKEFILE


@pytest.mark.process
def test_the_version_is_the_same_everywhere() -> None:
    done = subprocess.run([sys.executable, ".ci/release_notes.py"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, PROJECT["version"]), done.stderr
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == PROJECT["version"]


def test_the_threat_model_names_what_the_guards_do() -> None:
    """Each kind of refusal in the code has a row, so that a new guard is described."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    settings = ast.parse((ROOT / "src/likewise/server/guards.py").read_text(encoding="utf-8"))
    codes = {
        node.value
        for node in ast.walk(settings)
        if isinstance(node, ast.Constant) and node.value in (401, 403, 413, 421)
    }
    assert codes == {401, 403, 413, 421}
    for word in ("token", "Origin", "Sec-Fetch-Site", "Host", "frame-ancestors", "HttpOnly", "413", "429"):
        assert word in text


@pytest.mark.process
def test_the_bill_of_materials_names_this_environment() -> None:
    done = subprocess.run([sys.executable, ".ci/sbom.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    bill = json.loads(done.stdout)
    names = [part["name"] for part in bill["components"]]
    assert bill["metadata"]["component"]["name"] == "likewise" and {"torch", "numpy", "typer"} <= set(names)
    assert names == sorted(names, key=str.lower) and "pip" not in names
    assert all(part["purl"].startswith("pkg:pypi/") and part["version"] for part in bill["components"])


def test_the_image_runs_the_scripts_that_the_check_runs() -> None:
    image, check = ((ROOT / name).read_text(encoding="utf-8") for name in ("Dockerfile", "docker/check"))
    for step in ("docker/install", "docker/serve", "docker/healthy.py"):
        assert step in image and step in check
    assert image.index("USER likewise") < image.index('CMD ["sh"')
    assert "HEALTHCHECK" in image


@pytest.mark.nightly
@pytest.mark.process
def test_the_steps_of_the_image_without_docker() -> None:
    # That of the system, which every user may run; not one of the user who runs the tests.
    python = next((one for one in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(one).exists()), "python3")
    folder = Path(tempfile.mkdtemp()) / "image"  # pytest's own folders are closed to other users
    folder.parent.chmod(0o755)
    command, given = ["docker/check", str(folder)], os.environ | {"PYTHON": python}
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True)
    shutil.rmtree(folder.parent)
    assert done.returncode == 0, done.stderr
    assert "refuses without it" in done.stdout
