"""Models from a hub: its metadata, and downloads that resume, in a child process without torch."""
