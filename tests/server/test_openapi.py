"""The server's OpenAPI document: true of its fields and routes, and requests made from it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.api.params import SamplingParams
from core.server.application import COUNTS, PROTOCOLS
from core.server.requests.parameters import sampling_of
from tests.server.serving import KEY, MODEL, ScriptedEngine, Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    engine = ScriptedEngine(then="Hm.|I look.")
    engine.model = MODEL.model_copy(update={"tools": "hermes", "context_length": 20_000})
    with serving(engine.connect, tmp_path_factory.mktemp("openapi")) as running:
        yield running


def test_every_endpoint_and_every_sampling_field_is_in_the_document(served: Served) -> None:
    status, body = served.raw("/openapi.json")
    document: Any = json.loads(body)
    assert status == 200 and document["openapi"] == "3.1.0"
    paths = {*(each.path for each in PROTOCOLS), *(each.path for each in COUNTS)}
    assert document["paths"].keys() >= paths
    sampling = document["components"]["schemas"]["Sampling"]["properties"]
    for name, schema in sampling.items():
        value = 1 if "minimum" in schema else ["a"]
        assert sampling_of({name: value}) != SamplingParams(), name
    assert len(sampling) == 15


# It ignores what it doesn't know, and takes numbers for switches.
LENIENT = "negative_data_rejection"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_A3_requests_made_from_the_document_are_answered_as_it_says(
    served: Served, tmp_path: Path
) -> None:
    command = [
        str(Path(sys.executable).with_name("schemathesis")), "run", f"{served.url}/openapi.json",
        "-H", f"Authorization: Bearer {KEY}", "--checks", "all", "--exclude-checks", LENIENT,
        "--phases", "coverage,fuzzing", "--max-examples", "10", "--generation-deterministic",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
