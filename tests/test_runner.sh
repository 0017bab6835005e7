#TEST timeout=120
# scripts/test counts what happened: in a tree of its own with tests that pass, fail, hang, crash and are silent.
set -u
n=0
result() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi; }

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
mkdir -p src/base src/cli src/comm src/device/cpu/kernels tests scripts include/zr
cp "$ZR_SOURCE/Makefile" .
cp "$ZR_SOURCE/scripts/test" scripts/
echo 'int zr_one(void); int zr_one(void) { return 1; }' >src/base/one.c
cp src/base/one.c src/comm/mpi_none.c
sed -i 's/one/two/g' src/comm/mpi_none.c
mkdir -p src/device/cuda
sed 's/one/three/g' src/base/one.c >src/device/cuda/none.c
sed 's/one/four/g' src/base/one.c >src/comm/nccl_none.c
echo 'int main(void) { return 0; }' >src/cli/main.c
unset SAN ZR_SHARED ZR_KERNELS
MPI=none
CUDA=none
export MPI CUDA

levels() { make -s info | sed -n 's/^levels *//p'; }
script() { printf '%s\n' "$2" >"tests/test_$1.sh"; }
run() { # NAME WANTED_LAST_LINE WANTED_STATUS ARGUMENTS...
    name=$1 last=$2 wanted=$3
    shift 3
    scripts/test --no-deps "$@" >out 2>&1
    status=$?
    [ "$(tail -n 1 out)" = "$last" ] && [ $status = "$wanted" ]
    rc=$?
    [ $rc = 0 ] || sed 's/^/# /' out
    result $rc "$name"
    rm -f tests/*
}

script good 'echo ok 1 - a; echo ok 2 - b'
run 'counts' '2 passed, 0 failed' 0
script good 'echo ok 1 - a; echo "ok 2 # SKIP b"; echo "not ok 3 # SKIP c"'
run 'skipped is neither' '1 passed, 0 failed, 2 skipped' 0
script bad 'echo ok 1 - a; echo not ok 2 - b'
run 'a failed line' '1 passed, 1 failed' 1
script crash 'echo ok 1 - a; kill -SEGV $$'
run 'a crash' '1 passed, 1 failed' 1
script status 'echo ok 1 - a; exit 3'
run 'a bad exit' '1 passed, 1 failed' 1
script silent 'true'
run 'silence' '0 passed, 1 failed' 1
script hang '#TEST timeout=1
echo ok 1; sleep 60'
run 'a hang is killed' '1 passed, 1 failed' 1
script env '#TEST env=A=b threads=3
[ "$A$OMP_NUM_THREADS" = b3 ] && echo ok 1'
run 'variables of the run line' '1 passed, 0 failed' 0
script one 'echo ok 1'
script two 'echo not ok 1'
run 'a filter' '1 passed, 0 failed' 0 one
script one 'echo ok 1'
run 'a filter that nothing meets' '0 passed, 0 failed' 1 other
script long '#TEST long=1
echo ok 1'
run 'long tests wait to be asked for' '0 passed, 0 failed, 1 skipped' 0
script needs '#TEST needs=/no/such/file
echo ok 1'
run 'what is needed is absent' '0 passed, 0 failed, 1 skipped' 0
script np '#TEST np=1,2
echo ok 1'
run 'no mpirun: skipped aloud' '0 passed, 0 failed, 2 skipped' 0
# A processor whose highest level is v3, and whose best v2.
cat >src/cli/main.c <<'END'
#include <stdio.h>
#include <stdlib.h>
int main(void) { const char *level = getenv("ZR_KERNELS"); puts("kernels   v2 (so)"); return level && level[1] > '3'; }
END
script level 'echo "ok 1 - ${ZR_KERNELS:-best}"; [ "${ZR_KERNELS:-v3}" = v3 ] || echo not ok 2'
run 'each level, those that are not there aloud' "2 passed, 0 failed, $(($(levels | wc -w) - 2)) skipped" 0 --levels
echo 'int main(void) { return undeclared; }' >tests/test_broken.c
run 'what does not compile' '0 passed, 1 failed' 1

if [ -n "$ZR_MPIRUN" ]; then
    cp src/base/one.c src/comm/mpi.c
    sed -i 's/one/two/g' src/comm/mpi.c
    MPI=auto
    script ranks '#TEST np=1,3
echo ok 1; [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 2 ] || echo not ok 2'
    run 'one failing rank of three' '2 passed, 1 failed' 1
fi
