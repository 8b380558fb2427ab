"""How many mutants a run makes: a tenth in `make test`, all in `make test-hostile`."""

from __future__ import annotations

import os


def mutants(full: int) -> int:
    """`full` of them where WAYMARK_HOSTILE is `full`, else a tenth; always the same ones first."""
    return full if os.environ.get("WAYMARK_HOSTILE") == "full" else full // 10
