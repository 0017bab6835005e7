#TEST timeout=60 long=more
# Check the Python package, with numpy and pytest from PyPI, in build/peers/python; ZR_PEERS names another virtual
# environment that has them.
. tests/peers/peers.inc
need_peers python "numpy, pytest" numpy==2.4.6 pytest==9.2.0
export PYTHONPATH=$ZR_SOURCE/python ZR_LIBRARY=$ZR_BUILD/libzr.so ZR_COMMAND=$ZR PYTHONDONTWRITEBYTECODE=1
"$peers/bin/python" -X dev -W error -m pytest -q -p no:cacheprovider \
    -c /dev/null --rootdir="$ZR_SOURCE" "$ZR_SOURCE/tests/python" >"$tmp/out" 2>&1
rc=$?
sed 's/^/# /' "$tmp/out" | tail -60
if [ $rc = 0 ]; then echo "ok 1 - the Python package"; else echo "not ok 1 - the Python package"; fi
echo "1..1"
