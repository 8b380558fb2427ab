"""The operations of a processor that its compiled kernels do, and torch where none fits.

Which of the two runs is decided by shapes and types alone, so equal calls always take the same way.
What kernels have no room for goes through torch. The file is as long as there are operations: one
method each, which says what its kernel takes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, get_num_threads

from kernels.common.shapes import Routing
from kernels.common.trace import NotCapturableError
from kernels.experts.native import MOST_CHOSEN, NativeExperts, alike
from kernels.experts.reference import Activation, ExpertBank
from kernels.linear.native import NativeBfloatMatrix, Product
from kernels.linear.reference import Matrix, PlainMatrix
from kernels.native.library import TYPES, Library, address
from kernels.ops import PLAIN_OPS, Ops, composed

# Of attention's two kernels, gated_delta/native.c, gated_delta/native_chunked.c, mamba2/native.c.
_WIDEST_HEAD, _WIDEST_KEY, _WIDEST_IN_CHUNKS, _WIDEST_SPACE = 512, 1024, 256, 256
_MOST_STATES = 64  # of mamba1/native.c


def native_ops(library: Library, widened: bool = False) -> Ops:
    """The set that calls `library`. Every result is a new tensor, whatever is said elsewhere.

    `widened`: attention of many tokens goes without the processor's bfloat16 instructions.
    """
    native = _NativeOps(library, widened)
    single = replace(
        PLAIN_OPS,
        rms_norm=native.rms_norm,
        gated_rms_norm=native.gated_rms_norm,
        convolve=native.convolve,
        causal_conv_step=native.causal_conv_step,
        short_conv=native.short_conv,
        chunked_gated_delta_=native.chunked_gated_delta_,
        recurrent_gated_delta_step=native.recurrent_gated_delta_step,
        delta_gates=native.delta_gates,
        time_steps=native.time_steps,
        mamba1_run_=native.mamba1_run_,
        mamba1_step=native.mamba1_step,
        mamba2_run_=native.mamba2_run_,
        mamba2_step=native.mamba2_step,
        gated_group_norm=native.gated_group_norm,
        rotate=native.rotate,
        causal_attention=native.causal_attention,
        run_attention=native.run_attention,
        full_attention=native.full_attention,
        swiglu=native.swiglu,
        geglu=native.geglu,
        squared_relu=native.squared_relu,
        open_gate=native.open_gate,
        add=native.add,
        route=native.route,
        experts=native.experts,
        weighted_sum=native.weighted_sum,
    )
    return composed(single)


class _NativeOps:
    """As the functions of the same names in `reference`."""

    def __init__(self, library: Library, widened: bool) -> None:
        self._library, self._widened = library, widened

    def rms_norm(self, inputs: Tensor, scale: Tensor, epsilon: float) -> Tensor:
        if inputs.dim() not in {2, 3} or not _rows(inputs):
            return PLAIN_OPS.rms_norm(inputs, scale, epsilon)
        given = inputs if inputs.dim() == 3 else inputs.unsqueeze(1)
        result = torch.empty(inputs.shape, dtype=inputs.dtype)
        self._library.rms_norm(
            given.data_ptr(), scale.data_ptr(), result.data_ptr(), *given.shape,
            given.stride(0), given.stride(1), epsilon, _is_bfloat(given), get_num_threads(),
        )  # fmt: skip
        return result

    def gated_rms_norm(
        self, inputs: Tensor, scale: Tensor, gate: Tensor, epsilon: float, dtype: torch.dtype
    ) -> Tensor:
        fits = inputs.dim() == 3 and inputs.is_contiguous() and inputs.dtype == torch.float32
        if not (fits and _rows(gate) and gate.dtype == dtype and _together(gate)):
            return PLAIN_OPS.gated_rms_norm(inputs, scale, gate, epsilon, dtype)
        result = torch.empty(inputs.shape, dtype=dtype)
        self._library.gated_rms_norm(
            inputs.data_ptr(), scale.data_ptr(), gate.data_ptr(), result.data_ptr(), *inputs.shape,
            gate.stride(0), epsilon, _is_bfloat(result), get_num_threads(),
        )  # fmt: skip
        return result

    def convolve(
        self,
        rows: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        taps, channels = weight.shape
        if not (_rows(rows) and dtype in TYPES):
            return PLAIN_OPS.convolve(rows, weight, bias, dtype)
        result = torch.empty(rows.shape[0] - taps + 1, channels, dtype=dtype)
        self._library.convolve(
            *map(address, (rows, weight, bias, result)), *result.shape, taps, rows.stride(0),
            _is_bfloat(rows), _is_bfloat(result), get_num_threads(),
        )  # fmt: skip
        return result

    def causal_conv_step(
        self,
        inputs: Tensor,
        tail: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        taps, channels = weight.shape
        lie = tail.is_contiguous() and tail.dtype == inputs.dtype
        if not (_rows(inputs) and lie and dtype in TYPES):
            return PLAIN_OPS.causal_conv_step(inputs, tail, weight, bias, dtype)
        result = torch.empty(1, channels, dtype=dtype)
        self._library.conv_step(
            *map(address, (inputs, tail, weight, bias, result)), channels, taps,
            _is_bfloat(inputs), _is_bfloat(result),
        )  # fmt: skip
        return result

    def short_conv(
        self, projected: Tensor, tail: Tensor, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        taps, channels = weight.shape
        alike = tail.is_contiguous() and tail.dtype == projected.dtype
        if not (_rows(projected) and alike):
            return PLAIN_OPS.short_conv(projected, tail, weight, bias)
        num_tokens, dtype = projected.shape[0], projected.dtype
        result = torch.empty(num_tokens, channels, dtype=dtype)
        rows = torch.empty(num_tokens + taps - 1, channels, dtype=dtype)
        self._library.short_conv(
            *map(address, (projected, tail, weight, bias, result, rows)), *result.shape, taps,
            projected.stride(0), _is_bfloat(projected), get_num_threads(),
        )  # fmt: skip
        return result

    def recurrent_gated_delta_step(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        decay: Tensor,
        beta: Tensor,
        *,
        state: Tensor,
    ) -> Tensor:
        inputs = (queries, keys, values, decay, beta)
        fits = keys.shape[2] <= _WIDEST_KEY and state.is_contiguous()
        if not (fits and all(each.dtype == torch.float32 and _together(each) for each in inputs)):
            return PLAIN_OPS.recurrent_gated_delta_step(*inputs, state=state)
        result = torch.empty(values.shape)
        self._library.delta_step(
            *map(address, inputs), state.data_ptr(), result.data_ptr(), keys.shape[1], *state.shape,
            get_num_threads(),
        )  # fmt: skip
        return result

    def chunked_gated_delta_(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        decay: Tensor,
        beta: Tensor,
        *,
        state: Tensor,
    ) -> Tensor:
        inputs, gates = (queries, keys, values), (decay, beta)
        key_dim, value_dim = state.shape[1:]
        fits = max(key_dim, value_dim) <= _WIDEST_IN_CHUNKS and value_dim % 16 == 0
        fits = fits and keys.shape[0] > 0 and state.shape[0] % keys.shape[1] == 0
        float32 = all(each.dtype == torch.float32 for each in (*inputs, *gates))
        lie = all(map(_together, inputs)) and all(each.is_contiguous() for each in (*gates, state))
        if not (fits and float32 and lie):
            return PLAIN_OPS.chunked_gated_delta_(*inputs, *gates, state=state)
        result = torch.empty(values.shape)
        self._library.delta_run(
            *map(address, (*inputs, *gates, state, result)), keys.shape[0], keys.shape[1],
            *state.shape, *(each.stride(0) for each in inputs), get_num_threads(),
        )  # fmt: skip
        return result

    def delta_gates(
        self, step: Tensor, beta: Tensor, rate: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        alike = step.stride() == beta.stride() and step.dtype == beta.dtype
        if not (alike and _rows(step)):
            return PLAIN_OPS.delta_gates(step, beta, rate, bias)
        decay, open_by = torch.empty(step.shape), torch.empty(step.shape)
        self._library.delta_gates(
            *map(address, (step, beta, rate, bias, decay, open_by)), *step.shape, step.stride(0),
            _is_bfloat(step),
        )  # fmt: skip
        return decay, open_by

    def time_steps(
        self, steps: Tensor, bias: Tensor, multiplier: float, shortest: float, longest: float
    ) -> Tensor:
        if not _rows(steps):
            return PLAIN_OPS.time_steps(steps, bias, multiplier, shortest, longest)
        result = torch.empty(steps.shape)
        self._library.time_steps(
            *map(address, (steps, bias, result)), *steps.shape, steps.stride(0), multiplier,
            shortest, longest, _is_bfloat(steps), get_num_threads(),
        )  # fmt: skip
        return result

    def mamba1_step(
        self,
        inputs: Tensor,
        b: Tensor,
        c: Tensor,
        steps: Tensor,
        rate: Tensor,
        skip: Tensor,
        *,
        state: Tensor,
    ) -> Tensor:
        given = (inputs, b, c, steps, rate, skip)
        found = self._scan(self._library.mamba1_step, *given, state)
        return PLAIN_OPS.mamba1_step(*given, state=state) if found is None else found

    def mamba1_run_(
        self,
        inputs: Tensor,
        b: Tensor,
        c: Tensor,
        steps: Tensor,
        rate: Tensor,
        skip: Tensor,
        *,
        state: Tensor,
    ) -> Tensor:
        given = (inputs, b, c, steps, rate, skip)
        found = self._scan(self._library.mamba1_run, *given, state)
        return PLAIN_OPS.mamba1_run_(*given, state=state) if found is None else found

    @staticmethod
    def _scan(
        kernel: Callable[..., None],
        inputs: Tensor,
        b: Tensor,
        c: Tensor,
        steps: Tensor,
        rate: Tensor,
        skip: Tensor,
        state: Tensor,
    ) -> Tensor | None:
        rows, numbers = (inputs, b, c), (steps, rate, skip, state)
        dim, channels = state.shape
        fits = channels % 16 == 0 and dim <= _MOST_STATES
        alike = inputs.dtype == b.dtype == c.dtype and all(map(_rows, rows))
        if not (fits and alike and all(map(_is_plain, numbers))):
            return None
        result = torch.empty(steps.shape)
        kernel(
            *map(address, (*rows, *numbers, result)), *inputs.shape, dim,
            *(each.stride(0) for each in rows), _is_bfloat(inputs), get_num_threads(),
        )  # fmt: skip
        return result

    def mamba2_step(
        self,
        inputs: Tensor,
        b: Tensor,
        c: Tensor,
        steps: Tensor,
        rate: Tensor,
        skip: Tensor,
        *,
        state: Tensor,
    ) -> Tensor:
        given = (inputs, b, c, steps, rate, skip)
        found = self._state_space(self._library.mamba2_step, *given, state)
        return PLAIN_OPS.mamba2_step(*given, state=state) if found is None else found

    def mamba2_run_(
        self,
        inputs: Tensor,
        b: Tensor,
        c: Tensor,
        steps: Tensor,
        rate: Tensor,
        skip: Tensor,
        *,
        state: Tensor,
    ) -> Tensor:
        given = (inputs, b, c, steps, rate, skip)
        found = self._state_space(self._library.mamba2_run, *given, state)
        return PLAIN_OPS.mamba2_run_(*given, state=state) if found is None else found

    @staticmethod
    def _state_space(
        kernel: Callable[..., None],
        inputs: Tensor,
        b: Tensor,
        c: Tensor,
        steps: Tensor,
        rate: Tensor,
        skip: Tensor,
        state: Tensor,
    ) -> Tensor | None:
        rows, numbers = (inputs, b, c), (steps, rate, skip, state)
        heads, width, dim = state.shape
        fits = width <= _WIDEST_SPACE and dim % 16 == 0 and heads % b.shape[1] == 0
        float32 = all(each.dtype == torch.float32 for each in (*rows, *numbers))
        lie = all(map(_together, rows)) and all(each.is_contiguous() for each in numbers)
        if not (fits and float32 and lie and b.shape == c.shape):
            return None
        result = torch.empty(inputs.shape)
        kernel(
            *map(address, (*rows, *numbers, result)), inputs.shape[0], heads, b.shape[1], width,
            dim, *(each.stride(0) for each in rows), get_num_threads(),
        )  # fmt: skip
        return result

    def gated_group_norm(
        self,
        inputs: Tensor,
        scale: Tensor | None,
        gate: Tensor,
        epsilon: float,
        multiplier: float,
        gate_first: bool,
    ) -> Tensor:
        if not (inputs.is_contiguous() and inputs.dtype == torch.float32 and _rows(gate)):
            return PLAIN_OPS.gated_group_norm(inputs, scale, gate, epsilon, multiplier, gate_first)
        result = torch.empty(gate.shape, dtype=gate.dtype)
        self._library.gated_group_norm(
            *map(address, (inputs, scale, gate, result)), *inputs.shape, gate.stride(0), epsilon,
            multiplier, gate_first, _is_bfloat(gate), get_num_threads(),
        )  # fmt: skip
        return result

    def rotate(self, heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        alike = heads.dtype == cosine.dtype == sine.dtype
        if not (alike and _rows(heads) and cosine.is_contiguous() and sine.is_contiguous()):
            return PLAIN_OPS.rotate(heads, cosine, sine)
        result = torch.empty(heads.shape, dtype=heads.dtype)
        self._library.rotate(
            *map(address, (heads, cosine, sine, result)), *heads.shape, cosine.shape[1],
            heads.stride(0), heads.stride(1), _is_bfloat(heads), get_num_threads(),
        )  # fmt: skip
        return result

    def causal_attention(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        scale: float,
        window: int | None = None,
    ) -> Tensor:
        if queries.shape[0] == 1:
            found = self._attention_of_one(queries, keys, values, scale, window)
        else:
            found = self._attention_of_many(queries, keys, values, scale, window, causal=True)
        if found is None:
            return PLAIN_OPS.causal_attention(queries, keys, values, scale, window)
        return found

    def run_attention(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        scale: float,
        window: int | None = None,
    ) -> Tensor:
        found = self._attention_of_many(queries, keys, values, scale, window, causal=False)
        if found is None:
            return PLAIN_OPS.run_attention(queries, keys, values, scale, window)
        return found

    def full_attention(self, queries: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        found = self._attention_of_many(queries, keys, values, scale, None, causal=False)
        return PLAIN_OPS.full_attention(queries, keys, values, scale) if found is None else found

    def _attention_of_one(
        self, query: Tensor, keys: Tensor, values: Tensor, scale: float, window: int | None
    ) -> Tensor | None:
        if not (_attended(query, keys, values) and query.dtype in TYPES):
            return None
        result = torch.empty(query.shape, dtype=query.dtype)
        self._library.attend(
            *map(address, (query, keys, values, result)), self._token_of(keys), keys.shape[0],
            window or 0, *_groups(query, keys), keys.stride(0), values.stride(0), scale,
            _is_bfloat(query), get_num_threads(),
        )  # fmt: skip
        return result

    def _attention_of_many(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        scale: float,
        window: int | None,
        *,
        causal: bool,
    ) -> Tensor | None:
        if not (_is_bfloat(queries) and scale > 0 and _attended(queries, keys, values)):
            return None
        if self._library.token is not None:
            raise NotCapturableError("attention of many tokens")
        result = torch.empty(queries.shape, dtype=queries.dtype)
        self._library.attend_many(
            *map(address, (queries, keys, values, result)), queries.shape[0], keys.shape[0],
            window or 0, *_groups(queries, keys), queries.stride(0), keys.stride(0),
            values.stride(0), scale, causal, get_num_threads(), self._widened,
        )  # fmt: skip
        return result

    def _token_of(self, keys: Tensor) -> int | None:
        """Where the token's number lies while a step is captured, whose keys will be more."""
        token = self._library.token
        if token is None:
            return None
        if keys.shape[0] != token.value + 1:
            raise NotCapturableError("attention to a part of the context")
        return ctypes.addressof(token)

    def swiglu(self, gate: Tensor, up: Tensor, multiplier: float = 1.0) -> Tensor:
        product = self._gated_product(self._library.swiglu, gate, up, multiplier)
        return PLAIN_OPS.swiglu(gate, up, multiplier) if product is None else product

    def geglu(self, gate: Tensor, up: Tensor) -> Tensor:
        product = self._gated_product(self._library.geglu, gate, up, 1.0)
        return PLAIN_OPS.geglu(gate, up) if product is None else product

    def squared_relu(self, inputs: Tensor) -> Tensor:
        product = self._gated_product(self._library.reglu, inputs, inputs, 1.0)
        return PLAIN_OPS.squared_relu(inputs) if product is None else product

    @staticmethod
    def _gated_product(
        kernel: Callable[..., None], gate: Tensor, up: Tensor, multiplier: float
    ) -> Tensor | None:
        alike = gate.stride() == up.stride() and gate.dtype == up.dtype
        if not (alike and gate.dim() == 2 and _rows(gate)):
            return None
        result = torch.empty(gate.shape, dtype=gate.dtype)
        kernel(
            *map(address, (gate, up, result)), *gate.shape, gate.stride(0), multiplier,
            _is_bfloat(gate), get_num_threads(),
        )  # fmt: skip
        return result

    def open_gate(self, attended: Tensor, gate: Tensor) -> Tensor:
        alike = attended.dtype == gate.dtype and attended.shape == gate.shape
        if not (alike and _rows(gate) and attended.is_contiguous()):
            return PLAIN_OPS.open_gate(attended, gate)
        result = torch.empty(gate.shape, dtype=gate.dtype)
        self._library.open_gate(
            *map(address, (attended, gate, result)), *gate.shape, gate.stride(0), gate.stride(1),
            _is_bfloat(gate), get_num_threads(),
        )  # fmt: skip
        return result

    def add(self, first: Tensor, second: Tensor, multiplier: float = 1.0) -> Tensor:
        alike = first.dtype == second.dtype and first.shape == second.shape
        together = first.is_contiguous() and second.is_contiguous() and first.dim() == 2
        if not (alike and together and first.dtype in TYPES):
            return PLAIN_OPS.add(first, second, multiplier)
        result = torch.empty(first.shape, dtype=first.dtype)
        self._library.add(
            *map(address, (first, second, result)), *first.shape, multiplier, _is_bfloat(first),
            get_num_threads(),
        )  # fmt: skip
        return result

    def route(
        self, logits: Tensor, routing: Routing, correction: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        k, groups, count = routing.k, routing.groups, logits.shape[1]
        whole = count % groups == 0 and (groups == 1 or count // groups > 1)
        open_groups = min(groups, routing.open_groups)
        few = 0 < k <= min(MOST_CHOSEN, count // groups * open_groups)
        if not (_rows(logits) and whole and few and open_groups <= MOST_CHOSEN):
            return PLAIN_OPS.route(logits, routing, correction)
        ids = torch.empty(logits.shape[0], k, dtype=torch.int32)
        weights = torch.empty(logits.shape[0], k)
        self._library.route(
            *map(address, (logits, correction, ids, weights)), *logits.shape, k, logits.stride(0),
            groups, open_groups, routing.scale, routing.normalise, routing.sigmoid,
            _is_bfloat(logits), get_num_threads(),
        )  # fmt: skip
        return ids, weights

    def experts(
        self, up: Sequence[Matrix], down: Sequence[Matrix], activation: Activation
    ) -> ExpertBank:
        first, second = (alike(list(map(self._native, each))) for each in (up, down))
        if first is None or second is None:
            return PLAIN_OPS.experts(up, down, activation)
        return NativeExperts(self._library, first, second, activation)

    def _native(self, matrix: Matrix) -> Matrix:
        """A matrix of bfloat16 that is held as published, as the kernels read it."""
        if not isinstance(matrix, PlainMatrix) or not _is_bfloat(matrix.weight):
            return matrix
        way: Product = "floats" if self._widened else "pairs"
        weight = matrix.weight.contiguous()
        return NativeBfloatMatrix(self._library, weight, matrix.bias, way)

    def weighted_sum(
        self,
        places: Tensor | None,
        rows: Tensor,
        weights: Tensor,
        shared: Tensor | None = None,
        gate: Tensor | None = None,
    ) -> Tensor:
        beside = [each for each in (shared, gate) if each is not None]
        alike = all(each.dtype == rows.dtype for each in beside) and len(beside) != 1
        together = all(each.is_contiguous() for each in (rows, weights, *beside[:1]))
        if not (alike and together and rows.dtype in TYPES):
            return PLAIN_OPS.weighted_sum(places, rows, weights, shared, gate)
        result = torch.empty(weights.shape[0], rows.shape[1], dtype=rows.dtype)
        self._library.weighted_sum(
            *map(address, (rows, places, weights, shared, gate, result)), *weights.shape,
            rows.shape[1], gate.stride(0) if gate is not None else 0, _is_bfloat(rows),
            get_num_threads(),
        )  # fmt: skip
        return result


def _attended(queries: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether there are keys of as many numbers as kernels have room for, and lie as they read."""
    alike = queries.dtype == keys.dtype == values.dtype and keys.shape == values.shape
    fits = 0 < queries.shape[2] == keys.shape[2] <= _WIDEST_HEAD and keys.shape[0] > 0
    shared = keys.shape[1] > 0 and queries.shape[1] % keys.shape[1] == 0
    return alike and fits and shared and all(map(_together, (queries, keys, values)))


def _groups(queries: Tensor, keys: Tensor) -> tuple[int, int, int]:
    """Heads of keys, queries that share one, and numbers of a head."""
    return keys.shape[1], queries.shape[1] // keys.shape[1], queries.shape[2]


def _is_bfloat(tensor: Tensor) -> bool:
    return tensor.dtype == torch.bfloat16


def _is_plain(tensor: Tensor) -> bool:
    return tensor.dtype == torch.float32 and tensor.is_contiguous()


def _rows(tensor: Tensor) -> bool:
    """Whether the numbers of a row lie side by side, and are of a type that kernels read."""
    return tensor.dtype in TYPES and tensor.stride(-1) == 1


def _together(tensor: Tensor) -> bool:
    """Whether all numbers of a token lie side by side."""
    heads_join = tensor.dim() == 2 or tensor.shape[1] == 1 or tensor.stride(1) == tensor.shape[2]
    return tensor.stride(-1) == 1 and heads_join
