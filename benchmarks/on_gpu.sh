#!/usr/bin/env bash
# What is worth the first ten minutes on a GPU, in order: the tests that need one, the
# benchmark against the loops on the same GPU, and five minutes of CIFAR-10 at the paper's settings.
#
#   bash benchmarks/on_gpu.sh [--dry-run] [FOLDER]
#
# CIFAR-10 must be prepared before (fedlib data prepare cifar10).
# Logs stay in FOLDER (default build/on_gpu), the run in the store. A step that is done is not done
# again; a training goes on from its checkpoint. --dry-run prints the commands. PYTHON is the
# interpreter, default that of make setup.
set -euo pipefail
cd "$(dirname "$0")/.."

dry=
if [ "${1:-}" = --dry-run ]; then
    dry=yes
    shift
fi
folder=${1:-build/on_gpu}
python=${PYTHON:-.venv/bin/python}
failed=0

# step NAME SECONDS COMMAND...: the command with a time limit, its output in NAME.log. At the end of
# its time (status 124) it is stopped, which is no failure, and goes on at the next call.
step() {
    local name=$1 seconds=$2 status=0
    shift 2
    if [ -n "$dry" ]; then
        echo "$name: timeout --signal=TERM --kill-after=30 $seconds $*"
        return
    fi
    if [ -e "$folder/$name.done" ]; then
        echo "$name: done before"
        return
    fi
    echo "$name: at most $seconds s, see $folder/$name.log"
    timeout --signal=TERM --kill-after=30 "$seconds" "$@" >>"$folder/$name.log" 2>&1 || status=$?
    if [ "$status" -eq 0 ]; then
        touch "$folder/$name.done"
    else
        echo "$name: status $status"
        [ "$status" -eq 124 ] || failed=1
    fi
}

if [ -z "$dry" ]; then
    "$python" -c 'import torch; raise SystemExit(not torch.cuda.is_available())' || {
        echo "on_gpu: torch sees no CUDA GPU here; --dry-run shows what would run" >&2
        exit 2
    }
    mkdir -p "$folder"
fi

step tests 90 "$python" -m pytest -q tests/engine -k cuda
step benchmark 120 "$python" -m benchmarks --device cuda
step cifar10 300 "$python" -m fedlib run cifar10 fedavg --preset paper --rounds 500 --eval-every 50 --device cuda
exit "$failed"
