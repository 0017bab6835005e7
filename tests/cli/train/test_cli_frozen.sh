#TEST timeout=60 mpi=1
# Check frozen parameters from the command: their plan, threads and processes, invalid patterns.
. tests/support/command.inc

i=0
while [ $i -lt 500 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 32, "frozen": ["wte.*", "h.0.*"]},
 "data": {"train": "text.txt"}, "train_batch_size": 8, "gradient_clipping": 0.5,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1}},
 "zero_optimization": {"stage": 2}, "train": {"steps": 4, "threads": 1, "output_dir": "threads"}}
END
check "a plan says how many train" prints '^parameters: 34.69 k (13.79 k train), ' "$ZR" plan c.json
check "... as JSON" prints '"trained": 13792' "$ZR" plan c.json --json
check "a plan where all do" sh -c "'$ZR' plan c.json --json --model.frozen=null >all.json"
check "... does not say it" sh -c '! grep -q trained all.json'
check "... and takes less than where all do" sh -c "
    optim() { '$ZR' plan c.json --json \$1 | grep -o '\"optim\": [0-9]*' | head -n 1 | sed 's/.* //'; }
    test \$(optim) -lt \$(optim --model.frozen=null)"
check "threads" "$ZR" train c.json --ranks 2 --quiet
check "... planned is measured" as_planned threads
check "another stage" "$ZR" train c.json --ranks 2 --quiet --zero_optimization.stage=3 --train.output_dir=three
check "... to the bit" same threads three
mpirun=${ZR_MPIRUN-mpirun} # the test runner's launcher and its options, or empty
if [ -n "$mpirun" ] && command -v ${mpirun%% *} >/dev/null && "$ZR" info | grep -q '^transports .*mpi'; then
    if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
    export OMPI_MCA_rmaps_base_oversubscribe=1
    check "under mpirun" $mpirun -n 2 "$ZR" train c.json --quiet --train.output_dir=mpi
    check "... to the bit" same threads mpi
else
    skip "frozen parameters under mpirun" "no mpirun, or built without MPI"
fi
check "a pattern that matches nothing" code 78 "$ZR" train c.json --quiet --model.frozen='h.9.*' --train.output_dir=bad
check "... is named" grep -q 'model.frozen: "h.9.\*" matches no parameter; the first is transformer.wte.weight' err
check "... in a plan too" code 78 "$ZR" plan c.json --model.frozen='h.9.*'
check "all frozen" code 78 "$ZR" train c.json --quiet --model.frozen='*' --train.output_dir=bad
check "... is said" grep -q 'model.frozen: its patterns match all 28 parameters; nothing would train' err
check "no directory is left" test ! -e bad
echo "1..$n"
