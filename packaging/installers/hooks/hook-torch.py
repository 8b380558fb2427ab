"""Includes the modules of torch that the engine imports, and its libraries without those of tests.

Replaces the hook of PyInstaller's hooks, which includes everything.
"""

import sys

from PyInstaller.utils.hooks import PY_DYLIB_PATTERNS, collect_dynamic_libs, get_package_paths

TESTS = (
    "libaoti_custom_ops",
    "libbackend_with_compiler",
    "libjitbackend_test",
    "libtorchbind_test",
)

# Parsed when they are imported: options with comments, and overloads.
OWN_SOURCE = (
    *("_export.config", "_functorch.config", "compiler.config", "distributed.config"),
    *("fx.experimental._config", "utils.serialization.config"),
    *("functional", "nn.functional", "nn.modules.rnn"),
)
module_collection_mode = {"torch": "pyz"} | {f"torch.{name}": "pyz+py" for name in OWN_SOURCE}
# Imported by name.
hiddenimports = ["torch.testing._internal.logging_tensor"]
binaries = [
    (source, target)
    for source, target in collect_dynamic_libs(
        "torch", search_patterns=[*PY_DYLIB_PATTERNS, "*.so.*"]
    )
    if not any(name in source for name in TESTS)
]
if sys.platform != "win32":
    _, package = get_package_paths("torch")
    # `import torch` refuses without it.
    binaries.append((f"{package}/bin/torch_shm_manager", "torch/bin"))
# Links beside the libraries would have torch look for its own in the wrong folder.
bindepend_symlink_suppression = ["**/torch/lib/*.so*"]
