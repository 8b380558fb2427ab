"""Vision towers: what turns a picture into rows that stand where token embeddings would."""
