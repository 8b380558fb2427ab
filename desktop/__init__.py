"""The window of Waymark: Qt only, never torch. docs/ui.md lists its controls.

Views keep no data and act through controllers.
"""

import core  # noqa: F401 - removes the current folder from sys.path first
