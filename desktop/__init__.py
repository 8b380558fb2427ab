"""The window of Waymark: Qt only, never torch.

One folder per feature, with its controllers, views and sentences. Views keep no data and act
through controllers. docs/ui.md lists the controls.
"""

import core  # noqa: F401 - removes the current folder from sys.path first
