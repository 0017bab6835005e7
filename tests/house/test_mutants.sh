#TEST timeout=60
# Check that the faults of tests/mutants/list.txt can still be inserted into the sources.
cd "$ZR_SOURCE" || exit 1
if command -v python3 >/dev/null; then
    tests/mutants/run --check
    [ $? = 0 ] && echo 'ok 1 - each text stands once in its file' || echo 'not ok 1 - each text stands once in its file'
    tests/mutants/run --draw 20 --seed 1 >"$ZR_BUILD/drawn" && tests/mutants/run --check --list "$ZR_BUILD/drawn"
    [ $? = 0 ] && echo 'ok 2 - faults that are drawn can be made' || echo 'not ok 2 - faults that are drawn can be made'
else
    echo 'ok 1 # SKIP no python3'
fi
