"""The window of Waymark: Qt only, never torch; the engine is reached through `core.client`.

    app          puts the parts together, runs the loop, shuts down
    views        draw; they keep no data and act through controllers
    controllers  act: send, stop, load, take pictures in
    presentation  hold what is shown, and say it in words
    store        remembers: chats in SQLite, pictures as files, settings as JSON

Imports go downward only (pyproject.toml holds the contract). docs/ui.md names the controls.
"""

import core  # noqa: F401 - first of all: it keeps the current folder out of the search for code
