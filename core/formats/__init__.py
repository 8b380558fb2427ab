"""What form a reply may be given: as a grammar for the engine, and as a check for everybody."""
