#!/usr/bin/env bash
# On the machine without a network: unpack the pieces that launch/offline/kit.sh has made, and say with what to run.
#
#     launch/offline/unpack.sh FOLDER SITE && . SITE/environment.sh
#
# FOLDER has all kit.NN (and weights.NN, which are joined to SITE/model.gguf). Only Python is needed, and 1 GB in SITE.
set -euo pipefail
pieces=$1 site=$2 root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "$site/.archives"
cat "$pieces"/kit.* | tar -xf - -C "$site/.archives"
(cd "$site/.archives" && sha256sum --quiet -c SHA256SUMS)
running=()
for archive in "$site"/.archives/*.tar.xz; do
    python3 -W ignore -m tarfile -e "$archive" "$site" &
    running+=($!)
done
for one in "${running[@]}"; do wait "$one"; done # a plain `wait` would hide a failure
rm -rf "$site/.archives"
! compgen -G "$pieces/weights.*" >/dev/null || cat "$pieces"/weights.* >"$site/model.gguf"
# bm25s would import it in every process, where it takes three quarters of a GPU's memory and starts threads.
echo 'raise ImportError("agent-grid needs no jax: launch/offline/unpack.sh has hidden it")' >"$site/jax.py"
cat >"$site/environment.sh" <<END
export PYTHONPATH=$site:$root HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_CACHE_ROOT=$site/.cache
export JAX_PLATFORMS=cpu
export VLLM_USE_FLASHINFER_SAMPLER=0 # else vLLM 0.26 imports flashinfer to sample
END
