"""One file per family, named like the config's model_type."""
