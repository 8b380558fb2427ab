"""Root mean square normalisation, plain and gated."""
