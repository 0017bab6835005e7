#TEST timeout=120
# Check that the tree follows its own rules, and that scripts/lint finds each violation.
set -u
n=0
result() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi; }

cd "$ZR_SOURCE" || exit 1
scripts/lint --no-format "$ZR_BUILD"
result $? 'layers, exported symbols, headers alone'

# A tree of its own with one fault at a time.
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/scripts" "$tmp/include/zr" "$tmp/src/plan" "$tmp/src/comm" "$tmp/src/device/cpu" "$tmp/src/graph/ops"
cp scripts/layers "$tmp/scripts/"
for header in base comm graph; do echo >"$tmp/include/zr/$header.h"; done

faulty() { # FILE TEXT WANTED
    printf '%s\n' "$2" >"$tmp/$1"
    out=$("$tmp/scripts/layers" 2>&1)
    rc=$?
    rm -f "$tmp/$1"
    case $rc:$out in 1:*"$1:1: $3"*) result 0 "seen: $3" ;; *) echo "# $rc: $out"; result 1 "seen: $3" ;; esac
}
clean() { # FILE TEXT
    printf '%s\n' "$2" >"$tmp/$1"
    "$tmp/scripts/layers"
    result $? "allowed: $2"
    rm -f "$tmp/$1"
}
faulty src/plan/a.c '#include "zr/comm.h"' 'no such arrow: plan -> comm'
faulty src/device/cpu/a.c '#include "graph/secret.h"' 'private header of another layer'
faulty src/device/cpu/a.c '#include "graph/ops/ops.h"' 'private header of another layer'
faulty src/comm/threads.c '#include <mpi.h>' '<mpi.h> belongs to src/comm/mpi* alone'
faulty src/plan/a.c '#include "../comm/a.h"' 'name the layer'
faulty src/plan/a.c 'void f(void) { exit(1); }' 'a library does not call'
mkdir -p "$tmp/src/train/host" "$tmp/src/train/run"
faulty src/train/host/a.c '#include "train/run/run.h"' 'room host stands below run'
faulty src/train/run/a.c '#include "train/attic/a.h"' 'unknown room train/attic'
clean src/train/run/a.c '#include "train/host/host.h"'
clean src/comm/mpi.c '#include <mpi.h>'
clean src/comm/mpi_comm.h '#include <mpi.h>'
clean src/plan/a.c '/* exit(1) */ void f(int n) { snprintf("printf(", n); } // abort()'
faulty include/zr/graph.h '#include "zr/comm.h"' 'no such arrow: graph -> comm'

# The width of a line is counted in characters, not in bytes.
mkdir -p "$tmp/docs"
cp scripts/lint "$tmp/scripts/"
line=$(printf '%0120d' 0 | sed 's/0/Ψ/g')
wide() { # LINE : what lint says of a page with it
    printf '# Page\n\n%s\n' "$1" >"$tmp/docs/page.md"
    "$tmp/scripts/lint" --no-format "$ZR_BUILD" 2>&1 | grep 'columns'
}
[ -z "$(wide "$line")" ]
result $? 'documentation: 120 characters are allowed'
[ "$(wide "${line}x")" = 'lint: docs/page.md has lines of more than 120 columns: 3' ]
result $? 'documentation: a longer line is named'

# Each room says what it is for, and the library exports no more than is allowed.
said() { "$tmp/scripts/lint" --no-format "$1" 2>&1 | grep -F "$2"; }
echo '/* plan/cost: numbers of a plan. */' >"$tmp/src/plan/a.c"
[ -n "$(said "$ZR_BUILD" 'no comment in src/plan begins with "plan: "')" ]
result $? 'rooms: a room without a comment is named'
echo '/* plan: schedules. */' >"$tmp/src/plan/a.c"
[ -z "$(said "$ZR_BUILD" 'no comment in src/plan ')" ]
result $? 'rooms: a comment that begins with the name of the room is enough'
mkdir "$tmp/build"
seq 1 241 | sed 's/.*/int zr_f&(void); int zr_f&(void) { return 0; }/' >"$tmp/many.c"
${CC:-cc} -shared -fPIC -o "$tmp/build/libzr.so" "$tmp/many.c"
[ -n "$(said "$tmp/build" 'exports 241 functions; at most 240')" ]
result $? 'symbols: too many exported functions are counted'

# The progress of make: a line for each of few files, a counter of many, in as few lines as a log can bear.
counted() { # MISSING CALLS: print what make prints of CALLS files, of which it said that MISSING were missing
    echo "$1" >"$tmp/count"
    seq 1 "$2" | xargs -P 4 -I '{}' scripts/count "$tmp" CC 'src/{}.c (v3)'
}
[ "$(counted 3 3 | sort | tr -s ' ')" = "$(printf ' CC src/%s.c (v3)\n' 1 2 3)" ]
result $? 'make: few files by name'
[ "$(counted 95 95 | sort -n -k2 | tr -s ' ' | tr '\n' ';')" = "$(for i in 10 20 30 40 50 60 70 80 90 95; do printf ' CC %s of 95;' $i; done)" ]
result $? 'make: many files by ten numbers, all different although jobs run side by side'
[ "$(counted 0 120 | tail -n +21 | tr -s ' ' | tr '\n' ';')" = ' CC 50; CC 100;' ]
result $? 'make: files that are made again, whose number is unknown'
[ "$(scripts/count "$tmp" LD build/zr)" = '  LD    build/zr' ]
result $? 'make: a linked file by name'
make -n "B=$tmp/dry" 2>/dev/null | grep -q "echo [1-9][0-9]* > $tmp/dry/obj/count" && [ ! -e "$tmp/dry" ]
result $? 'make: a dry run counts nothing'
[ "$(make -n V=1 -W src/base/text/text.c "build/obj/base/text/text.o" 2>/dev/null | grep -c scripts/count)" = 0 ]
result $? 'make: with V=1 no counter'
if script -qec true /dev/null >/dev/null 2>&1; then
    echo 25 >"$tmp/count"
    TERM=xterm script -qec "seq 1 25 | xargs -I '{}' scripts/count $tmp CC src/{}.c" /dev/null >"$tmp/typed"
    [ "$(grep -c . "$tmp/typed")" = 1 ] && tr '\r' '\n' <"$tmp/typed" | grep -q ' 24 of 25'
    result $? 'make: one line of a terminal'
fi
