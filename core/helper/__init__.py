"""The helper: a limited process, without torch, which interprets untrusted files, given as bytes,
never as paths.

These constants are for both sides: the worker doesn't load the helper's libraries.
"""

# The most that a chat template may write.
MAX_OUTPUT_CHARACTERS = 16 * 2**20
# A conversation may hold half a surrogate pair, which goes through a template unchanged.
TEXT_ERRORS = "surrogatepass"
# No model's table has a row for a larger id, and the token table would fill the memory.
MAX_IDS = 2**22
# The length of an id without a token in the token table.
NO_TOKEN = 2**32 - 1
