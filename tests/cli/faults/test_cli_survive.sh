#TEST timeout=120 build=tests/zr_fault
# Check a run of thread ranks, which all end with the process.
here=$PWD/tests/support
. tests/support/command.inc
. "$here/survive.inc"

check "a run that nothing disturbs" "$ZR" train c.json --ranks 2 --quiet --train.output_dir=whole
survive "2 threads" 1 "$ZR" train c.json --ranks 2
echo "1..$n"
