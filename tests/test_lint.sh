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
