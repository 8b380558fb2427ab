"""Attention's keys of config.json, which all families spell alike."""

from __future__ import annotations

from core.layers.attention import AttentionSizes
from core.models.config.settings import Count, Settings


class AttentionSettings(Settings):
    """The heads of attention layers, and the width of the rows that they read."""

    hidden_size: Count
    num_attention_heads: Count
    num_key_value_heads: Count
    head_dim: Count

    def check_heads(self, *, rotated: bool = True) -> None:
        """Raises ValueError where heads can't share keys, or can't be rotated whole, which they
        are if `rotated`."""
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError('"num_attention_heads" is not a multiple of "num_key_value_heads"')
        if rotated and self.head_dim % 2:
            raise ValueError('"head_dim" is not an even number')

    @property
    def attention_sizes(self) -> AttentionSizes:
        return AttentionSizes(
            hidden=self.hidden_size,
            heads=self.num_attention_heads,
            kv_heads=self.num_key_value_heads,
            head_dim=self.head_dim,
        )
