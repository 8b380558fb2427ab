"""Set up all tests: no network, no display, private user folders, and the same random cases.

The environment is set on import, before Qt, transformers or a child process can read it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest
from hypothesis import HealthCheck, settings

from tests.forked_engines import engines_are_forked, engines_are_started

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# No test asks for the user's own keyring.
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
# Test processes share the cores: threads of theirs that wait for one another would take turns.
# Several threads are what tests/promises/test_levels.py runs with.
if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // int(workers))))
# Triton asks when it is imported. `make test-gpu` compiles instead.
if os.environ.get("WAYMARK_TEST_DEVICE") != "cuda":
    os.environ["TRITON_INTERPRET"] = "1"

# A deadline would measure the machine; the hang guard in pyproject.toml is enough.
# HYPOTHESIS_PROFILE=thorough is for long runs by hand.
settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", parent=settings.get_profile("default"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Rerun tests with a LoopWatch: a virtual machine's host can stop a processor for 200 ms.

    That counts as processor time of the running thread; what blocks the loop itself blocks it in
    every run. Only they are marked, since under xdist each marked test waits 40 ms for a delayed
    acknowledgement on the socket of pytest-rerunfailures.
    """
    if hasattr(getattr(item, "module", None), "LoopWatch"):
        item.add_marker(pytest.mark.flaky(reruns=2, only_rerun="the loop was blocked"))


def pytest_collection_finish() -> None:
    """Freeze all imported objects, which makes garbage collection several times as fast."""
    gc.collect()
    gc.freeze()


USER_FOLDERS = ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")


@pytest.fixture(scope="session", autouse=True)
def private_user_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Point every per-user folder at an empty one, so that no test reads or writes the user's."""
    home, compiled = tmp_path_factory.mktemp("home"), kernels()
    with pytest.MonkeyPatch.context() as patch:
        for name in USER_FOLDERS:
            folder = home / name.removeprefix("XDG_").removesuffix("_HOME").lower()
            folder.mkdir()
            patch.setenv(name, str(folder))
        # The app's own variable covers macOS and Windows, which know nothing of XDG.
        patch.setenv("WAYMARK_DATA", str(home / "waymark"))
        # Or every process that tests start would wait for kernels to be compiled again.
        kernels().mkdir(mode=0o700, parents=True)
        for path in compiled.glob("*.so"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copy2(path, kernels())
        yield home


@pytest.fixture(scope="session", autouse=True)
def forked_engines(private_user_folders: Path) -> Iterator[None]:
    if sys.platform != "linux":
        yield
        return
    with engines_are_forked():
        yield


@pytest.fixture(scope="module")
def started_engines() -> Iterator[None]:
    with engines_are_started():
        yield


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all test processes of a run."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def kernels() -> Path:
    return platformdirs.user_cache_path("waymark", appauthor=False) / "kernels"
