#!/usr/bin/env bash
# Holds the desktop file and the metadata to their formats, as software centres do. Of a SHARE folder
# (by default the one beside this file); needs the packages desktop-file-utils and appstream.
set -euo pipefail

share=${1:-$(dirname "$(readlink -f "$0")")/share}
for tool in desktop-file-validate appstreamcli; do
    command -v "$tool" > /dev/null || { echo "$tool is missing: apt-get install desktop-file-utils appstream" >&2; exit 2; }
done

desktop-file-validate --warn-kde "$share"/applications/*.desktop
# Hints are told and do not fail: a homepage and screenshots need an address on the web.
appstreamcli validate --no-net --pedantic "$share"/metainfo/*.metainfo.xml
echo "The desktop file and the metadata in $share are valid."
