"""The workflow that makes a release, as far as it can be held to the tree without running it."""

from __future__ import annotations

import re

import pytest

from core.client.programs import ROOT
from tests.packaging.scripts import script

WORKFLOW = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
CI = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
USES = re.findall(r"uses: (.+)", WORKFLOW + CI)
JOBS = dict(
    re.findall(
        r"^  ([\w-]+):\n(.*?)(?=^  [\w-]+:\n|\Z)", WORKFLOW.partition("\njobs:\n")[2], re.M | re.S
    )
)
SIGNING = ["windows-sign", "windows-sign-installer", "macos-sign", "macos-notarise"]


@pytest.mark.parametrize("action", sorted(set(USES)))
def test_an_action_is_pinned_to_a_commit_and_says_its_version(action: str) -> None:
    assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)


def test_only_the_draft_may_write_and_only_the_attestation_may_sign_for_us() -> None:
    assert "\npermissions: {}\n" in WORKFLOW
    rights = {name: re.findall(r"^      ([\w-]+: write)", job, re.M) for name, job in JOBS.items()}
    assert {name: each for name, each in rights.items() if each} == {
        "attest": ["id-token: write", "attestations: write"],
        "draft": ["contents: write"],
    }
    draft, attest = JOBS["draft"], JOBS["attest"]
    assert "--draft" in draft and "SHA256SUMS" in draft and "secrets." not in draft + attest
    assert "run:" not in attest and "attest-build-provenance" in attest
    assert re.search(r"needs: \[.*\battest\b.*\]", draft)


def test_a_job_with_secrets_only_signs() -> None:
    """Nothing that was installed runs beside a secret, and nothing is signed that was not built."""
    assert [name for name, job in JOBS.items() if "secrets." in job] == SIGNING
    assert [name for name, job in JOBS.items() if "environment: release" in job] == SIGNING
    for name in SIGNING:
        assert not re.search(r"\b(pip|npm|venv|setup-python|make|build\.py)\b", JOBS[name]), name
        assert "download-artifact" in JOBS[name]


def test_what_is_installed_is_installed_by_its_hash() -> None:
    for line in re.findall(r".*\bpip install\b.*", WORKFLOW):
        assert "--require-hashes" in line and "--no-deps" in line
    assert WORKFLOW.count("packaging/installers/install.py") == 2 and "make installer" in WORKFLOW
    assert "npm ci" in WORKFLOW and "npm install" not in WORKFLOW
    # The image and the runtime that are not ours are pinned by their bytes.
    assert re.search(r"container: \S+@sha256:[0-9a-f]{64}\n", WORKFLOW)
    assert re.search(r"RUNTIME_SHA256: [0-9a-f]{64}\n", WORKFLOW)


def test_a_step_that_is_given_a_secret_is_skipped_without_it() -> None:
    steps = re.findall(r"^      - .*?(?=^      - |^  \w|\Z)", WORKFLOW, re.MULTILINE | re.DOTALL)
    given = [step for step in steps if "${{ secrets." in step]
    assert len(given) == 8
    assert all(
        re.search(r"^        if: env\.(SIGNS|NOTARISES) == 'true'$", step, re.M) for step in given
    )


def test_the_files_that_it_names_are_there() -> None:
    named = set(re.findall(r"packaging/installers/[\w/]+\.\w+", WORKFLOW))
    assert len(named) == 8
    assert not [name for name in named if not (ROOT / name).is_file()]


def test_a_tag_is_held_to_the_version(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    version = script("version")
    assert version.main(["--tag", f"v{version.version()}"]) == 0
    assert capsys.readouterr().out.strip() == version.version()
    assert version.main(["--tag", "v99.0.0"]) == 1
    assert "v99.0.0" in capsys.readouterr().err
    # Windows has no form for other versions.
    monkeypatch.setattr(version, "version", lambda: "1.0.0rc1")
    assert version.main(["--tag", "v1.0.0rc1"]) == 1
    assert "three numbers" in capsys.readouterr().err
