"""The helper: a limited process, without torch, in which untrusted files are interpreted.

It is given bytes, never paths. `process` is the worker's side; `__main__` names the tasks.
"""
