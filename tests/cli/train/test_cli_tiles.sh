#TEST timeout=120
# Check training with tables in tiles (memory.tile_elems): the same numbers at every stage and placement, the planned
# bytes, and checkpoints of whole tables, which runs with other tiles can resume.
. tests/support/command.inc

i=0
while [ $i -lt 300 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END_OF_CONFIG'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16},
 "data": {"train": "text.txt"}, "train_batch_size": 4, "memory": {"tile_elems": 700},
 "zero_optimization": {"stage": 3}, "train": {"steps": 4, "save_interval": 2, "threads": 1}}
END_OF_CONFIG
mkdir nvme
alike() { # DIR DIR: losses up to rounding
    numbers "$1" >a && numbers "$2" >b && [ -s a ] && paste a b | tr ':,' '  ' |
        awk '{d = $4 - $10; if (d < 0) d = -d; if (d > 2e-6 * $4) bad = 1; n++} END {exit bad || n < 4}'
}
train() { dir=$1 && shift && "$ZR" train c.json --quiet --ranks 2 --train.output_dir="$dir" "$@"; } # DIR KEY...
goes_on() { # DIR KEY...: with a copy of the run `three`, from step 2
    cp -r three "$1" && rm -r "$1/model" "$1/step-00000004" && ln -sfn step-00000002 "$1/latest" && train "$@" --resume
}

check "train at stage 3" train three
check "... as planned" as_planned three
check "at stage 1" train one --zero_optimization.stage=1
check "... the same bits" same three one
check "with states on disk" train disk --zero_optimization.offload_optimizer.device=nvme \
    --zero_optimization.offload_optimizer.nvme_path=nvme --zero_optimization.offload_param.device=nvme
check "... the same bits" same three disk
check "with whole tables" train whole --memory.tile_elems=0
check "... losses alike" alike three whole
check "... weights of the same names and shapes" sh -c '"$1" inspect three/model/model.safetensors --no-norms | tail -n +2 | sort >a &&
    "$1" inspect whole/model/model.safetensors --no-norms | tail -n +2 | sort | cmp - a && grep -q wte a' sh "$ZR"
check "go on with the same tiles" goes_on again
check "... the same bits" same three again
check "go on with whole tables" goes_on untiled --memory.tile_elems=0
check "... losses alike" alike three untiled
check "go on with other tiles at stage 2" goes_on other --memory.tile_elems=333 --zero_optimization.stage=2
check "... losses alike" alike three other
check "a tile below a row" fails 78 "memory.tile_elems is 15; a row of transformer.wte.weight has 16 elements" \
    train none --memory.tile_elems=15
