"""Quantised weights as others publish them: which format a folder is in, and its exact values.

`scheme` reads config.json, one module a format knows its layout, `packed` finds what is stored in
it, and all of them end in the value objects of `quantised`. Bytes are read
by `core.loading.reading`.
"""
