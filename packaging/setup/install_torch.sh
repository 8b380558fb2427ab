#!/usr/bin/env bash
# Installs torch into a virtual environment: install_torch.sh FOLDER
#
# PyPI's Linux build brings gigabytes of CUDA that a machine without an NVIDIA driver has no use for.
# So torch goes in first, and the CPU build is tried before the plain one.
# $TORCH says which build is wanted: auto (look for a driver), cpu or cuda.
set -euo pipefail

version=2.13.0
cpu_index=https://download.pytorch.org/whl/cpu
python=$1/bin/python
# On Linux with all that CUDA needs.
plain_size=$([ "$(uname -s)" = Linux ] && echo "3 GB" || echo "110 MB")

pip_install() {
    "$python" -m pip install --disable-pip-version-check ${NO_COMPILE:+"$NO_COMPILE"} "$@"
}

has_nvidia_driver() {
    [ -e /proc/driver/nvidia/version ] || { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }
}

wants_cpu_build() {
    [ "$(uname -s)" = Linux ] || return 1 # elsewhere the plain build carries no CUDA
    case "${TORCH:-auto}" in
        cpu) return 0 ;;
        cuda) return 1 ;;
        auto) ! has_nvidia_driver ;;
        *)
            echo "TORCH must be auto, cpu or cuda, not '$TORCH'." >&2
            exit 1
            ;;
    esac
}

# One try; what pip says is shown only if all tries fail, for a missing CPU build is no error yet.
try() {
    echo "Installing torch $version: $1, a download of up to $2 ..."
    shift 2
    pip_install "$@" 2>>"$log"
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT

if "$python" -c "import importlib.metadata as m, sys; sys.exit(m.version('torch').split('+')[0] != '$version')" 2>/dev/null; then
    exit 0
fi

if wants_cpu_build; then
    # --no-deps: what it needs comes with the next step, from the lock file. The plain build for Linux needs CUDA besides.
    try "the CPU build" "190 MB" --no-deps "torch==$version+cpu" \
        || try "the CPU build from PyTorch's own index" "190 MB" --retries 0 --timeout 15 --no-deps --index-url "$cpu_index" "torch==$version+cpu" \
        || try "the plain build" "$plain_size" "torch==$version" \
        || { cat "$log" >&2; exit 1; }
else
    try "the plain build" "$plain_size" "torch==$version" || { cat "$log" >&2; exit 1; }
fi
