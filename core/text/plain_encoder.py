"""Text to ids with a copy of the tokenizer that has forgotten its added tokens.

Nothing a person types can become a control token here, whatever it spells (I5): the copy does not
know them, and where the vocabulary itself holds their spelling, that entry is taken out as well.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

from core.api.errors import BrokenTokenizerError
from core.text.added_tokens import AddedTokens
from core.text.files import JsonObject

_SURROGATE = re.compile("[\ud800-\udfff]")
# Far below any score that a trained unigram model holds: such a piece is never chosen.
_NEVER = -1e9
# Characters of text whose ids are remembered: a conversation is sent whole with every turn, and
# encoding 39,000 tokens of it took 130 ms each time. About a million tokens, 12 MB.
REMEMBERED_CHARACTERS = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Encoded:
    """The ids of a text, and for each the place in the text where its characters end."""

    ids: array[int]
    ends: array[int]


class PlainEncoder:
    """Encodes text between two control tokens. Pure: equal texts give equal ids.

    `num_encoded` counts the characters that went through the tokenizer.
    """

    def __init__(self, tokenizer: JsonObject, added: AddedTokens) -> None:
        """Build from parsed tokenizer.json. Raises BrokenTokenizerError."""
        forgetful = _forgetful_copy(tokenizer, added)
        self._at_start = _build(forgetful)
        # Where only the very first text gets a word space, a piece in the middle gets none.
        self._later = self._at_start
        if _holds_first_scheme(forgetful):
            self._later = _build(_without_first_scheme(forgetful))
        self._known: OrderedDict[tuple[bool, str], Encoded] = OrderedDict()
        self._num_known = 0
        self.num_encoded = 0

    def encode(self, text: str, at_start: bool) -> Encoded:
        """Encode one piece; `at_start` says that nothing stands before it in the prompt."""
        known = self._known.get((at_start, text))
        if known is not None:
            self._known.move_to_end((at_start, text))
            return known
        tokenizer = self._at_start if at_start else self._later
        encoding = tokenizer.encode(_SURROGATE.sub("\ufffd", text), add_special_tokens=False)
        encoded = Encoded(
            array("I", encoding.ids), array("I", [end for _, end in encoding.offsets])
        )
        self.num_encoded += len(text)
        self._remember(text, at_start, encoded)
        return encoded

    def ids(self, text: str, at_start: bool = False) -> list[int]:
        """The ids of one piece of text."""
        return self.encode(text, at_start).ids.tolist() if text else []

    def _remember(self, text: str, at_start: bool, encoded: Encoded) -> None:
        self._known[at_start, text] = encoded
        self._num_known += len(text)
        while self._num_known > REMEMBERED_CHARACTERS:
            (_, oldest), _ = self._known.popitem(last=False)
            self._num_known -= len(oldest)


def build_tokenizer(description: JsonObject) -> Tokenizer:
    """The tokenizer as published, without truncation, padding and post-processor."""
    return _build({**description, "truncation": None, "padding": None, "post_processor": None})


def _build(description: JsonObject) -> Tokenizer:
    try:
        return Tokenizer.from_str(json.dumps(description))
    except Exception as error:  # the library raises plain Exception
        raise BrokenTokenizerError(f"The tokenizer can't be built: {error}") from error


def _forgetful_copy(tokenizer: JsonObject, added: AddedTokens) -> JsonObject:
    """tokenizer.json without added tokens, and without vocabulary entries that spell one.

    Blank ones of the vocabulary stay: they are how the model was taught to see a run of line ends.
    """
    vocab = tokenizer["model"].get("vocab")
    known = vocab if isinstance(vocab, dict) else ()
    blank = {token.spelling for token in added.tokens if token.is_blank and token.spelling in known}
    spellings = frozenset(added.by_spelling) - blank
    return {
        **tokenizer,
        "added_tokens": [
            entry for entry in tokenizer.get("added_tokens") or [] if entry["content"] in blank
        ],
        "truncation": None,
        "padding": None,
        "post_processor": None,
        "model": _without_spellings(tokenizer["model"], spellings),
    }


def _without_spellings(model: JsonObject, spellings: frozenset[str]) -> JsonObject:
    """Take control tokens out of the vocabulary, as far as the model can do without them.

    Kept are the unknown token, which must exist, and what merges build or use: a run of word spaces
    that a publisher also lists as added token is ordinary text.
    """
    unwanted = spellings - {model.get("unk_token")} - _used_in_merges(model)
    vocab = model.get("vocab")
    if isinstance(vocab, dict):
        kept = {token: index for token, index in vocab.items() if token not in unwanted}
        return {**model, "vocab": kept}
    if isinstance(vocab, list):
        # In a unigram model an id is a place in the list, so the entry stays and is never chosen.
        unknown = model.get("unk_id")
        pieces = [
            [piece, _NEVER if piece in unwanted and index != unknown else score]
            for index, (piece, score) in enumerate(vocab)
        ]
        return {**model, "vocab": pieces}
    return model


def _used_in_merges(model: JsonObject) -> frozenset[str]:
    used: set[str] = set()
    for merge in model.get("merges") or []:
        left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
        used.update((left, right, left + right))
    return frozenset(used)


def _walk(value: Any) -> Iterator[JsonObject]:
    """Every object inside the parts of a tokenizer description that are small."""
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _walk(item)
    elif isinstance(value, list):
        for item in value:
            yield from _walk(item)


def _holds_first_scheme(description: JsonObject) -> bool:
    parts = _walk(description.get("pre_tokenizer"))
    return any(part.get("prepend_scheme") == "first" for part in parts)


def _without_first_scheme(description: JsonObject) -> JsonObject:
    pre_tokenizer = json.loads(json.dumps(description["pre_tokenizer"]))
    for part in _walk(pre_tokenizer):
        if part.get("prepend_scheme") == "first":
            part["prepend_scheme"] = "never"
    return {**description, "pre_tokenizer": pre_tokenizer}
