"""The engine of Waymark, without a window: the map.

    api      the vocabulary everyone shares (torch-free): positions, prompts, chats, events
    client   the torch-free way to reach the engine's process
    text     tokenizer, chat template, history as ids, reply channels, stop rules
    vision   decoding pictures and turning them into patches
    cache    what layers remember: slab, recurrent states, checkpoints, the prefix tree, the policy
    weights  safetensors folders as published
    layers   linear, norm, rope, attention, gated delta net
    models   one file per family
    engine   sequence, prefill, decode, sampler, session, stats
    worker   the child process; replay: the headless runner

Imports go downward only (pyproject.toml holds the contract). One chat turn passes through
client -> worker -> engine.session -> text + vision -> cache -> engine.prefill -> engine.decode.
"""
