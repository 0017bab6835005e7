#TEST timeout=200 long=more
# Draw a few pairs of trainings at random (bench/pairs) and check that they have the same bits, the planned bytes, and
# the plan of `zr plan`.
. tests/support/command.inc

pairs=5
[ -z "${ZR_LONG-}" ] || pairs=60
check "random pairs" "$ZR_SOURCE/bench/pairs" --draw $pairs --seed 3 --dir drawn
check "... all of them" prints "^$pairs pairs of seed 3: 0 failed" cat out
check "... whose words are listed" grep -q '^[0-9]* zero_optimization.stage 3' drawn/covered
check "... and the refusals" grep -q 'none.json --model' drawn/refused

# a command that trains with another seed in the second run
cat >other <<'END'
#!/bin/sh
case "$*" in
*/1-b*) exec "$REAL" "$@" --train.seed=7 ;;
*) exec "$REAL" "$@" ;;
esac
END
chmod +x other
different() { REAL=$ZR ZR=$PWD/other "$ZR_SOURCE/bench/pairs" --only 1 --seed 3 --dir other.d; }
check "another run" code 1 different
check "... is named" grep -q '^pair 1 (--seed 3 --only 1): step 1: loss ' out
check "... with two commands" test "$(grep -c ' train .*-[ab] --ranks ' out)" -ge 2
echo "1..$n"
