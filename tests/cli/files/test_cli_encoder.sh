#TEST timeout=240 long=more build=tests/zr_fault
# Check an encoder with packed rows, dropout and LAMB from the command: one series of losses for each degree of tensor
# and sequence parallelism, at all stages and places of states, also after a rank was killed, and on another number of
# ranks. In the short run the layouts have each value of each key, and most pairs of values.
. tests/cli/files/encoder_text.inc
. tests/support/command.inc

encoder_text 4 30 2 7 2 6
mkdir disk
cat >c.json <<'END_CONFIG'
{"model": {"type": "bert", "num_hidden_layers": 2, "num_attention_heads": 6, "hidden_size": 30, "intermediate_size": 42,
           "max_position_embeddings": 30, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1},
 "data": {"train": "text.txt", "tokenizer": "tok", "cache_dir": "cache", "max_predictions": 7, "max_samples": 3},
 "train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0.5,
 "optimizer": {"type": "Lamb", "params": {"lr": 0.01}},
 "zero_optimization": {"offload_optimizer": {"nvme_path": "disk"}, "reduce_bucket_size": 3000, "sub_group_size": 2000},
 "train": {"steps": 4, "eval_interval": 0, "threads": 1, "reproducible": "world", "save_interval": 2}}
END_CONFIG
ac=--activation_checkpointing
zo=--zero_optimization
mpirun=${ZR_MPIRUN-mpirun} # the test runner's launcher and its options, or empty
if [ -n "$mpirun" ] && command -v ${mpirun%% *} >/dev/null && "$ZR" info | grep -q '^transports .*mpi'; then
    if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
    export OMPI_MCA_rmaps_base_oversubscribe=1
else
    mpirun=
fi
# train DIR TRANSPORT RANKS TENSOR STAGE OPTION...
train() {
    dir=$1 transport=$2 ranks=$3
    options="--quiet --parallel.tensor=$4 --zero_optimization.stage=$5 --train.output_dir=$dir"
    shift 5
    if [ "$transport" = mpi ]; then
        $mpirun -n "$ranks" "$ZR" train c.json $options "$@"
    else
        "$ZR" train c.json $options --ranks "$ranks" "$@"
    fi
}
# layout TRANSPORT RANKS TENSOR STAGE OPTION...: check that a run has the losses of its degree's reference, and its
# planned memory
layout() {
    if [ "$1" = mpi ] && [ -z "$mpirun" ]; then
        skip "$*" "no mpirun, or built without MPI"
        return
    fi
    # Ranks with different tokens add the gradients of norms and biases in another order.
    case $* in *sequence*) one=tokens$3 cut=--parallel.sequence=keep ;; *) one=one$3 cut= ;; esac
    [ -d $one ] || check "one copy of the layers, on $3 ranks $cut" train $one threads "$3" "$3" 0 $ac.policy=none $cut
    rm -rf run
    check "$*" train run "$@"
    check "... the same losses and weights" same $one run
    check "... as planned" as_planned run
}

unit="$ac.policy=unit"
disk="$zo.offload_optimizer.device=nvme"
layer=--train.accumulation_order=layer
if [ -n "${ZR_LONG:-}" ]; then
    for stage in 0 1 2 3; do
        for home in none cpu nvme; do
            [ $stage$home != 0nvme ] || continue # trust ratios are refused with states on disk
            for kept in none selective "unit $layer" "unit $ac.offload=host" "unit $ac.offload=disk $layer"; do
                for grid in "threads 1 1" "threads 4 1" "mpi 2 1" "threads 4 2" "mpi 3 3"; do
                    layout $grid $stage $zo.offload_optimizer.device=$home $ac.policy=$kept
                done
            done
        done
        for sequence in keep regather; do
            for kept in unit "unit $ac.partition_activations=true" \
                "unit $ac.partition_activations=true $ac.offload=host $layer"; do
                for grid in "threads 2 2" "mpi 4 2" "threads 3 3"; do
                    layout $grid $stage --parallel.sequence=$sequence $ac.policy=$kept
                done
            done
        done
    done
else
    layout threads 2 1 3 $disk $zo.offload_param.device=nvme $unit $ac.offload=disk $layer
    layout threads 4 1 2 $zo.offload_optimizer.device=cpu $unit $ac.offload=host
    layout threads 1 1 1 $disk $ac.policy=selective $layer
    layout mpi 2 1 1 $disk $unit
    layout threads 2 1 0 $unit $layer
    layout threads 4 2 3 --parallel.sequence=keep $unit $ac.partition_activations=true
    layout mpi 2 2 1 $disk --parallel.sequence=regather $unit $ac.partition_activations=true $ac.offload=host $layer
    layout threads 3 3 2 --parallel.sequence=regather $ac.policy=selective
fi

# A rank is killed while the others wait for it; the run is resumed on the same and on another number of ranks.
plain=$ZR
for phase in exchange update; do
    rm -rf run
    ZR=$FAULTY
    export ZR_FAULT="kill:1@$phase:3"
    check "killed: $phase" code 137 train run threads 2 1 2 $disk
    unset ZR_FAULT
    ZR=$plain
    ranks=2
    [ $phase = exchange ] || ranks=4
    check "... goes on, on $ranks ranks" train run threads $ranks 1 3 $zo.offload_optimizer.device=none $unit --resume
    check "... with the same losses and weights" same one1 run
done
check "nothing is left in the folder" sh -c '! ls -A disk | grep -q .'
echo "1..$n"
