#TEST timeout=120 long=more
# Check the Python package, with numpy and pytest from PyPI, in build/peers/python; ZR_PEERS names another virtual
# environment that has them. The long run installs torch and transformers too; tests that lack them are skipped.
. tests/peers/peers.inc
need_peers python "numpy, pytest" numpy==2.4.6 pytest==9.2.0
if [ -n "${ZR_LONG-}" ] && [ "$peers" = "$own" ] && ! "$peers/bin/python" -c 'import torch, transformers' 2>/dev/null; then
    "$peers/bin/pip" install -q $hf_packages || echo '# torch and transformers could not be installed from PyPI'
fi
export PYTHONPATH=$ZR_SOURCE/python ZR_LIBRARY=$ZR_BUILD/libzr.so ZR_COMMAND=$ZR PYTHONDONTWRITEBYTECODE=1
HF_HUB_OFFLINE=1 "$peers/bin/python" -X dev -W error -m pytest -q -rs -p no:cacheprovider \
    -c /dev/null --rootdir="$ZR_SOURCE" "$ZR_SOURCE/tests/python" >"$tmp/out" 2>&1
rc=$?
sed 's/^/# /' "$tmp/out" | tail -60
if [ $rc = 0 ]; then echo "ok 1 - the Python package"; else echo "not ok 1 - the Python package"; fi
sed -n 's/^SKIPPED \[[0-9]*\] [^:]*tests\/python\///p' "$tmp/out" | awk '{ printf "ok %d - %s # SKIP %s\n", NR + 1, $1, substr($0, length($1) + 2) }'
echo "1..$((1 + $(grep -c '^SKIPPED' "$tmp/out")))"
