"""The licences of Waymark and of every package that it is installed with.

Written down, because an installed app has no metadata to ask. A test compares the names with
requirements.lock, and the words with the metadata of what is installed.
"""

from __future__ import annotations

LICENCES = {
    "waymark": "Apache-2.0",
    "annotated-types": "MIT",
    "anyio": "MIT",
    "attrs": "MIT",
    "click": "BSD-3-Clause",
    "colorama": "BSD License",
    "filelock": "MIT",
    "fsspec": "BSD-3-Clause",
    "h11": "MIT",
    "hf-xet": "Apache-2.0",
    "httpcore2": "BSD-3-Clause",
    "httpx2": "BSD-3-Clause",
    "huggingface-hub": "Apache-2.0",
    "idna": "BSD-3-Clause",
    "jinja2": "BSD License",
    "jsonschema": "MIT",
    "jsonschema-specifications": "MIT",
    "llguidance": "MIT",
    "markdown-it-py": "MIT License",
    "markupsafe": "BSD-3-Clause",
    "mdurl": "MIT License",
    "mpmath": "BSD",
    "networkx": "BSD-3-Clause",
    "numpy": "BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0",
    "packaging": "Apache-2.0 OR BSD-2-Clause",
    "pillow": "MIT-CMU",
    "platformdirs": "MIT",
    "psutil": "BSD-3-Clause",
    "pydantic": "MIT",
    "pydantic-core": "MIT",
    "pygments": "BSD-2-Clause",
    "pyside6-essentials": "LGPL-3.0-only OR GPL-2.0-only OR GPL-3.0-only",
    "pyyaml": "MIT",
    "qasync": "BSD-2-Clause",
    "referencing": "MIT",
    "rpds-py": "MIT",
    "safetensors": "Apache Software License",
    "setuptools": "MIT",
    "shiboken6": "LGPL-3.0-only OR GPL-2.0-only OR GPL-3.0-only",
    "sympy": "BSD",
    "tokenizers": "Apache Software License",
    "torch": (
        "Apache-2.0 AND Apache-2.0 WITH LLVM-exception AND BSD-2-Clause"
        " AND BSD-3-Clause AND BSL-1.0 AND MIT"
    ),
    "tqdm": "MPL-2.0 AND MIT",
    "truststore": "MIT",
    "typing-extensions": "PSF-2.0",
    "typing-inspection": "MIT",
}
