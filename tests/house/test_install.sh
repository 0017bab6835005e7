#TEST timeout=120
# Check that a user's program builds from the files of `make install`, through pkg-config, and trains.
set -u
n=0
result() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi; }

if [ -n "${SAN-}" ]; then
    echo 'ok 1 # SKIP a library under a sanitizer is not for installing'
    exit 0
fi
command -v pkg-config >/dev/null 2>&1 || { echo 'ok 1 # SKIP no pkg-config'; exit 0; }

cd "$ZR_SOURCE" || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
make -s install PREFIX="$tmp/usr" >/dev/null
result $? 'make install'
PKG_CONFIG_PATH=$tmp/usr/lib/pkgconfig
export PKG_CONFIG_PATH

# It builds in another folder, so that it finds no file of the source tree by chance.
tree=$PWD
cp examples/own_model.c examples/own_op.c examples/own_run.c "$tmp/"
cd "$tmp" || exit 1
build() { # NAME SOURCE FLAGS...
    name=$1 source=$2
    shift 2
    ${CC:-gcc} -std=c11 -Wall -Wextra -Werror "$source" -o "$name" "$@"
}
losses() { sed -n 's/^step .* loss //p' "$1"; }
learns() { # NAME: it ends well, with half the loss that it began with
    "./$1" >"$1.out" || return 1
    sed 's/^/# /' "$1.out"
    losses "$1.out" | awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(NR > 1 && last < first / 2) }'
}
works() { # NAME: and its memory is what the plan said
    learns "$1" && [ "$(grep -c 'equal in every category' "$1.out")" = 2 ]
}

build shared own_model.c $(pkg-config --cflags --libs zr) && LD_LIBRARY_PATH=$tmp/usr/lib works shared
result $? 'the example against libzr.so'
build static own_model.c $(pkg-config --cflags --libs --static zr | sed 's/-lzr\b/-l:libzr.a/') && works static
result $? 'the example against libzr.a'
! ldd static | grep -q libzr
result $? 'the static program asks for no libzr.so'
sort shared.out >shared.sorted; sort static.out | cmp -s - shared.sorted
result $? 'both print the same numbers'
build own_op own_op.c $(pkg-config --cflags --libs zr) && LD_LIBRARY_PATH=$tmp/usr/lib learns own_op &&
    grep -q 'stages 0 and 3: the same losses' own_op.out
result $? 'an op and an optimizer of its own, at stages 0 and 3'

# A run by a program equals a run by the command.
few="--train.steps=4 --train.eval_interval=2 --data.train=$tree/ARCHITECTURE.md --data.val=$tree/README.md"
build own_run own_run.c $(pkg-config --cflags --libs zr) &&
    LD_LIBRARY_PATH=$tmp/usr/lib ./own_run "$tree/examples/tiny.json" 2 $few --train.output_dir=program >own_run.out 2>own_run.err &&
    "$tmp/usr/bin/zr" train "$tree/examples/tiny.json" --ranks 2 --quiet $few --train.output_dir=command >/dev/null &&
    loss_text() { sed 's/.*"\(loss\|val_loss\)":\([^,}]*\).*/\2/' "$1/metrics.jsonl"; } &&
    [ "$(loss_text program | wc -l)" = 6 ] && [ "$(loss_text program)" = "$(loss_text command)" ] && grep -q '^evaluated: loss [0-9]' own_run.out
result $? 'a run from a program, through zr/run.h, has the losses of zr train'
( cd usr/include && ! grep -rn 'zr__[a-z_]*(' . )
result $? 'the installed headers name no function that is not theirs'

"$tmp/usr/bin/zr" info >info.out && grep -qF "$(pkg-config --modversion zr)" info.out
result $? 'zr info prints the version of zr.pc'
[ -s "$tmp/usr/share/man/man1/zr-train.1" ] && [ -s "$tmp/usr/share/man/man5/zr-config.5" ] &&
    [ -s "$tmp/usr/share/bash-completion/completions/zr" ] && [ -s "$tmp/usr/share/zsh/site-functions/_zr" ]
result $? 'manual and completion are there'
make -s -C "$ZR_SOURCE" uninstall PREFIX="$tmp/usr" && [ -z "$(find "$tmp/usr" -type f -o -type l)" ]
result $? 'make uninstall leaves nothing'
