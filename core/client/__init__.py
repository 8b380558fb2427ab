"""The torch-free way to reach the engine's process: codec, transport, and an asyncio client."""
