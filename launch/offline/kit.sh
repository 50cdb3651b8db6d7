#!/usr/bin/env bash
# Make what a GPU machine without a network needs to run agent-grid, in parts that are small enough to be sent one by one.
# docs/gpu-offline.md says how they are used there.
#
#     launch/offline/kit.sh FOLDER [--mib 48] [--weights model.gguf]
#
# The kit is a folder of installed packages (wheels.txt, for CPython 3.12 on x86-64 Linux, whatever Python runs pip here)
# as five archives, which are unpacked side by side, cut into FOLDER/part-NN/kit.NN. A part holds nothing else. The file
# of weights is cut in the same way, into parts of its own. PYTHON names the Python whose pip is used.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mib=48 weights='' out=''
while (($#)); do
    case $1 in
        --mib) mib=$2 && shift 2 ;;
        --weights) weights=$2 && shift 2 ;;
        -*) echo "unknown: $1" >&2 && exit 2 ;;
        *) out=$1 && shift ;;
    esac
done
[[ -n $out ]] || { sed -n '2,9s/^#//p' "${BASH_SOURCE[0]}" >&2 && exit 2; }
python=${PYTHON:-python3}
mkdir -p "$out" && out=$(cd "$out" && pwd)
rm -rf "$out"/part-* "$out"/work && work=$out/work site=$out/work/site
mkdir -p "$site" "$work/archives" "$work/pieces"

# One package is published as source only. It has no compiled code, so that its wheel serves every Python.
grep '^antlr4' "$here/wheels.txt" | sed 's/ *#.*//' >"$work/source.txt"
grep -v '^antlr4' "$here/wheels.txt" >"$work/wheels.txt"
"$python" -m pip wheel -q --no-deps -w "$work" -r "$work/source.txt"
for glibc in 17 24 26 27 28 31 34 35; do platforms+=(--platform "manylinux_2_${glibc}_x86_64"); done
for name in manylinux2014_x86_64 manylinux1_x86_64 any; do platforms+=(--platform "$name"); done
"$python" -m pip install -q --no-deps --no-compile --only-binary=:all: --python-version 3.12 --implementation cp \
    --abi cp312 --abi abi3 --abi none "${platforms[@]}" --target "$site" -r "$work/wheels.txt" "$work"/antlr4*.whl

# Left out: programs that name this machine's Python, tests, and what a dense bf16 model on a Hopper GPU does not load.
cd "$site"
rm -rf bin
find . -type d \( -name tests -o -name __pycache__ \) -path './*/*' -prune -exec rm -rf {} +
find . -name '*.js.map' -delete
find . -path '*.dist-info/RECORD' -delete
rm -rf ray/jars ray/rllib              # Java, and reinforcement learning
rm -rf mistral_common/data pycountry/locales
rm -rf vllm/vllm-rs                    # a router for many servers
rm -rf vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so # Hopper GPUs use flash attention 3
rm -rf vllm/_moe_C_stable_libtorch.abi3.so      # mixtures of experts
rm -rf vllm/third_party/deep_gemm vllm/third_party/fmha_sm100 # fp8, and the next generation of GPUs
rm -rf vllm/_flashmla_*.so vllm/_qutlass_C.abi3.so vllm/_rust_tool_parser.abi3.so # other models, other weights, a server

pack() { tar -cf - "${@:2}" | xz -T0 -3 >"$work/archives/$1.tar.xz"; }
kernels=vllm/_C_stable_libtorch.abi3.so attention=vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so
pack kernels "$kernels"
pack attention "$attention"
pack vllm --exclude="$kernels" --exclude="$attention" vllm
pack ray ray
find . -mindepth 1 -maxdepth 1 ! -name vllm ! -name ray -print0 | sort -z | xargs -0 tar -cf - | xz -T0 -3 \
    >"$work/archives/others.tar.xz"

cd "$work/archives"
sha256sum ./*.tar.xz >SHA256SUMS
tar -cf - SHA256SUMS ./*.tar.xz | split -b "${mib}m" -d -a 2 - "$work/pieces/kit."
[[ -z $weights ]] || split -b "${mib}m" -d -a 2 "$weights" "$work/pieces/weights."
n=0
for piece in "$work"/pieces/*; do
    part=$out/part-$(printf %02d "$n") && mkdir "$part" && mv "$piece" "$part" && n=$((n + 1))
done
for kind in kit weights; do
    pieces=("$out"/part-*/"$kind".*)
    [[ -e ${pieces[0]} ]] && echo "$kind: ${#pieces[@]} parts, $(du -cm "${pieces[@]}" | tail -1 | cut -f1) MiB"
done
echo "unpacked: $(du -sm "$site" | cut -f1) MiB, $(find "$site" -type f | wc -l) files"
[[ -z $weights ]] || echo "weights: sha256 $(sha256sum "$weights" | cut -d' ' -f1)"
rm -rf "$work"
