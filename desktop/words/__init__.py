"""What the window says, one module an area: the place for whoever changes or translates a sentence.

Constants, and functions that put values into sentences. Knows no widgets, and nothing of the store.
"""
