"""Tasks on a tokenizer.json: build, encode, decode.

Typed text goes through a copy without added tokens or their spellings, so it can't become a control
token (I5).
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator
from itertools import chain, count
from typing import Any

from pydantic_core import to_json
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE, Unigram, WordLevel

from core.api.errors import BrokenTokenizerError, TemplateTooLargeError
from core.api.json_text import JsonTooDeepError, parse_json
from core.client.codec import Fields
from core.helper import MAX_IDS, NO_TOKEN

JsonObject = dict[str, Any]

# Far below any score of a trained unigram model: such a piece is never chosen.
_NEVER = -1e9
# Characters of all added tokens together; published ones have up to 100,000.
MAX_SPELLED = 2**20
MAX_ADDED = 2**16
# In one text: more than any context holds.
MAX_FOUND = 2**18
_LEFT_OUT: JsonObject = {"truncation": None, "padding": None, "post_processor": None}
_PLAIN_DECODERS = ("ByteFallback", "Fuse", "Metaspace", "Strip")
_ASKED = ("id", "content", "special", "lstrip", "rstrip", "single_word")


class TokenizerTasks:
    def __init__(self) -> None:
        self._published: Tokenizer | None = None
        self._at_start: Tokenizer | None = None
        self._later: Tokenizer | None = None
        self._spellings = SpellingFinder(())

    def build(self, fields: Fields, attached: bytes) -> tuple[Fields, bytes]:
        """Facts and the token table: 32-bit lengths in bytes, NO_TOKEN for an id without a token,
        then the tokens as UTF-8. Raises BrokenTokenizerError."""
        description = _parsed(attached)
        entries = _checked_entries(description)
        plain = attached[:1] == b"{" and not any(map(description.get, _LEFT_OUT))
        self._published = _built(attached if plain else {**description, **_LEFT_OUT})
        self._at_start = _sharing_model(self._published, description, entries)
        self._later = self._at_start
        if self._at_start is None:
            forgetful = _forgetful_copy(description, entries)
            self._at_start = self._later = _built(forgetful)
            # Where only the very first text gets a word space, later pieces get none.
            if _holds_first_scheme(forgetful):
                self._later = _built(_without_first_scheme(forgetful))
        self._spellings = SpellingFinder(
            entry["content"] for entry in entries if not _is_blank(entry)
        )
        facts = {
            "added_tokens": [{name: entry.get(name) for name in _ASKED} for entry in entries],
            "decoder": (description.get("decoder") or {}).get("type"),
            "word_spaces": _has_word_spaces(description.get("decoder") or {}),
            "vocab_size": self._published.get_vocab_size(with_added_tokens=True),
        }
        num_ids, table = _table(self._published)
        return {**facts, "ids": num_ids}, table

    def encode(self, fields: Fields, text: bytes) -> tuple[Fields, bytes]:
        tokenizer = self._at_start if fields["at_start"] else self._later
        assert tokenizer is not None
        encoding = tokenizer.encode(text.decode(), add_special_tokens=False)
        ends = array("I", [end for _, end in encoding.offsets])
        return {}, array("I", encoding.ids).tobytes() + ends.tobytes()

    def encode_published(self, fields: Fields, text: bytes) -> tuple[Fields, bytes]:
        assert self._published is not None
        encoding = self._published.encode(text.decode(), add_special_tokens=fields["special"])
        return {}, array("I", encoding.ids).tobytes()

    def decode(self, fields: Fields, _: bytes) -> tuple[Fields, bytes]:
        assert self._published is not None
        texts = [self._published.decode(ids, skip_special_tokens=True) for ids in fields["ids"]]
        return {"texts": texts}, b""

    def find(self, fields: Fields, text: bytes) -> tuple[Fields, bytes]:
        found = self._spellings.find(text.decode())
        if len(found) > MAX_FOUND:
            raise TemplateTooLargeError(
                f"The template writes more than {MAX_FOUND:,} control tokens."
            )
        return {}, array("I", chain.from_iterable(found)).tobytes()

    def forget(self, fields: Fields, _: bytes) -> tuple[Fields, bytes]:
        for tokenizer in (self._published, self._at_start, self._later):
            if tokenizer is not None and isinstance(tokenizer.model, BPE | Unigram):
                tokenizer.model._clear_cache()
        return {}, b""


class SpellingFinder:
    """Finds spellings, leftmost and then longest first.

    A tokenizer with no other words: its automaton takes as long for thousands as for one.
    """

    def __init__(self, spellings: Iterable[str]) -> None:
        known = sorted(set(filter(None, spellings)))
        taken = frozenset(known)
        between = next(name for name in map(str, count()) if name not in taken)
        self._tokenizer = Tokenizer(WordLevel({between: 0}, unk_token=between))
        self._tokenizer.add_tokens([AddedToken(each, normalized=False) for each in known])

    def find(self, text: str) -> list[tuple[int, int]]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        # All text between the spellings is the one word of the vocabulary, id 0.
        pairs = zip(encoding.ids, encoding.offsets, strict=True)
        return [place for token_id, place in pairs if token_id != 0]


def _is_blank(entry: JsonObject) -> bool:
    return bool(entry["content"].isspace() and not entry.get("special"))


def _has_word_spaces(decoder: JsonObject) -> bool:
    """True if tokens are bytes, or text with U+2581 for a space, and nothing else decodes them."""
    parts = decoder.get("decoders") or [decoder]
    spaces = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    plain = all(part == spaces or part.get("type") in _PLAIN_DECODERS for part in parts)
    return plain and (spaces in parts or any(part.get("type") == "Metaspace" for part in parts))


def _parsed(data: bytes) -> JsonObject:
    try:
        parsed = parse_json(data)
    except JsonTooDeepError as error:
        raise BrokenTokenizerError(f"tokenizer.json can't be read: {error}.") from None
    except ValueError as error:
        raise BrokenTokenizerError("tokenizer.json is not valid JSON.") from error
    if not isinstance(parsed, dict) or not isinstance(parsed.get("model"), dict):
        raise BrokenTokenizerError("tokenizer.json describes no tokenizer.")
    return parsed


def _checked_entries(description: JsonObject) -> list[JsonObject]:
    entries = description.get("added_tokens") or []
    if not isinstance(entries, list):
        raise BrokenTokenizerError("The added tokens in tokenizer.json are not a list.")
    if not all(isinstance(each, dict) and isinstance(each.get("content"), str) for each in entries):
        raise BrokenTokenizerError("An added token in tokenizer.json is malformed.")
    if len(entries) > MAX_ADDED or sum(len(each["content"]) for each in entries) > MAX_SPELLED:
        raise BrokenTokenizerError("The tokenizer adds more tokens than any model has.")
    return entries


def _built(description: JsonObject | bytes) -> Tokenizer:
    data = description if isinstance(description, bytes) else to_json(description)
    try:
        return Tokenizer.from_buffer(data)
    except MemoryError:
        raise
    except Exception as error:  # the library raises plain Exception
        raise BrokenTokenizerError(f"The tokenizer can't be built: {error}") from error


def _table(tokenizer: Tokenizer) -> tuple[int, bytes]:
    """Raises BrokenTokenizerError for absurd ids."""
    ids = tokenizer.get_vocab(with_added_tokens=True)
    num_ids = max(ids.values(), default=-1) + 1
    if num_ids > MAX_IDS:
        raise BrokenTokenizerError(f"The tokenizer has an id of {num_ids - 1:,}: too large.")
    tokens: list[bytes | None] = [None] * num_ids
    for token, token_id in ids.items():
        tokens[token_id] = token.encode()
    # Where an id has two tokens, the added one is meant.
    for token_id, added in tokenizer.get_added_tokens_decoder().items():
        tokens[token_id] = added.content.encode()
    lengths = array("I", [NO_TOKEN if token is None else len(token) for token in tokens])
    return num_ids, lengths.tobytes() + b"".join(token for token in tokens if token is not None)


def _sharing_model(
    published: Tokenizer, description: JsonObject, entries: list[JsonObject]
) -> Tokenizer | None:
    """A tokenizer without added tokens that shares the model, which takes long to build; None
    unless no text can become an added token.

    BPE makes tokens of single characters, of merges, and of bytes where it falls back on them.
    """
    model = description["model"]
    odd = ("ignore_merges", "continuing_subword_prefix", "end_of_word_suffix")
    if model.get("type") != "BPE" or any(map(model.get, odd)) or _holds_first_scheme(description):
        return None
    for content in (entry["content"] for entry in entries):
        if len(content) < 2 or content.isspace() or content.startswith("<0x"):
            return None
    shared = Tokenizer(published.model)
    shared.normalizer, shared.pre_tokenizer = published.normalizer, published.pre_tokenizer
    return shared


def _forgetful_copy(description: JsonObject, entries: list[JsonObject]) -> JsonObject:
    """Without added tokens, except blank ones of the vocabulary."""
    vocab = description["model"].get("vocab")
    known = vocab if isinstance(vocab, dict) else ()
    blank = {
        entry["content"] for entry in entries if _is_blank(entry) and entry["content"] in known
    }
    spellings = frozenset(entry["content"] for entry in entries) - blank
    return {
        **description,
        "added_tokens": [entry for entry in entries if entry["content"] in blank],
        **_LEFT_OUT,
        "model": _without_spellings(description["model"], spellings),
    }


def _without_spellings(model: JsonObject, spellings: frozenset[str]) -> JsonObject:
    """Remove control tokens from the vocabulary, except the unknown token, which must exist, and
    pieces of merges."""
    unwanted = spellings - {model.get("unk_token")} - _used_in_merges(model)
    vocab = model.get("vocab")
    if isinstance(vocab, dict):
        kept = {token: index for token, index in vocab.items() if token not in unwanted}
        return {**model, "vocab": kept}
    if isinstance(vocab, list):
        # In a unigram model an id is an index into the list: the entry stays but is never chosen.
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
