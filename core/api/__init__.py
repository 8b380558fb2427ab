"""The vocabulary that every part of Waymark shares; needs neither torch nor Qt."""
