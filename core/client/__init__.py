"""The torch-free side of the engine's process: codec, transport, and an asyncio client."""
