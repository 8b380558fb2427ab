"""`quantization_config` of config.json: which format, and which modules were left as they were.

Decides what is known; what a format's own keys mean is read beside its layout. Everything unknown
is refused here, before a byte of the weights is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.api.errors import BrokenConfigError, UnsupportedQuantisationError
from core.weights.published.awq import read_awq
from core.weights.published.compressed import read_compressed
from core.weights.published.fields import Fields
from core.weights.published.format import Format
from core.weights.published.fp8 import read_fp8
from core.weights.published.gptq import read_gptq
from core.weights.published.patterns import Patterns

_READERS: Mapping[str, Callable[[Fields], Format]] = {
    "fp8": read_fp8,
    "gptq": read_gptq,
    "awq": read_awq,
    "compressed-tensors": read_compressed,
}
# Levels of a model that lists of modules may leave out: the same layer is `layers.0.mlp` under
# `model`, `language_model`, `model.language_model` or nothing.
_ROOTS = ("model.", "language_model.")


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a folder's linear layers are stored, and which of them are not stored so."""

    format: Format
    names: frozenset[str] = frozenset()
    patterns: Patterns = field(default_factory=lambda: Patterns([]))

    def leaves_out(self, module: str) -> bool:
        """Whether the config lists this module, or one it lies in, as not quantised."""
        levels = _from_root(module).split(".")
        ends = range(1, len(levels) + 1)
        found = (".".join(levels[start:end]) for end in ends for start in range(end))
        return not self.names.isdisjoint(found) or self.patterns.match(module)


def read_scheme(
    config: Mapping[str, Any], check: Callable[[], None] = lambda: None
) -> Scheme | None:
    """What config.json says about quantised weights; None where it says nothing.

    `check` is asked while layers are compared with patterns, and may raise. Raises
    BrokenConfigError, or UnsupportedQuantisationError for what Waymark doesn't know.
    """
    fields = _find(config)
    if fields is None:
        return None
    method = fields.word("quant_method")
    reader = _READERS.get(method)
    if reader is None:
        raise UnsupportedQuantisationError(
            f'The weights are quantised as "{method[:40]}". Waymark reads plain weights and: '
            f"{', '.join(_READERS)}."
        )
    listed = fields.names("modules_to_not_convert", "ignored_layers") + fields.names("ignore")
    sources = [name.removeprefix("re:") for name in listed if name.startswith("re:")]
    if method == "gptq":
        dynamic = fields.section("dynamic").sections()
        sources += [key.removeprefix("-:") for key, _ in dynamic if key.startswith("-:")]
    names = (_from_root(name) for name in listed if not name.startswith("re:"))
    return Scheme(
        format=reader(fields),
        names=frozenset(name for name in names if name),
        patterns=Patterns(sources, check),
    )


def _find(config: Mapping[str, Any]) -> Fields | None:
    """The object itself: at the top, under its older name, or beside the text model's keys."""
    text = config.get("text_config")
    places = [("quantization_config", config), ("compression_config", config)]
    if isinstance(text, dict):
        places.append(("quantization_config", text))
    found = [(key, values[key]) for key, values in places if values.get(key) not in (None, {})]
    if any(values != found[0][1] for _, values in found):
        raise BrokenConfigError('config.json has two "quantization_config" that differ.')
    return Fields(found[0][1], found[0][0]) if found else None


def _from_root(name: str) -> str:
    """A module's name from the first level that tells it from others."""
    name = name.strip(".").removesuffix(".weight")
    while name.startswith(_ROOTS):
        name = name.partition(".")[2]
    return name
