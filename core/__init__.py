"""The engine of Waymark, without a window: the map.

    api      the vocabulary everyone shares (torch-free): positions, prompts, chats, events
    client   the torch-free way to reach the engine's process
    helper   the limited process in which pictures, templates and tokenizers are interpreted
    text     tokenizer, chat template, history as ids, reply channels, stop rules
    vision   pictures as patches
    weights  safetensors folders as published
    layers   linear, norm, rope, attention, gated delta net; what each needs remembered
    cache    what layers remember: slab, recurrent states, checkpoints, the prefix tree, the policy
    models   one file per family
    loading  from a folder to a model that is ready; quantised tensors kept on disk
    engine   one turn: session, prefill, decode, sampler, pictures, idle work, statistics
    worker   the child process
    replay   conversation scripts, and the runner that plays one without a window
    selftest the kernels' self-tests on the command line

Imports go downward only (pyproject.toml holds the contract). One chat turn passes through
client -> worker -> engine.session -> text + vision -> cache -> engine.prefill -> engine.decode.
"""

import os
import sys

# `python -m` searches the current folder before everything else, so that a stranger's `json.py` in
# it would be run. This package is imported before whatever else a program of ours needs.
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if sys.argv[:1] == ["-m"] and sys.path[:1] == [os.getcwd()] and sys.path[0] != _ROOT:
    del sys.path[0]
