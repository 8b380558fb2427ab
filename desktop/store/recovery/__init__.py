"""What becomes of a damaged file of chats: found out, read below SQLite, written anew, kept.

copies   names of copies and of files set aside; making, listing and deleting them
check    whether a file is whole, ours, and of a format that is known
log      the log beside a file (its -wal), whose damage SQLite passes over in silence
pages    pages and records of a file, read without SQLite
salvage  all rows that can be read, in a new file
mend     the tree of messages made whole where rows are missing
"""
