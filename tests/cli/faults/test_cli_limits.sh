#TEST timeout=300
# Check that under a small limit of address space (ulimit -v) a command works or reports too little memory (71).
# Otherwise compute libraries would end the process in their own way: exit code 1, an abort, a signal.
. tests/support/command.inc

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

# Too few open files: each refusal says so, whatever could not be opened, and none goes on without a file.
mkdir nvme
offload="--zero_optimization.stage=3 --zero_optimization.offload_optimizer.device=nvme --zero_optimization.offload_optimizer.nvme_path=nvme"
bad='' refused=0
for files in $(seq 5 32); do
    rm -rf run
    (ulimit -n $files && exec "$ZR" train c.json --ranks 4 --quiet --train_batch_size=4 --train.save_interval=1 $offload) >out 2>err
    rc=$?
    [ $rc = 0 ] && continue
    refused=$((refused + 1))
    case $rc in 73 | 74) ;; *) bad="$bad $files:$rc" ;; esac
    grep -q "Too many open files: a process may have $files; allow more (ulimit -n 65536)" err || bad="$bad $files: $(cat err)"
    cp err "err.$files"
done
[ -z "$bad" ] || echo "# $bad"
check "too few open files are named, with what to do" test -z "$bad" -a $refused -gt 3
grep -q 'states on disk' err.[0-9]* && grep -q 'text.txt: cannot open' err.[0-9]*
check "... for data and for states on disk" test $? = 0
rm -rf run
(ulimit -n 4 && exec "$ZR" eval whole --data text.txt) >out 2>err
check "... by other commands" test $? != 0 -a $(grep -c 'ulimit -n 65536' err) = 1
echo "1..$n"
