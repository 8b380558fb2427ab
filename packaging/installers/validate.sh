#!/usr/bin/env bash
# Holds what others read to their formats: the desktop file and the metadata as software centres do, and the workflow that
# makes releases as GitHub does (check-jsonschema), which must also have none of the known weaknesses (zizmor). Needs the
# packages desktop-file-utils and appstream; the workflow's tools go into an environment of their own under build/.
set -euo pipefail

repository=$(readlink -f "$(dirname "$0")/../..")
share=$repository/packaging/installers/linux/share
tools=$repository/build/installers/validators
workflow=$repository/.github/workflows/release.yml

for tool in desktop-file-validate appstreamcli; do
    command -v "$tool" > /dev/null || { echo "$tool is missing: apt-get install desktop-file-utils appstream" >&2; exit 2; }
done
desktop-file-validate --warn-kde "$share"/applications/*.desktop
# Hints are told and do not fail: a homepage and screenshots need an address on the web.
appstreamcli validate --no-net --pedantic "$share"/metainfo/*.metainfo.xml

if [ ! -e "$tools/made" ]; then
    rm -rf "$tools"
    "${PYTHON:-python3}" -m venv "$tools"
    "$tools/bin/python" -m pip --disable-pip-version-check install --quiet check-jsonschema==0.39.0 zizmor==1.32.0
    touch "$tools/made"
fi
"$tools/bin/check-jsonschema" --builtin-schema vendor.github-workflows "$workflow"
"$tools/bin/zizmor" --offline --no-progress "$workflow"
