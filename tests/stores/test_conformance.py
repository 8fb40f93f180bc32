"""Milvus, PostgreSQL and a Qdrant cluster pass the conformance suite, each against its real server."""

from __future__ import annotations

import pytest
from conformance import Conformance

pytest_plugins = ("store_fixtures",)
pytestmark = pytest.mark.stores


class TestServers(Conformance):
    """The fixture ``target`` is an address on each server in turn."""
