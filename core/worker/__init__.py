"""The child process in which the engine computes."""
