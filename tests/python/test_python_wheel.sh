#TEST timeout=1200 long=1 deps=wheel
# Check the wheel of scripts/wheel in a new root file system that has nothing but Debian and Python: pip installs it, zr
# trains with the bits of the command of this build, and the tests of the package pass, with torch and transformers too
# if they can be installed. Needs root and debootstrap (scripts/deps --wheel).
. tests/peers/peers.inc
rm -rf "$tmp"
tmp=$(mktemp -d "$ZR_BUILD/wheel-test.XXXXXX") || exit 1 # so that files of build/peers can be linked
trap 'exit 143' INT TERM # which removes it
root=$tmp/root n=0
check() { # NAME COMMAND...
    n=$((n + 1)) name=$1
    shift
    if "$@" >"$tmp/log" 2>&1; then echo "ok $n - $name"; else echo "not ok $n - $name"; sed 's/^/# /' "$tmp/log" | tail -60; fi
}
# Run a command in the root file system, with a /proc that ends with the command.
in_root() {
    unshare -m sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" env -i PATH=/usr/bin:/bin HOME=/root LANG=C.UTF-8 "$@"' \
        "$root" "$@"
}

[ "$(id -u)" = 0 ] || skip_all 'only root can make a root file system'
command -v debootstrap >/dev/null || skip_all 'there is no debootstrap; scripts/deps --wheel installs it'
debootstrap --variant=minbase --include=python3,python3-venv bookworm "$root" >"$tmp/log" 2>&1 ||
    skip_all "debootstrap failed: $(tail -n 1 "$tmp/log")"
env -u ZR_BUILD scripts/wheel "$root/wheels" >"$tmp/log" 2>&1
case $? in
0) ;;
69) skip_all "$(tail -n 1 "$tmp/log")" ;;
*) echo 'not ok 1 - scripts/wheel makes a wheel'; tail -n 40 "$tmp/log" | sed 's/^/# /'; exit 1 ;;
esac
build/wheel-tools/bin/pip download -q --only-binary=:all: --python-version 3.11 -d "$root/wheels" \
    numpy==2.4.6 pytest==9.2.0 || skip_all 'numpy and pytest could not be taken from PyPI'

# The host has trained the same before.
mkdir "$tmp/host" "$root/trial"
for i in $(seq 200); do echo "line $i: $((i * i % 97)) apples, $((i % 7)) pears."; done >"$tmp/text.txt"
cp "$tmp/text.txt" "$root/trial"
"$ZR" train --data="$tmp/text.txt" --ranks 2 --stage 3 --seq 32 --model.type=llama --model.hidden_size=32 \
    --model.intermediate_size=64 --model.num_hidden_layers=2 --model.num_attention_heads=2 \
    --model.max_position_embeddings=32 --train.steps=20 --train.output_dir="$tmp/host/run" --quiet || exit 1
cat >"$root/trial/train.py" <<'END'
import zr
plan = zr.plan(preset="llama3-8b", ranks=8, cluster="dgx-a100x8", stage=3, seq=4096, batch=1)
assert plan.params == 8030261248 and plan.memory.total > 16e9, plan
model = {"type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
         "max_position_embeddings": 32}
run = zr.train(model=model, data="/trial/text.txt", ranks=2, stage=3, seq=32, steps=20, output_dir="/trial/run")
assert run.wait().steps == 20
assert run.evaluate("/trial/text.txt").loss < 5.5
assert len(run.generate("line 7:", tokens=20)) > 0
print("trained")
END
in_root true 2>/dev/null || skip_all 'a /proc cannot be mounted here'
in_root python3 -m venv /own || { echo 'not ok 1 - a virtual environment'; exit 1; }
check 'pip installs the wheel' in_root /own/bin/pip install -q --no-index --find-links=/wheels zr-train pytest
check 'zr plans, trains, evaluates and generates' in_root /own/bin/python -W error /trial/train.py
check 'a run has the bits of this build' cmp "$tmp/host/run/model/model.safetensors" "$root/trial/run/model/model.safetensors"
check 'the command is there' in_root /own/bin/zr --version

mkdir -p "$root/source/src/cli/shell" "$root/source/tests"
cp -r docs include python "$root/source"
cp src/cli/shell/main.c "$root/source/src/cli/shell"
cp -r tests/python "$root/source/tests"
tests() { # WORDS...
    in_root env ZR_SOURCE=/source "$@" -W error -m pytest -q -rs -p no:cacheprovider -c /dev/null --rootdir=/source /source/tests/python
}
check 'the tests of the package pass' tests /own/bin/python
need_peers hf "numpy, torch, transformers, pytest" $hf_packages pytest==9.2.0
site=$("$peers/bin/python" -c 'import torch, os; print(os.path.dirname(os.path.dirname(torch.__file__)))')
case $site in
*/python3.11/*) ;;
*) skip_all "torch is not installed for Debian's Python 3.11" ;;
esac
cp -al "$site" "$root/peers" 2>/dev/null || cp -a "$site" "$root/peers"
check 'transformers loads what a run saves' tests env PYTHONPATH=/peers HF_HUB_OFFLINE=1 /own/bin/python
echo "1..$n"
