"""Text to ids, for text in which nothing is a control token; what was encoded once is remembered.

A conversation is sent whole with every turn, and only what is new in it is encoded.
"""

from __future__ import annotations

from collections import OrderedDict

from core.text.tokenizer.tokenizer import Encoded, Tokenizer

# Characters of text whose ids are remembered: encoding 39,000 tokens of a conversation took 130 ms
# each time. About a million tokens, 12 MB.
REMEMBERED_CHARACTERS = 4 * 2**20


class PlainEncoder:
    """Encodes text between two control tokens. Pure: equal texts give equal ids.

    `num_encoded` counts the characters that went through the tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: OrderedDict[tuple[bool, str], Encoded] = OrderedDict()
        self._num_known = 0
        self.num_encoded = 0

    def encode(self, text: str, at_start: bool) -> Encoded:
        """Encode one piece; `at_start` says that nothing stands before it in the prompt.

        Raises BrokenTokenizerError.
        """
        known = self._known.get((at_start, text))
        if known is not None:
            self._known.move_to_end((at_start, text))
            return known
        encoded = self._tokenizer.encode(text, at_start)
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
