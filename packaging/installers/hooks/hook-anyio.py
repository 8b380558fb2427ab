"""anyio imports the backend of the running loop by name."""

hiddenimports = ["anyio._backends._asyncio"]
