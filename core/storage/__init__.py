"""One store of files on disk: owned, bounded, indexed."""
