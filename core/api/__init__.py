"""The vocabulary every part of Waymark shares: torch-free, Qt-free, importable by everyone.

`positions` and `prompt` say where things lie, `chat` what is talked about, `params` what a user may
set, `commands` and `events` what crosses the pipe, `errors` what can go wrong in words for a
person. `json_text` parses JSON from strangers.
"""
