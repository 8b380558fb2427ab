"""The gated delta rule: one step for decode, chunks of 64 tokens for prefill."""
