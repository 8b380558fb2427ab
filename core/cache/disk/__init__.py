"""What survives a restart: segments in files, their index and owners, and the tier above them."""
