"""The self-tests of a machine on the command line; `__main__` prints them."""
