#TEST timeout=300
# Check that under a small limit of address space (ulimit -v) a command works or reports too little memory (71).
# Otherwise compute libraries would end the process in their own way: exit code 1, an abort, a signal.
. tests/command.inc

within() { # KB COMMAND...: under that limit
    (ulimit -c 0; ulimit -v "$1" && shift && exec "$@") >out 2>err
}
i=0
while [ $i -lt 100 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16},
 "data": {"train": "text.txt"}, "train": {"steps": 1, "threads": 2, "output_dir": "run"}}
END

# The smallest limit under which the program itself starts; sanitizers need terabytes.
least=32000
while [ $least -lt 400000 ] && ! within $least "$ZR" info; do least=$((least + 4000)); done
if [ $least -ge 400000 ]; then
    skip "little room" "the program needs more than 400 MB of addresses"
    echo "1..$n"
    exit 0
fi

"$ZR" train c.json --quiet --train.output_dir=whole || exit 1

survives() { # NAME COMMAND...: under each limit, 0 or 71 with one message
    name=$1 bad='' short=0 well=0
    shift
    for more in 0 4 8 12 16 24 32 40 48 56 64 80 100 150 350; do
        rm -rf run
        within $((least + more * 1000)) "$@"
        rc=$?
        case $rc in
        0) well=$((well + 1)) ;;
        71) short=$((short + 1)) ;;
        *) bad="$bad $((least + more * 1000)):$rc" && cp err err.bad ;;
        esac
    done
    n=$((n + 1))
    if [ -z "$bad" ] && [ $well -gt 0 ]; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        echo "# limit:code$bad; $well worked, $short were refused"
        [ -z "$bad" ] || sed 's/^/# /' err.bad | tail -5
    fi
}
survives "train"          "$ZR" train c.json
survives "train, 2 ranks" "$ZR" train c.json --ranks 2
survives "eval"           "$ZR" eval whole --data text.txt
survives "generate"       "$ZR" generate whole --prompt a --tokens 2
survives "plan"           "$ZR" plan c.json
survives "info"           "$ZR" info

rm -rf run
named=no
for more in 16 24 32 40 48; do
    within $((least + more * 1000)) "$ZR" train c.json --ranks 2
    if [ $? = 71 ] && grep -q 'ulimit -v' err && [ ! -e run ]; then named=yes; fi
done
check "the limit is named, nothing is left behind" test $named = yes
echo "1..$n"
