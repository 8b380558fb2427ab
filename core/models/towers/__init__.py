"""The vision towers of families that have one."""
