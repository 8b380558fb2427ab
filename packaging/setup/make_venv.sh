#!/usr/bin/env bash
# Makes the virtual environment: make_venv.sh FOLDER
#
# Looks for a Python that is new enough ($PYTHON if set), and says plainly what is missing otherwise.
# On Debian and Ubuntu the venv module is a package of its own; it is installed where that is allowed.
set -euo pipefail

venv=$1

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python}; do
        if is_new_enough "$candidate"; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

version_of() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo unknown
}

# Says whether root's rights can be had without asking anyone who is not there to answer.
may_be_root() {
    [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; }
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

apt_install() {
    command -v apt-get >/dev/null && may_be_root || return 1
    echo "Installing $1 with apt-get, which needs root's rights; Ctrl-C stops it ..."
    # A list of packages that is a little old still serves: a failing update is no reason to stop.
    as_root apt-get update -qq || true
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

if [ -x "$venv/bin/python" ] && is_new_enough "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi

if ! python=$(find_python); then
    found=$(command -v "${PYTHON:-python3}" || true)
    echo "Waymark needs Python 3.11 or newer." >&2
    if [ -n "$found" ]; then
        echo "Found only $found, whose version is $(version_of "$found")." >&2
    else
        echo "No Python was found." >&2
    fi
    echo "Install a newer one, or name it: make PYTHON=/path/to/python3.11 ..." >&2
    exit 1
fi

if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    package="python$(version_of "$python")-venv"
    echo "This Python cannot make virtual environments: its venv module is missing."
    if ! apt_install "$package" || ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        echo "Please install it, then run make again. On Debian and Ubuntu: sudo apt-get install $package" >&2
        exit 1
    fi
fi

echo "Making $venv with Python $(version_of "$python") ..."
"$python" -m venv --clear "$venv"
