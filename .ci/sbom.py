"""Prints a bill of materials (CycloneDX 1.6, JSON) of the environment that runs it."""

from __future__ import annotations

import json
from importlib.metadata import Distribution, distributions
from typing import Any

OWN = "likewise"
TOOLS = {"pip", "setuptools", "wheel", "hatchling", "editables"}
"""Packages that build or install, and are no part of the product."""


def component(found: Distribution) -> dict[str, Any]:
    """A package with its version, licence and summary."""
    name, version = found.metadata["Name"], found.version
    # Newer packages give an SPDX expression, older ones a text of any length.
    licence = found.metadata.get("License-Expression") or (found.metadata.get("License") or "").strip()
    licences = [{"license": {"name": licence.splitlines()[0][:100]}}] if licence else []
    purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    described = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    return described | ({"licenses": licences} if licences else {})


def bill() -> dict[str, Any]:
    """The document; packages are sorted, and there is no time in it, so that the same environment gives the same."""
    found = sorted((component(one) for one in distributions()), key=lambda one: one["name"].lower())
    (own,) = [one for one in found if one["name"] == OWN]
    parts = [one for one in found if one["name"] != OWN and one["name"].lower() not in TOOLS]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own | {"type": "application"}},
        "components": parts,
    }


if __name__ == "__main__":
    print(json.dumps(bill(), indent=2))
