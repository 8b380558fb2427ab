"""Default limits of a reply, for when no limit of the user's ends it."""

from __future__ import annotations

# A context of 262,144 tokens holds a megabyte of English. Everything that is sent of a reply of
# this size fits into one frame, also where JSON spells each character in six.
LONGEST_REPLY_BYTES = 4 * 2**20

# Without a longest reply set by the user: tokens of an answer in a given format, which a small
# model may never end, and of a thought.
FORMAT_TOKENS = 2_048
THOUGHT_TOKENS = 16_384

# A formatted reply or a thought ends when its last tokens are one sequence of at most LOOP_PERIOD
# tokens again and again: LOOP_TIMES and LOOP_TOKENS at least. Rows of a table that are equal come
# less often, and a longer run is continued if the user wants it.
LOOP_PERIOD = 256
LOOP_TIMES = 16
LOOP_TOKENS = 1_024
