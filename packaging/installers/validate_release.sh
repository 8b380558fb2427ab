#!/usr/bin/env bash
# Holds the workflow that makes releases to GitHub's format (check-jsonschema) and to what is known to be unsafe in
# workflows (zizmor). Both go into an environment of their own under build/.
set -euo pipefail

repository=$(readlink -f "$(dirname "$0")/../..")
tools=$repository/build/installers/validators
workflow=$repository/.github/workflows/release.yml

if [ ! -e "$tools/made" ]; then
    rm -rf "$tools"
    "${PYTHON:-python3}" -m venv "$tools"
    "$tools/bin/python" -m pip --disable-pip-version-check install --quiet check-jsonschema==0.39.0 zizmor==1.32.0
    touch "$tools/made"
fi
"$tools/bin/check-jsonschema" --builtin-schema vendor.github-workflows "$workflow"
"$tools/bin/zizmor" --offline --no-progress "$workflow"
