"""The stores that need no server pass the conformance suite: folders and Milvus Lite."""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance import Conformance, FolderTarget, ServerTarget


class TestFolder(Conformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> FolderTarget:
        return FolderTarget(tmp_path / "index")


class TestMilvusLite(Conformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> ServerTarget:
        pytest.importorskip("milvus_lite")
        return ServerTarget(f"milvus:{tmp_path / 'index.db'}")
