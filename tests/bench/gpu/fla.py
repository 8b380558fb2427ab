"""flash-linear-attention's gated delta rule, if installed; Waymark doesn't need it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

NOT_INSTALLED = "not installed"
CHUNKED, RECURRENT = "chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule"
_MODULE = "fla.ops.gated_delta_rule"


def rule(name: str) -> Callable[..., Any] | str:
    """The function of this name, or why there is none."""
    if find_spec("fla") is None:
        return NOT_INSTALLED
    try:
        found: Callable[..., Any] = getattr(import_module(_MODULE), name)
    except Exception as error:  # it is built for one Triton and meets another
        print(f"flash-linear-attention: {type(error).__name__}: {error}", file=sys.stderr)
        return "does not load"
    return found


def call(rule: Callable[..., Any], arguments: Sequence[Tensor], state: Tensor) -> Tensor:
    """The outputs [n, hv, dv] of the delta rule over `arguments` from `inputs`.

    `state` [hv, dk, dv] float32 stays as it is, as where transformers calls the rule.
    """
    queries, keys, values, decay, beta = (each[None] for each in arguments)
    outputs, _ = rule(
        queries,
        keys,
        values,
        g=decay,
        beta=beta,
        initial_state=state[None],
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
    )
    found: Tensor = outputs[0]
    return found


def inputs(arguments: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Queries, keys, values, decay and beta in the types that a model in bfloat16 hands over."""
    queries, keys, values, decay, beta = arguments
    rough = (each.to(torch.bfloat16) for each in (queries, keys, values))
    return *rough, decay, beta.to(torch.bfloat16)
