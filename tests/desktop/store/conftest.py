from __future__ import annotations

from pathlib import Path

import pytest

from tests.desktop.store.damage import write_chats


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "chats.db"
    write_chats(path)
    return path
