"""The helper: a small process with limits, in which what strangers wrote is interpreted.

    process    the worker's side: starts helpers, asks them, ends those that take too long
    __main__   the process itself: one task after the other, within its limits
    limits     what the process may use
    pictures   tasks on picture files
    templates  tasks on a chat template; sandbox is the environment it runs in
    tokenizer  tasks on a tokenizer.json
    patterns   tasks on the regular expressions of a model folder
    grammars   tasks on the grammars of replies
    schemas    tasks on JSON Schemas, and on replies that are to be JSON

A helper is given bytes, never paths, and answers with bytes. It loads no torch.
"""
