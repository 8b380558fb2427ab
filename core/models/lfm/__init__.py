"""The models of Liquid AI."""
