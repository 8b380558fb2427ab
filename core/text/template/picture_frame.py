"""How a template's one word for a picture becomes the text that the model was trained to see.

Most templates write a picture's placeholder themselves, and whatever stands around it. Gemma 3's
writes the token that begins an image; its processor then puts the placeholders and the token that
ends the image behind it, and line ends around all of it. LFM2-VL's writes the placeholder alone,
which its processor puts between two tokens. Only the template's own text comes here.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.api.errors import TemplateTooLargeError
from core.helper.templates import MAX_OUTPUT_CHARACTERS
from core.model_files import JsonObject
from core.text.tokenizer.added_tokens import AddedToken, AddedTokens

# What transformers' Gemma3Config takes for ids that config.json leaves out.
_BEGIN_ID, _END_ID, _PLACEHOLDER_ID = 255_999, 256_000, 262_144
# The same of LFM2-VL, whose other two tokens are known by their spellings.
_LFM2_ID, _LFM2_AROUND = 396, ("<|image_start|>", "<|image_end|>")


@dataclass(frozen=True, slots=True)
class PictureFrame:
    """Spellings of the token that a template writes, and of all that stands for the image."""

    begin: str
    whole: str

    @classmethod
    def find(cls, config: JsonObject, added: AddedTokens) -> PictureFrame | None:
        """The frame of a model whose processor writes one, by its config.json."""
        if config.get("model_type") == "lfm2_vl":
            return cls._of_lfm2(config, added)
        if config.get("model_type") != "gemma3":
            return None
        names = (
            ("boi_token_index", _BEGIN_ID),
            ("image_token_index", _PLACEHOLDER_ID),
            ("eoi_token_index", _END_ID),
        )
        tokens = [_token(config.get(name, usual), added) for name, usual in names]
        spelled = [token.spelling for token in tokens if token is not None]
        if len(spelled) < len(names):
            return None
        return cls(spelled[0], f"\n\n{''.join(spelled)}\n\n")

    @classmethod
    def _of_lfm2(cls, config: JsonObject, added: AddedTokens) -> PictureFrame | None:
        named = config.get("image_token_id", config.get("image_token_index", _LFM2_ID))
        placeholder = _token(named, added)
        if placeholder is None or any(added.id_of(each) is None for each in _LFM2_AROUND):
            return None
        return cls(placeholder.spelling, placeholder.spelling.join(_LFM2_AROUND))

    def around_pictures(self, rendered: str) -> str:
        """A rendered conversation, typed texts hidden, with every picture in its frame.

        Raises TemplateTooLargeError where a stranger's spellings would make too much of it.
        """
        if len(rendered) + rendered.count(self.begin) * len(self.whole) > 2 * MAX_OUTPUT_CHARACTERS:
            raise TemplateTooLargeError("The template shows more pictures than fit into a prompt.")
        return rendered.replace(self.begin, self.whole)


def _token(token_id: object, added: AddedTokens) -> AddedToken | None:
    return added.by_id.get(token_id) if isinstance(token_id, int) else None
