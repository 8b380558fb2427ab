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
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'
}

# Runs a command as root, if that is possible without asking anyone who is not there to answer.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        sudo "$@"
    else
        return 1
    fi
}

if [ -x "$venv/bin/python" ] && is_new_enough "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi

if ! python=$(find_python); then
    found=$(command -v "${PYTHON:-python3}" || true)
    echo "Waymark needs Python 3.11 or newer." >&2
    if [ -n "$found" ]; then
        echo "Found only $found, which is Python $(version_of "$found" 2>/dev/null || echo '(unusable)')." >&2
    else
        echo "No Python was found." >&2
    fi
    echo "Install a newer one, or name it: make PYTHON=/path/to/python3.11 ..." >&2
    exit 1
fi

if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    package="python$(version_of "$python")-venv"
    echo "This Python cannot make virtual environments: its venv module is missing."
    installed=no
    if command -v apt-get >/dev/null; then
        echo "Installing $package ..."
        export DEBIAN_FRONTEND=noninteractive
        if as_root apt-get update -qq && as_root apt-get install -y -qq --no-install-recommends "$package" >/dev/null; then
            installed=yes
        fi
    fi
    if [ "$installed" = no ] || ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        echo "Please install it, then run make again. On Debian and Ubuntu: sudo apt-get install $package" >&2
        exit 1
    fi
fi

echo "Making $venv with Python $(version_of "$python") ..."
"$python" -m venv --clear "$venv"
