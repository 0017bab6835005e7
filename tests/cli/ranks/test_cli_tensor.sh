#TEST timeout=120 mpi=1
# Check tensor parallelism from the command: as thread ranks and under mpirun, saved at one degree and resumed at
# another.
. tests/support/command.inc

near() { # A B: losses, validation losses and norms within 2e-4 of each other
    grep -o '"\(loss\|val_loss\|grad_norm\)":[^,}]*' "$1/metrics.jsonl" | cut -d: -f2 >a
    grep -o '"\(loss\|val_loss\|grad_norm\)":[^,}]*' "$2/metrics.jsonl" | cut -d: -f2 >b
    [ -s a ] && paste a b | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 2e-4 * $1) exit 1 }'
}

i=0
while [ $i -lt 500 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": 32, "n_positions": 32},
 "data": {"train": "text.txt", "val": "text.txt"}, "train_batch_size": 8,
 "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}, "gradient_clipping": 0.5,
 "zero_optimization": {"stage": 3},
 "train": {"steps": 4, "threads": 1, "eval_interval": 2, "eval_batches": 2, "save_interval": 2, "output_dir": "one"}}
END
check "one rank" "$ZR" train c.json --quiet
train() { # DIR RANKS TENSOR KEYS...
    dir=$1 ranks=$2 tensor=$3
    shift 3
    "$ZR" train c.json --ranks "$ranks" --quiet --parallel.tensor="$tensor" --train.output_dir="$dir" "$@"
}
for grid in '2 2' '4 2' '4 4'; do
    dir=$(echo "$grid" | tr ' ' x)
    check "$dir: ranks, of a layer" train "$dir" $grid
    check "... the losses of one rank, but for rounding" near one "$dir"
    check "... planned is measured" as_planned "$dir"
done
# A rank has a slice of every row of a matrix; the manifest has a checksum for each rank's part, not for each row.
few() { [ $(wc -c <"$1/step-00000002/manifest.json") -lt $(($(wc -c <one/step-00000002/manifest.json) * 2)) ]; }
check "one rank: no slices in the manifest" sh -c "! grep -q slices one/step-00000002/manifest.json"
check "2x2: its size is no matter of rows" few 2x2
check "4x4: its size is no matter of rows" few 4x4
for dir in 2x2 4x2; do
    check "$dir: every byte under a checksum" "$ZR" verify "$dir/step-00000002"
    check "... of slices" grep -q '"slices": \[\[' "$dir/step-00000002/manifest.json"
done
cp -r 4x2 damaged
at=$(grep -o '"slices": \[\[[0-9]*' damaged/step-00000004/manifest.json | head -n 1 | tr -dc 0-9)
printf x | dd of=damaged/step-00000004/model.safetensors bs=1 seek=$((at + 70)) conv=notrunc 2>/dev/null
check "a byte of a slice that changed" code 65 "$ZR" verify damaged/step-00000004
check "... is named" grep -q "model.safetensors: bytes $at .. .*damaged (tensor transformer.h.0.attn.c_attn.weight)" out
check "converted" "$ZR" convert 4x2/step-00000004 converted --quiet
check "... to the weights of the run" cmp converted/model.safetensors 4x2/model/model.safetensors
check "inspected" "$ZR" inspect 4x2/step-00000004
check "saved while training waits" train waited 4 2 --checkpoint.async=false
for file in model exp_avg exp_avg_sq; do
    check "... the same bytes: $file" cmp "waited/step-00000002/$file.safetensors" "4x2/step-00000002/$file.safetensors"
done
sed '1,/^"files"/d;/^"xxh3"/d' 4x2/step-00000002/manifest.json >a
sed '1,/^"files"/d;/^"xxh3"/d' waited/step-00000002/manifest.json >b
check "... the same checksums" cmp a b
for stage in 0 2; do
    check "stage $stage" train "stage$stage" 4 2 --zero_optimization.stage=$stage --activation_checkpointing.policy=unit
    check "... to the bit" same 4x2 "stage$stage"
done

# The choice of where checkpoints of activations are kept changes no bit.
ac=--activation_checkpointing
for kept in '' "$ac.cpu_checkpointing=true" "$ac.offload=host $ac.policy=selective"; do
    dir=pieces$(echo "$kept" | tr -cd a-z)
    check "checkpoints in pieces $kept" train "$dir" 4 2 $ac.policy=unit $ac.partition_activations=true $kept
    check "... to the bit" same 4x2 "$dir"
    check "... planned is measured" as_planned "$dir"
done
# Traffic between the ranks of a layer, compared with that of stage 3 on as many ranks: as planned.
check "4 ranks, each with all layers" train 4x1 4 1
within_layers() { part "$1" measured | sed 's/.*"tensor": *{[^}]*"total": *\([0-9]*\).*/\1/'; }
for_zero() { part "$1" measured | sed 's/.*"reduce_scatter": *\([0-9]*\), *"all_gather": *\([0-9]*\).*/\1 \2/'; }
check "tensor parallelism against stage 3" "$ZR" plan c.json --ranks 4 --tensor 2 --json --quiet
planned=$(sed -n 's/.*"tensor_to_stage3": \([0-9.]*\).*/\1/p' out)
echo "${planned:-0} $(within_layers 4x2) $(for_zero 4x1)" >numbers
check "... planned is what both runs moved" \
    awk '{ moved = $2 / ($3 + $4); d = $1 / moved - 1; exit !(moved > 0 && d < 1e-6 && d > -1e-6) }' numbers
check "... as text" "$ZR" plan c.json --ranks 4 --tensor 2 --quiet
check "... beside the papers' estimate" grep -q 'within layers: .* x stage 3 alone on 4 ranks (papers: b s / 3 h = ' out
check "... by what it is for" sh -c 'tr -s "\n " "  " <out | grep -q " for embedding .*, 2 units from h.0 on .* each), final "'
check "... and what each rank of a layer has" grep -q 'on every tensor-parallel rank .* parameters:' out
check "the parts" "$ZR" plan c.json --ranks 4 --tensor 2 --json --quiet --parallel.sequence=keep \
    --activation_checkpointing.policy=unit
tr -d ' \n' <out >flat
grep -o '"within_layers":.*"replicated"' flat | grep -o '"bytes":[0-9]*\|"\(cross_entropy\|gradients\|checkpoints\)":[0-9]*' | cut -d: -f2 >parts
grep -o '"tensor":{[^}]*}' flat | grep -o '"total":[0-9]*' | cut -d: -f2 >total
check "... are the whole" sh -c '[ "$(awk "{ s += \$1 } END { print s }" parts)" = "$(cat total)" ] && [ "$(cat total)" -gt 0 ]'
check "... not where no layer is shared" sh -c "! $ZR plan c.json --ranks 4 --json --quiet | grep -q tensor_to_stage3"

# Checkpoints store whole tensors: at any other degree the next loss is equal except for rounding.
check "weights of a checkpoint" "$ZR" convert 4x2/step-00000002 weights
for grid in '1 1' '4 4' '3 1' '4 2'; do
    dir=from4x2-$(echo "$grid" | tr ' ' x)
    cp -r 4x2 "$dir"
    rm -r "$dir/model" "$dir/step-00000004"
    batch=8
    [ "$grid" != '3 1' ] || batch=6
    check "saved by 4x2, resumed by $grid" train "$dir" $grid --resume --train_batch_size=$batch
    [ $batch = 6 ] || check "... goes on" near 4x2 "$dir"
    [ "$grid" != '4 2' ] || check "... by the same grid to the bit" same 4x2 "$dir"
    rm -r "$dir/model" "$dir/step-00000004"
    check "... and no further" train "$dir" $grid --resume --train_batch_size=$batch --train.steps=2
    check "... with the same bits in all weights" cmp "$dir/model/model.safetensors" weights/model.safetensors
done

mpirun=${ZR_MPIRUN-mpirun} # the test runner's launcher and its options, or empty
if [ -n "$mpirun" ] && command -v ${mpirun%% *} >/dev/null && "$ZR" info | grep -q '^transports .*mpi'; then
    if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
    export OMPI_MCA_rmaps_base_oversubscribe=1
    for grid in '2 2' '4 2'; do
        dir=$(echo "$grid" | tr ' ' x)
        check "$dir under mpirun" $mpirun -n ${grid% *} "$ZR" train c.json --quiet --parallel.tensor=${grid#* } \
            --train.output_dir="mpi-$dir"
        check "... to the bit" same "$dir" "mpi-$dir"
        check "... planned is measured" as_planned "mpi-$dir"
    done
    check "checkpoints in pieces under mpirun" $mpirun -n 4 "$ZR" train c.json --quiet --parallel.tensor=2 \
        $ac.policy=unit $ac.partition_activations=true $ac.cpu_checkpointing=true --train.output_dir=mpi-pieces
    check "... to the bit" same 4x2 mpi-pieces
    check "... planned is measured" as_planned mpi-pieces
    # Without sequence parallelism each rank of a layer computes the gradients of norms itself.
    levels() { $mpirun -n 1 env ZR_KERNELS=v3 "$ZR" train c.json --parallel.tensor=2 --train.steps=1 "$@" : \
        -n 1 env ZR_KERNELS=v4 "$ZR" train c.json --parallel.tensor=2 --train.steps=1 "$@"; }
    if ZR_KERNELS=v4 "$ZR" info >/dev/null 2>&1; then
        check "other processor levels within a layer" fails 78 'kernels v3 and rank 1 uses v4, .*copies.* set ZR_KERNELS' \
            levels --train.output_dir=levels
        check "... with sequence parallelism" levels --train.output_dir=levels --parallel.sequence=keep
        check "... are noted" grep -q 'note: rank 0 uses the kernels v3 and rank 1 uses v4' err
    else
        skip "other processor levels within a layer" "this processor has no level v4"
    fi
else
    skip "tensor parallelism under mpirun" "no mpirun, or built without MPI"
fi

check "ranks that the degree does not divide" code 78 train odd 3 2
check "... say what would do" grep -q 'parallel.tensor: 2 does not divide the 3 ranks' err
check "heads that the degree does not divide" code 78 train heads 3 3
check "... say what would do" grep -q 'n_head 4 cannot be shared by 3 tensor-parallel ranks (parallel.tensor): 1, 2, 4 would do' err
echo '{"model": {"type": "llama", "num_attention_heads": 3, "hidden_size": 24, "intermediate_size": 32}}' >hidden.json
check "a hidden layer that the degree does not divide" fails 78 'its 32 columns cannot be shared by 3 tensor-parallel ranks (parallel.tensor); wanted a degree that divides 32' \
    "$ZR" plan hidden.json --ranks 3 --tensor 3
# Ranks of a layer on one host, and across two.
across() { "$ZR" plan c.json --ranks 4 --tensor $1 --json --quiet --parallel.ranks_per_host=2 --zero_optimization.stage=1 >out &&
    sed -n "s/.*\"across_hosts\": *{\([^}]*\)}.*/\1/p" out | grep -o '"total": *[0-9]*'; }
check "hosts that hold whole layers" sh -c '[ -n "$1" ] && [ "$1" != "$2" ]' - "$(across 2)" "$(across 4)"
check "policy paper is planned" "$ZR" plan c.json --activation_checkpointing.policy=paper --quiet
check "tokens of one rank" "$ZR" plan c.json --parallel.sequence=keep
check "... have no meaning, which is said" grep -q 'note: parallel.sequence has no effect' err
check "pieces of nothing" code 78 train nothing 2 2 $ac.partition_activations=true
check "... say what would do" grep -q 'partition_activations: it needs checkpoints, but activation_checkpointing.policy is none; use policy unit' err
check "checkpoints on a disk without a folder" code 78 train disk 2 2 $ac.policy=unit $ac.offload=disk
check "... are refused by name" grep -q 'activation_checkpointing.offload: disk needs a folder' err
check "more ranks than heads" code 78 train more 8 8
# Sums that the ranks cannot share name the keys on which they depend.
cat >odd.json <<'END'
{"model": {"type": "qwen3", "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 6,
           "hidden_size": 9, "intermediate_size": 8, "max_position_embeddings": 16},
 "data": {"train": "text.txt", "seq_length": 5}, "train_batch_size": 1, "parallel": {"tensor": 2},
 "train": {"steps": 1, "threads": 1, "eval_interval": 0, "output_dir": "odd"}}
END
check "sums that ranks cannot share" fails 78 'parallel.tensor is 2, .* 1 x 5 x 9 numbers .*(train_micro_batch_size_per_gpu x data.seq_length x width)' \
    "$ZR" train odd.json --ranks 2 --quiet
check "... with an even number of rows" "$ZR" train odd.json --ranks 2 --quiet --train_batch_size=2 --gradient_accumulation_steps=1
echo "1..$n"
