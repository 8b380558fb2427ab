"""A model's own sampling settings, from generation_config.json."""

from __future__ import annotations

from pydantic import ValidationError

from core.api.errors import BrokenConfigError
from core.api.params import SamplingParams
from core.model_files import JsonObject


def sampling_defaults(generation_config: JsonObject) -> SamplingParams:
    """The settings a reply is sampled with unless the user says otherwise; seed and max_tokens are
    None.

    What the file leaves out has the value that transformers' GenerationConfig gives it: no sampling
    (temperature 0) without `do_sample`, else temperature 1, top_k 50, top_p 1, no penalties. Its
    `max_new_tokens` is left alone: the context length is the only limit nobody asked for.
    Raises BrokenConfigError for values out of range.
    """

    def value(name: str, default: float) -> float:
        found = generation_config.get(name)
        return default if found is None else found

    stops = generation_config.get("stop_strings") or ()
    greedy = not generation_config.get("do_sample", False)
    try:
        return SamplingParams(
            temperature=0.0 if greedy else value("temperature", 1.0),
            top_k=int(value("top_k", 50)),
            top_p=value("top_p", 1.0),
            min_p=value("min_p", 0.0),
            repetition_penalty=value("repetition_penalty", 1.0),
            presence_penalty=value("presence_penalty", 0.0),
            frequency_penalty=value("frequency_penalty", 0.0),
            stop=(stops,) if isinstance(stops, str) else tuple(stops),
        )
    except (ValidationError, TypeError, ValueError, OverflowError) as error:
        raise BrokenConfigError(
            "generation_config.json holds a sampling setting that is out of range."
        ) from error
