"""Mamba-2's state space."""
