#TEST timeout=120
# Check that scripts/test counts correctly, in a separate tree with tests that pass, fail, hang, crash and print
# nothing.
set -u
n=0
result() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi; }

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
mkdir -p src/base src/cli/shell src/comm src/device/cpu/kernels src/store tests scripts include/zr
sed '/(call needed,/d; /"PCRE2 /d' "$ZR_SOURCE/Makefile" >Makefile # looking for libraries would take half of the time
cp "$ZR_SOURCE/scripts/test" "$ZR_SOURCE/scripts/run-test" "$ZR_SOURCE/scripts/count" scripts/
echo 'int zr_one(void); int zr_one(void) { return 1; }' >src/base/one.c
cp src/base/one.c src/comm/mpi_none.c
sed -i 's/one/two/g' src/comm/mpi_none.c
mkdir -p src/device/cuda
sed 's/one/three/g' src/base/one.c >src/device/cuda/none.c
sed 's/one/four/g' src/base/one.c >src/comm/nccl_none.c
echo 'int main(void) { return 0; }' >src/cli/shell/main.c
unset SAN ZR_SHARED ZR_KERNELS
sed 's/one/five/g' src/base/one.c >src/store/uring.c
cp src/store/uring.c src/store/uring_none.c
MPI=none
CUDA=none
export MPI CUDA

levels() { make -s info | sed -n 's/^levels *//p'; }
script() { mkdir -p tests/room && printf '%s\n' "$2" >"tests/room/test_$1.sh"; }
run() { # NAME WANTED_LAST_LINE WANTED_STATUS ARGUMENTS...
    name=$1 last=$2 wanted=$3
    shift 3
    scripts/test --no-deps "$@" >out 2>&1
    status=$?
    [ "$(tail -n 1 out)" = "$last" ] && [ $status = "$wanted" ]
    rc=$?
    [ $rc = 0 ] || sed 's/^/# /' out
    result $rc "$name"
    rm -rf tests/*
}
says() { # NAME PATTERN: of the last run
    grep -q -- "$2" out
    rc=$?
    [ $rc = 0 ] || sed 's/^/# /' out
    result $rc "$1"
}

script good 'echo ok 1 - a; echo ok 2 - b'
script skips 'echo ok 1 - a; echo "ok 2 # SKIP b"; echo "not ok 3 # SKIP c"'
run 'counts' '3 passed, 0 failed, 2 skipped' 0
says '... what is skipped as neither' '^test_skips.sh .* 1 passed, 0 failed, 2 skipped '
script bad 'echo ok 1 - a; echo not ok 2 - b'
run 'a failed line' '1 passed, 1 failed' 1
says '... is shown' '^not ok 2 - b'
says '... and its test is named at the end' '^failed: test_bad.sh$'
script crash 'echo ok 1 - a; kill -SEGV $$'
script status 'echo ok 1 - a; exit 3'
script silent 'true'
run 'three more kinds of failure' '2 passed, 3 failed' 1
says '... a crash' '^test_crash.sh .* 1 passed, 1 failed '
says '... a bad exit' '^test_status.sh .* 1 passed, 1 failed '
says '... and silence' '^test_silent.sh .* 0 passed, 1 failed '
script hang '#TEST timeout=1
echo ok 1; sleep 60'
sed -i 's/^usual=10/usual=5/' scripts/test
run 'a hang is killed' '1 passed, 1 failed' 1
says '... after a multiple of its limit' 'killed after 5 s'
# Each test waits for a sign of the other.
script ping 'touch "$ZR_BUILD/ping"; until [ -e "$ZR_BUILD/pong" ]; do sleep 0.1; done; echo ok 1'
script pong 'touch "$ZR_BUILD/pong"; until [ -e "$ZR_BUILD/ping" ]; do sleep 0.1; done; echo ok 1'
run 'two run side by side' '2 passed, 0 failed' 0 -j 2
for i in 1 2 3; do script many$i "sleep 0.$i; touch \$ZR_BUILD/done$i; echo ok 1"; done
script single '#TEST alone=1 timeout=100
[ -e "$ZR_BUILD/done1" ] && [ -e "$ZR_BUILD/done2" ] && [ -e "$ZR_BUILD/done3" ] && echo ok 1'
run 'one that wants to be alone waits for the others' '4 passed, 0 failed' 0 -j 4
script other 'sleep 1; echo ok 1'
ZR_START_UNTIL=1 ZR_END_BY=2
export ZR_START_UNTIL ZR_END_BY
script good 'echo ok 1'
run 'no other run of tests has a say' '2 passed, 0 failed' 0
unset ZR_START_UNTIL ZR_END_BY
cp scripts/run-test kept
echo 'case $1 in test_lost*) kill -KILL $$ ;; esac' | sed -i '2r /dev/stdin' scripts/run-test
script lost 'echo ok 1'
script good 'echo ok 1'
run 'a test whose result is lost is a failure' '1 passed, 1 failed' 1 -j 1
says '... that is named' '^failed: runner$'
mv kept scripts/run-test
script left 'sleep 100 & echo $! >"$ZR_BUILD/pid"; echo ok 1'
run 'what a test leaves behind' '1 passed, 0 failed' 0
left=$(cat build/*/pid build/pid 2>/dev/null)
i=0
while kill -0 "$left" 2>/dev/null && [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done
! kill -0 "$left" 2>/dev/null
result $? '... is ended'
script slow 'touch "$ZR_BUILD/begun"; sleep 100; echo ok 1'
(exec setsid scripts/test --no-deps) >out 2>&1 &
i=0
until [ -e build/mpi-none-cuda-none/begun ] || [ $i = 600 ]; do sleep 0.1; i=$((i + 1)); done
kill -TERM $!
wait $!
[ $? = 1 ] && [ "$(tail -n 1 out)" = '0 passed, 1 failed' ]
result $? 'one that is interrupted says so'
rm -rf tests/*
run 'no number of tests' "test: -j takes a number of tests, 1 or more, not '0'" 2 -j 0
script cache 'mkdir -p "$XDG_CACHE_HOME" && [ -z "$(ls -A "$XDG_CACHE_HOME")" ] && touch "$XDG_CACHE_HOME/x" && echo ok 1'
script env '#TEST env=A=b threads=3
[ "$A$OMP_NUM_THREADS" = b3 ] && echo ok 1'
script cold 'mkdir -p "$XDG_CACHE_HOME" && [ -z "$(ls -A "$XDG_CACHE_HOME")" ] && touch "$XDG_CACHE_HOME/x" && echo ok 1'
run 'each has a cache of its own, and the variables of its run line' '3 passed, 0 failed' 0 -j 2
script busy 'i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; echo ok 1'
sed -i 's/^budget=20/budget=0/' scripts/test
run 'processor time is counted' '1 passed, 0 failed' 0
says '... the longest are named' '^  test_busy.sh  *[0-9.]*$'
says '... and who is over the budget' '^over the budget of 0 s of processor time: test_busy.sh'
sed -i 's/^budget=0/budget=20/' scripts/test
script one 'echo ok 1'
script two 'echo not ok 1'
run 'a filter' '1 passed, 0 failed' 0 one
script one 'echo ok 1'
script two 'echo not ok 1'
run 'a path' '1 passed, 0 failed' 0 tests/room/test_one.sh
# Write a list of faults of src/base/one.c, which test one notices.
faults() { mkdir -p tests/mutants && printf '%s\n' src/base/one.c '- 1' '+ 2' '! test_one' '' >tests/mutants/list.txt; }
script one 'echo ok 1'
script two 'echo not ok 1'
faults
run 'the tests of a source' '1 passed, 0 failed' 0 --of src/base/one.c
faults
run 'a source without tests' "test: tests/mutants/list.txt names no test of src/store/uring.c; give a pattern of a test's name" 2 \
    --of src/store/uring.c
run 'no source' "test: --of takes a source file, not 'src/none.c'" 2 --of src/none.c
script one 'echo ok 1'
run 'a filter that nothing meets' '0 passed, 0 failed' 1 other
long='#TEST long=1
echo "ok 1 - ${ZR_LONG-}"'
more='#TEST long=more
echo ok 1; [ -z "${ZR_LONG-}" ] || echo ok 2'
script long "$long"
script more "$more"
run 'long tests and cases wait to be asked for' '1 passed, 0 failed, 1 skipped' 0
script long "$long"
script more "$more"
mpich=', 1 skipped'
command -v mpicc.mpich >/dev/null 2>&1 && mpich=
run '--long runs them' "3 passed, 0 failed$mpich" 0 --long
# Print a word whose checksum selects the kind of a share: 0 the long run, 1 to 5 others.
word_of() { # KIND N: the N-th of its words
    i=0 left=$2
    while :; do
        i=$((i + 1))
        [ $(($(printf %s "kind $i" | cksum | cut -d' ' -f1) % 6)) != "$1" ] || left=$((left - 1))
        [ $left != 0 ] || break
    done
    echo $i
}
script short 'echo ok 1'
script long "$long"
script more "$more"
run 'a share of them comes after the short run' '5 passed, 0 failed, 1 skipped' 0 --share "$(word_of 0 1)"
says '... and how much of it ran' '^the share: 2 of 2 runs of tests, in [0-9.]* s with their build$'
script short 'echo ok 1'
script long "$long"
script tsan '#TEST tsan=1
echo "ok 1 - ${SAN-}"'
run 'a share of sanitizers' '3 passed, 0 failed, 1 skipped' 0 --share "$(word_of 2 1)"
script cuda '#TEST tsan=1
echo "ok 1 - ${CUDA-}"; echo "<${CUDA-}>" >>"$ZR_SOURCE/cudas"'
CUDA=auto
run '... with CUDA' '2 passed, 0 failed' 0 --share "$(word_of 2 1)"
CUDA=none
[ "$(tr -d '\n' <cudas)" = '<auto><none>' ]
result $? '... in the first run alone'
script kernels '#TEST tsan=gpu
echo "ok 1 - ${SAN-}"'
script tsan '#TEST tsan=1
echo "ok 1 - ${SAN-}"'
run 'a share of races in kernels' '3 passed, 0 failed' 0 --share "$(word_of 4 1)"
seeded='#TEST seeds=12
echo "${ZR_STAND_IN_SEED-none}" >>"$ZR_SOURCE/seeds"; [ "${ZR_STAND_IN_SEED-}" != "$SICK" ] && echo ok 1'
script seeded "$seeded"
SICK=0
export SICK
run 'a long run takes all seeds' "13 passed, 0 failed$mpich" 0 --long -j 1
[ "$(tr '\n' ' ' <seeds)" = 'none 1 2 3 4 5 6 7 8 9 10 11 12 ' ]
result $? '... after a run without'
script seeded "$seeded"
run 'a share takes some' '6 passed, 0 failed' 0 --share "$(word_of 5 1)"
script seeded "$seeded"
SICK=11
run 'a seed that fails' "11 passed, 1 failed$mpich" 1 --long
says '... is named' '^# ZR_STAND_IN_SEED=11'
# What a drawn test needs is installed before it runs, and only then.
printf '#!/bin/sh\necho "$@" >>deps.calls\n[ "$1" != --nothing ]\n' >scripts/deps
chmod +x scripts/deps
script page '#TEST long=1 deps=browser
grep -qx -e --browser deps.calls && echo ok 1'
script bare '#TEST long=1 deps=nothing
echo "ok 1 # SKIP nothing"'
scripts/test --share "$(word_of 2 1)" >out 2>&1
result "$(grep -c browser deps.calls)" 'nothing is installed for a test that a share leaves out'
scripts/test --share "$(word_of 0 1)" >out 2>&1
[ $? = 0 ] && grep -q '^test_page.sh .* 1 passed, 0 failed' out
result $? 'what a test of a share needs is installed before'
says '... and it goes on if that fails' '^# going on without what scripts/deps --nothing installs'
rm -rf scripts/deps deps.calls tests/*
sed -i 's/^build_seconds=240/build_seconds=-1/' scripts/test
script long "$long"
script more "$more"
run '... as far as there is time' '1 passed, 0 failed, 2 skipped' 0 --share "$(word_of 0 1)"
says '... what it left is told' '^# the share (long): skipped: its time was over before all of it was built'
says '... and its number' '^the share: 0 of 2 runs of tests, '
sed -i 's/^build_seconds=-1/build_seconds=240/; s/^end_seconds=1170/end_seconds=3/' scripts/test
script slow '#TEST long=1
sleep 30; echo ok 1'
run '... and ends in time' '0 passed, 0 failed, 2 skipped' 0 --share "$(word_of 0 1)"
sed -i 's/^end_seconds=3/end_seconds=1170/; s/^share_tests=12/share_tests=1/' scripts/test
# one UNTIL END COMMAND...: print the output of scripts/run-test, with both times as seconds from now on
mkdir -p build/test-logs
one() {
    read -r now _ </proc/uptime
    until=$((${now%.*} + $1)) end=$((${now%.*} + $2))
    shift 2
    B=build ZR_START_UNTIL=$until ZR_END_BY=$end scripts/run-test "test_one||50||scripts/run-test --process $*" >out
}
one -1 50 echo ok 1
says 'no test begins late' '^test_one||0|0|0|0|0|late$'
one 50 2 sleep 30
says '... and none runs on' '^test_one||0|0|0|0|0|late$'
one 50 50 echo ok 1
says '... others run' '^test_one||1|0|0|[0-9.]*|[0-9.]*|$'
for i in 1 2 3; do
    script $i "#TEST long=1
echo ok 1"
done
: >shares
drawn() { sed -n 's/^\(test_[123].sh\) .* 1 passed.*/\1/p' shares | sort -u | wc -l; }
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    [ "$(drawn)" = 3 ] || scripts/test --no-deps --share "$(word_of 0 $i)" >>shares 2>&1
done
[ "$(drawn)" = 3 ]
result $? '... and in time each has its turn'
rm -rf tests/*
sed -i 's/^share_tests=1/share_tests=12/' scripts/test
script needs '#TEST needs=/no/such/file
echo ok 1'
run 'what is needed is absent' '0 passed, 0 failed, 1 skipped' 0
script np '#TEST np=1,2
echo ok 1'
run 'no mpirun: skipped aloud' '0 passed, 0 failed, 2 skipped' 0
# A processor whose highest level is v3, and whose fastest is v2.
cat >src/cli/shell/main.c <<'END'
#include <stdio.h>
#include <stdlib.h>
int main(void) { const char *level = getenv("ZR_KERNELS"); puts("kernels   v2 (so)"); return level && level[1] > '3'; }
END
script level 'echo "ok 1 - ${ZR_KERNELS:-best}"; [ "${ZR_KERNELS:-v3}" = v3 ] || echo not ok 2'
run 'each level, those that are not there aloud' "2 passed, 0 failed, $(($(levels | wc -w) - 2)) skipped" 0 --levels
mkdir -p tests/room
echo 'int main(void) { return undeclared; }' >tests/room/test_broken.c
run 'what does not compile' '0 passed, 1 failed' 1

if [ -n "$ZR_MPIRUN" ]; then
    cp src/base/one.c src/comm/mpi.c
    sed -i 's/one/two/g' src/comm/mpi.c
    MPI=auto
    script ranks '#TEST np=1,3
echo ok 1; [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 2 ] || echo not ok 2'
    run 'one failing rank of three' '2 passed, 1 failed' 1
fi
