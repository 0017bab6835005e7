#TEST alone=1 timeout=120 long=more
# Check that scripts/demo works as documented, on the Bible and on any text.
set -u
n=0
result() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi; }

[ -z "${SAN-}" ] || { echo 'ok 1 # SKIP the demo builds without a sanitizer'; exit 0; }
cd "$ZR_SOURCE" || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
unset DEBUG
DEMO_DEPS=0 # the runner has installed what is needed
export DEMO_DEPS
field() { sed -n "s/^$1  *\([0-9.]*\).*/\1/p" "$2"; } # NAME FILE: the first number of its line
holds() { awk -v x="$1" "BEGIN { exit !(x != \"\" && x $2) }"; }

# The default number of steps in a long run only; fewer steps learn less.
steps=750 loss=2.0 share=70 own_steps=30
[ -n "${ZR_LONG-}" ] || steps=60 loss=2.6 share=25 own_steps=10

if command -v bible >/dev/null 2>&1; then
    if [ -z "${ZR_LONG-}" ]; then # the first books alone, since evaluating all would take most of the time
        mkdir "$tmp/bin"
        printf '#!/bin/sh\n"%s" "$@" | head -n 6000\n' "$(command -v bible)" >"$tmp/bin/bible"
        chmod +x "$tmp/bin/bible"
        PATH=$tmp/bin:$PATH
    fi
    DEMO_DIR=$tmp/bible DEMO_STEPS=$steps scripts/demo >"$tmp/out" 2>&1 </dev/null
    result $? 'scripts/demo'
    tail -n 5 "$tmp/out" | sed 's/^/# /'
    holds "$(field 'validation loss' "$tmp/out")" "< $loss"
    result $? "validation loss below $loss nats per byte"
    holds "$(field words "$tmp/out")" ">= $share"
    result $? "$share % of the words it writes are in the text"
    [ -n "$(field time "$tmp/out")" ] # the limit of its time is checked by bench/run
    result $? 'how long it took'
    [ "$(grep -c 'stage 0 .*stage 1 .*\* stage 2 .*stage 3' "$tmp/out")" = 2 ]
    result $? 'the memory table of all four stages, before and after'
else
    echo "ok $((n += 1)) - the Bible # SKIP no command bible; scripts/deps --demo installs it"
fi

# One long line in another script, under a name that needs quotes.
name="$tmp/two words.txt"
awk 'BEGIN { for (i = 0; i < 4000; i++) printf "%s", i % 3 ? "по морю плывёт ладья, " : "über den Fluß geht ein Weg, " }' >"$name"
DEMO_DIR="$tmp/own run" DEMO_STEPS=$own_steps scripts/demo "$name" >"$tmp/out" 2>&1 </dev/null
result $? 'scripts/demo FILE'
tail -n 5 "$tmp/out" | sed 's/^/# /'
[ -s "$tmp/own run/sample.txt" ] && [ -f "$tmp/own run/run/model/model.safetensors" ]
result $? 'it leaves a sample and a model'
scripts/demo "$tmp/absent" >"$tmp/out" 2>&1 </dev/null
[ $? = 66 ] && grep -q absent "$tmp/out"
result $? 'a text that is not there'
head -c 1000 "$name" >"$tmp/short"
DEMO_DIR=$tmp/short-run scripts/demo "$tmp/short" >"$tmp/out" 2>&1 </dev/null
[ $? = 65 ] && grep -q '1000 bytes' "$tmp/out"
result $? 'a text that is too short'
echo "1..$n"
