#TEST long=more build=fuzz-files
# Check that every fuzz target is built and accepts its corpus; in a long run with clang's libFuzzer, also some
# generated inputs.
set -u
n=0
result() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi; }
cd "$ZR_SOURCE" || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

clang=
[ -z "${ZR_LONG-}" ] || [ -n "${SAN-}" ] ||
    { echo 'int LLVMFuzzerTestOneInput(const char *b, unsigned long n) { return b && n == 0; }' |
        clang -x c -fsanitize=fuzzer,address - -o /dev/null 2>/dev/null && clang=1; }
if [ "$clang" ]; then
    make -s -j2 fuzz
    result $? 'make fuzz'
fi
for source in tests/fuzz/*.c; do
    target=$(basename "${source%.c}")
    "$ZR_BUILD/tests/fuzz_$target" tests/fuzz/corpus/"$target"/*
    result $? "$target takes its corpus"
    [ "$clang" ] || continue
    mkdir -p "$ZR_BUILD/fuzz/found" && (cd "$ZR_BUILD/fuzz/found" && ../"$target" -runs=20000 -max_total_time=60 -verbosity=0 \
        "$tmp" "$ZR_SOURCE/tests/fuzz/corpus/$target")
    result $? "... and inputs that libFuzzer makes of it"
done
echo "1..$n"
