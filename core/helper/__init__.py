"""The helper: a limited process, without torch, in which strangers' files are interpreted.

`process` is the worker's side. It is given bytes, never paths, and answers with bytes; the other
modules are its tasks (`__main__` names them).
"""
