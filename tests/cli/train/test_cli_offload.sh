#TEST timeout=240
# Check offload from the command: plans that name each place, training with states on disk, resume from one placement to
# another, unusable folders.
. tests/support/command.inc
XDG_CACHE_HOME=$DIR/cache # an empty cache, so that measured rates of the machine are not used
export XDG_CACHE_HOME
zo=zero_optimization
i=0
while [ $i -lt 400 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
tail -n 60 text.txt >val.txt
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 3, "n_head": 2, "n_embd": 64, "n_positions": 32, "dropout": 0.1},
 "data": {"train": "text.txt", "val": "val.txt"}, "train_batch_size": 8, "bf16": {"enabled": true},
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, "zero_optimization": {"stage": 3},
 "train": {"steps": 6, "eval_interval": 3, "eval_batches": 2, "threads": 1, "save_interval": 3}}
END
mkdir nvme more
optim="--$zo.offload_optimizer.device=nvme --$zo.offload_optimizer.nvme_path=nvme"
param="--$zo.offload_param.device=nvme"
train() { "$ZR" train c.json --train.output_dir="$@"; }
plan() { "$ZR" plan c.json --quiet "$@"; }
number() { sed -n "s/.*\"$1\": \([0-9][0-9]*\).*/\1/p" "$2"; }
has() { grep -q -F -e "$1" err || { cat err >&2; return 1; }; }
none_left() { test "$(ls -A nvme more | grep -v ':$' | grep -c .)" = 0; }

# Plans.
check "a plan with states on disk" plan --ranks 2 $optim
check "... has a row for each kind" grep -q '^  disk: optimizer states ' out
check "... and one for each direction" sh -c 'grep -q "^  read from disk " out && grep -q "^  written to disk " out'
check "... in words" grep -q '^offload: optimizer states on disk' out
check "as JSON" sh -c '"$@" --json >plan.json && grep -q "\"offload\": {\"param\": \"device\", \"grad\": \"disk\", \"optim\": \"disk\"" plan.json &&
    grep -q "\"copied\": {\"device_to_disk\": [0-9]*, \"disk_to_device\": [0-9]*}" plan.json && grep -q "\"disk\": {\"param\": 0" plan.json' "$ZR" "$ZR" plan c.json --quiet --ranks 2 $optim
check "... without offload has neither" sh -c '"$@" --json >none.json && ! grep -q "offload\|copied" none.json' "$ZR" "$ZR" plan c.json --quiet --ranks 2
check "cpu moves nothing on processors" sh -c '"$@" --json --zero_optimization.offload_optimizer.device=cpu >cpu.json && cmp none.json cpu.json' "$ZR" "$ZR" plan c.json --quiet --ranks 2
check "... which is said" "$ZR" plan c.json --ranks 2 --$zo.offload_optimizer.device=cpu
check "... in a note" has 'zero_optimization: offload_optimizer.device cpu moves nothing'
check "on a GPU it does" prints '^  host: optimizer states ' "$ZR" plan c.json --quiet --profile h100 --$zo.offload_optimizer.device=cpu
check "... and the advice counts the updates" sh -c '"$@" | tr "\n" " " | grep -q " of communication and offload is exposed"' \
    "$ZR" "$ZR" plan --preset gpt2-124m --quiet --profile h100 --ranks 2 --stage 1 --$zo.offload_optimizer.device=cpu
check "... and without offload only communication" sh -c '"$@" | tr "\n" " " | grep -q " of communication is exposed"' \
    "$ZR" "$ZR" plan --preset gpt2-124m --quiet --profile h100 --ranks 2 --stage 1
check "a simulated step waits for them" prints '^exposed .*offload [0-9]' "$ZR" simulate --preset gpt2-124m --quiet --cluster dgx-h100x8 \
    --ranks 8 --stage 3 --$zo.offload_optimizer.device=cpu
check "... and not for checkpoints" sh -c '! grep -q "Pa+cpu" printed'
check "a cluster's disk without a rate" prints 'of disk a step: [0-9.]* ms' "$ZR" simulate --preset gpt2-124m --quiet \
    --cluster dgx-h100x8 --ranks 8 --stage 3 $optim
check "a picture" plan --ranks 2 $optim --svg disk.svg
check "... shows the tier" sh -c 'grep -q ">on disk<" disk.svg && grep -q ">read from disk<" disk.svg && grep -q ">written to disk<" disk.svg && grep -q ">fetch<" disk.svg'

kept="--activation_checkpointing.policy=unit --activation_checkpointing.offload=disk --$zo.offload_optimizer.nvme_path=nvme"
check "a plan with activation checkpoints on disk" plan --ranks 2 $kept
check "... has a row for them" grep -q '^  disk: checkpoints  *[1-9]' out
check "... and one for each direction" sh -c 'grep -q "^  read from disk  *[1-9]" out && grep -q "^  written to disk  *[1-9]" out'
check "... in words" grep -q '^offload: activation checkpoints on disk' out
check "... without bytes a parameter" sh -c '! grep -q "bytes a parameter\|as long with" out'
check "... in a picture" plan --ranks 2 $kept --svg kept.svg
check "... which shows the tier" grep -q '>on disk<' kept.svg

# --disk: the least offload that fits.
big="--preset gpt2-355m --stage 3 --quiet"
needs() { "$ZR" plan $big --json --advice "$@" | sed -n 's/.*"needs": \([0-9]*\).*/\1/p' | head -n 1; }
check "without a disk one is assumed" prints 'offload_optimizer.nvme_path=DIR' "$ZR" plan $big --memory 2GB
check "... whose size is not known" sh -c "tr '\n' ' ' <printed | grep -q 'a rank on disk, whose size is not known'"
check "with a disk it does" "$ZR" plan --preset gpt2-355m --stage 3 --memory 2GB --disk 200GB
check "... which is said" has 'zero_optimization.offload_optimizer.device'
check "with much memory nothing is offloaded" "$ZR" plan --preset gpt2-355m --stage 3 --memory 80GB --disk 200GB
check "... which is said too" has 'no offload,'
check "a disk that is too small" prints 'nothing fits' "$ZR" plan $big --memory 2GB --disk 1GB
check "the largest model is larger with a disk" sh -c '
    "$0" plan --model.vocab_size=1000 --quiet --json --memory 150MB --max model >a.json
    "$0" plan --model.vocab_size=1000 --quiet --json --memory 150MB --max model --disk 400MB >b.json
    a=$(sed -n "s/.*\"params\": \([0-9]*\).*/\1/p" a.json) b=$(sed -n "s/.*\"params\": \([0-9]*\).*/\1/p" b.json)
    test $b -gt $((2 * a)) || { echo $a $b >&2; exit 1; }' "$ZR"
few="--model.vocab_size=1000 --model.n_embd=256 --model.n_head=4 --quiet --max layers --memory 150MB --disk 200MB"
check "a search that the disk ends" sh -c "'$ZR' plan $few >largest"
check "... names its bytes" grep -q '^and [0-9.]* of 200.0 MB of disk a rank$' largest
check "... and those of the next" grep -q ' needs [0-9.]*, and 2[0-9]*\.[0-9] of disk$' largest
check "... in JSON too" sh -c '"$@" | grep -q "\"next_needs\":.*\"disk\": [0-9]"' sh "$ZR" plan $few --json
check "--disk without memory" fails 2 '\-\-disk 1TB is for what does not fit in memory' "$ZR" plan c.json --disk 1TB
check "--disk without a size" fails 2 '\-\-disk is "much"; expected a size' "$ZR" plan c.json --memory 1GB --disk much

# Training: equal bits of losses, norms and weights, and the planned bytes.
check "a run without offload" train none --ranks 2
for way in "optim $optim" "param $optim $param" "part $optim --$zo.offload_optimizer.ratio=0.5" \
    "small $optim --$zo.sub_group_size=4096 --$zo.offload_optimizer.buffer_count=8 --aio.block_size=8192 --aio.queue_depth=2"; do
    set -- $way
    dir=$1
    shift
    check "$dir: a run with states on disk" train $dir --ranks 2 "$@"
    check "... the same to the bit" same none $dir
    check "... as planned" as_planned $dir
    check "... with bytes on disk" grep -q '"disk_to_device": [1-9]' $dir/run.json
done
kept="--activation_checkpointing.policy=unit --activation_checkpointing.offload=disk --$zo.offload_optimizer.nvme_path=nvme"
for way in "checkpoints $kept" "both $kept $optim" \
    "layers $kept --train_micro_batch_size_per_gpu=1 --gradient_accumulation_steps=4 --train.accumulation_order=layer"; do
    set -- $way
    dir=$1
    shift
    check "$dir: a run with activation checkpoints on disk" train $dir --ranks 2 "$@"
    test $dir = layers || check "... the same to the bit" same none $dir
    check "... as planned" as_planned $dir
    check "... with bytes on disk" sh -c 'grep -q "\"checkpoints\": \"disk\"" $0/run.json && grep -q "\"device_to_disk\": [1-9]" $0/run.json' $dir
done
check "the same micro-batches in memory" train micros --ranks 2 --train_micro_batch_size_per_gpu=1 --gradient_accumulation_steps=4
check "... the same to the bit" same micros layers
check "1024 transfers at a time" train deep --ranks 4 $optim --aio.queue_depth=1024
check "... take no more memory than the plan promises" sh -c '! grep -F "more than the" err >&2'
check "two folders" train two --ranks 2 --$zo.offload_optimizer.device=nvme "--$zo.offload_optimizer.nvme_path=[\"nvme\",\"more\"]"
check "... the same to the bit" same none two
check "nothing is left in the folders" none_left
accum="--train_micro_batch_size_per_gpu=1 --gradient_accumulation_steps=4 --gradient_clipping=0.5"
check "several micro-batches and clipping" train accum --ranks 2 $accum
for stage in 0 1 2 3; do
    check "stage $stage: on disk" train accum$stage --ranks 2 $accum --$zo.stage=$stage $optim
    check "... the same to the bit" same accum accum$stage
    check "... as planned" as_planned accum$stage
done
check "gradients on the device" train kept --ranks 2 $accum $optim --$zo.offload_optimizer.gradients=false
check "... the same to the bit" same accum kept
check "where the time goes" "$ZR" train c.json --train.output_dir=timed --train.steps=3 --timings $optim
check "... with the disk" sh -c 'cat out err | grep -q "exposed communication .*, disk alone .*, none of these"'
check "... in run.json too" grep -q '"disk_ms":' timed/run.json
check "saves beside states on disk" "$ZR" train c.json --train.output_dir=saves --train.steps=4 --train.save_interval=2 --checkpoint.async=true $optim
check "... have no copy to advise" sh -c 'grep -q "updates wait for the disk$" err'
check "a report" "$ZR" report timed
check "... has the copies" sh -c 'grep -q "Copies between memories" timed/report.html && grep -q ">disk to device<" timed/report.html'
check "a run says where its states are" "$ZR" train c.json --train.output_dir=says --train.steps=1 $optim
check "... and what it writes" has 'on disk'

# The offload, its ratio and the order of micro-batches are chosen; the limits lie between the needs of plans.
small="--$zo.sub_group_size=2048"
path="--$zo.offload_optimizer.nvme_path=nvme"
plan_needs() { plan $small --checkpoint.async=false "$@" --json --advice | sed -n 's/.*"needs": \([0-9]*\).*/\1/p' | head -n 1; }
device=$(plan_needs --activation_checkpointing.policy=unit --train_micro_batch_size_per_gpu=1 --memory.limit=1GB)
disk=$(plan_needs --activation_checkpointing.policy=unit --train_micro_batch_size_per_gpu=1 --memory.limit=1GB $optim)
between=$(((device + disk) / 2))
check "the limits differ" test "$disk" -lt "$between"
chosen() { "$ZR" train c.json --train.steps=3 --train.output_dir="$@" $small --memory $between --activation_checkpointing.policy=unit --train_micro_batch_size_per_gpu=1; }
key() { sed -n "/\"offload_optimizer\"/,/}/s/.*\"$2\": \([^,]*\).*/\1/p" "$1/config.json"; }
check "what does not fit names an offload" fails 71 'It fits with zero_optimization.offload_optimizer.device nvme.*and as zero_optimization.offload_optimizer.nvme_path a folder on a fast local disk (.* a rank, and .* on disk, whose size is not known)' chosen bad
check "... and creates nothing" test ! -e bad
check "--memory and a folder choose it" chosen auto $path
check "... which is said" has 'offload_optimizer.device nvme'
check "... and its configuration contains it" test "$(key auto device)" = '"nvme"'
check "... with a share of 1" test "$(key auto ratio)" = 1.0
check "the same without a choice" train plain --train.steps=3 $small --activation_checkpointing.policy=unit --train_micro_batch_size_per_gpu=1
check "... the same to the bit" same plain auto
check "... as planned" as_planned auto
check "zr plan chooses the same" plan $path $small --memory $between --activation_checkpointing.policy=unit --train_micro_batch_size_per_gpu=1 --json
check "... with the same bytes" sh -c 'a=$(sed -n "s/.*\"copied\": //p" out) && test -n "$a" && grep -q -F "$(printf %s "$a" | grep -o "\"disk_to_device\": [0-9]*")" auto/run.json'
check "--disk chooses it too" chosen offered $path --disk 1GB
check "... the same" test "$(key offered device)" = '"nvme"'
check "a disk that is too small" fails 71 'memory.limit is' chosen bad $path --disk 4096
check "... is no remedy" sh -c '! grep -q "It fits with" message'
check "... for states that are put there" fails 71 'states on disk, but --disk is 4.10 kB' chosen bad $path --disk 4096 --$zo.offload_optimizer.device=nvme
check "a device that is given stays" fails 71 'memory.limit is' chosen bad $path --$zo.offload_optimizer.device=none
check "--disk without a folder" fails 78 '\-\-disk needs a folder on a fast local disk; name it: --zero_optimization.offload_optimizer.nvme_path=DIR' chosen bad --disk 1GB
check "--disk of a run without memory" fails 2 '\-\-disk 1GB is for what does not fit in memory' "$ZR" train c.json --train.output_dir=bad $path --disk 1GB
check "a folder that is not there, to choose from" fails 73 'nowhere: No such file or directory' chosen bad --$zo.offload_optimizer.nvme_path=nowhere
check "with enough memory nothing is offloaded" "$ZR" train c.json --train.output_dir=enough --memory 1GB $path
check "... which is said too" has 'no offload,'
check "... and its configuration contains it" test "$(key enough device)" = '"none"'
check "ratio auto" chosen share $path --$zo.offload_optimizer.ratio=auto --ranks 1
check "... is said" has 'offload_optimizer.ratio: auto, set to 0.'
check "... and is a number in its configuration" sh -c 'case $1 in 0.[0-9]*) ;; *) echo "$1" >&2; exit 1 ;; esac' sh "$(key share ratio)"
check "... the same to the bit" same plain share
check "... as planned" as_planned share
check "... on a disk that a share of 1 does not fit" chosen tight_share $path --$zo.offload_optimizer.ratio=auto --disk $(($(sed -n 's/.*"disk": {"param": [0-9]*, "grad": [0-9]*, "optim": \([0-9]*\).*/\1/p' auto/run.json | head -n 1) - 4096))
check "... with the same share" test "$(key share ratio)" = "$(key tight_share ratio)"

# Activation checkpoints of more samples than fit into the room of states.
many="$small --aio.block_size=4096 --activation_checkpointing.policy=unit --train_micro_batch_size_per_gpu=64 --train_batch_size=64 --model.n_layer=16 --train.steps=2"
states=$(plan_needs $many --memory.limit=1GB $optim $param)
least=$(plan_needs $many --memory.limit=1GB $optim $param --activation_checkpointing.offload=disk)
between=$(((states + least) / 2))
check "the limits differ" test "$least" -lt "$between"
check "what does not fit names them" fails 71 'It fits with .* and activation_checkpointing.offload disk, and as zero_optimization.offload_optimizer.nvme_path a folder' \
    train bad $many --memory $between
check "--memory and a folder put checkpoints on disk" train kept_auto $many $path --memory $between
check "... which is said" has ' and activation_checkpointing.offload disk ('
check "... and its configuration contains it" grep -q '"offload": "disk"' kept_auto/config.json
check "the same without a choice" train kept_plain $many
check "... the same to the bit" same kept_plain kept_auto
check "... as planned" as_planned kept_auto
check "their place is given" fails 71 'memory.limit is' train bad $many $path --memory $between --activation_checkpointing.offload=none
check "--disk puts them there too" plan $many --memory $between --disk 1GB --json --advice
check "... in JSON" grep -q '"offload": {[^}]*"checkpoints": "disk"' out
check "the advice names them" prints '^--activation_checkpointing.policy=unit --activation_checkpointing.offload=disk' "$ZR" plan c.json --quiet $many --memory $between
check "the largest batch is larger with a disk" sh -c '
    a=$("$@" --zero_optimization.offload_optimizer.device=nvme --zero_optimization.offload_param.device=nvme | sed -n "s/.*\"train_batch_size\": *\([0-9]*\).*/\1/p" | head -n 1)
    b=$("$@" --disk 1GB | sed -n "s/.*\"train_batch_size\": *\([0-9]*\).*/\1/p" | head -n 1)
    test "$b" -gt "$a" || { echo "$a $b" >&2; exit 1; }' sh "$ZR" plan c.json --quiet $many $path --memory 60MB --max batch --json

check "without rates ratio auto is 1" train norates $optim --$zo.offload_optimizer.ratio=auto --train.steps=1
check "... which is said" has 'offload_optimizer.ratio: auto, set to 1, as rates are not known'
check "order auto" train order --ranks 2 --train_micro_batch_size_per_gpu=1 --train.accumulation_order=auto
check "... is said" has 'train.accumulation_order: auto, set to'
check "... and is a word in its configuration" grep -q '"accumulation_order": "\(micro\|layer\)"' order/config.json
check "... goes on" "$ZR" train share/config.json --resume --train.steps=8
check "nothing is left in the folders" none_left

# Resume from one placement to another.
check "half a run on disk" train half --ranks 2 $optim $param --train.steps=3
check "... goes on in memory" "$ZR" train half/config.json --resume --ranks 2 --train.steps=6 --$zo.offload_optimizer.device=none --$zo.offload_param.device=none
check "... to the same weights" cmp none/model/model.safetensors half/model/model.safetensors
check "half a run in memory" train back --ranks 2 --train.steps=3
check "... goes on on disk, on one rank" "$ZR" train back/config.json --resume --train.steps=6 $optim
check "half a run, to be continued elsewhere" train here --ranks 2 $optim --train.steps=3
mkdir away
check "... finds its folder from another directory" sh -c 'cd away && "$0" train ../here/config.json --resume --train.steps=6 --ranks 2' "$ZR"
check "... to the same weights" cmp none/model/model.safetensors here/model/model.safetensors

# Unusable folders are refused before anything is made.
check "no such folder" fails 73 'zero_optimization.offload_optimizer.nvme_path: nowhere: No such file or directory; make the folder' \
    "$ZR" train c.json --train.output_dir=bad --$zo.offload_optimizer.device=nvme --$zo.offload_optimizer.nvme_path=nowhere
check "a file" fails 73 'nvme_path: text.txt is not a folder' \
    "$ZR" train c.json --train.output_dir=bad --$zo.offload_optimizer.device=nvme --$zo.offload_optimizer.nvme_path=text.txt
check "no path" fails 78 'nvme needs a folder' "$ZR" train c.json --train.output_dir=bad --$zo.offload_optimizer.device=nvme
check "no path for checkpoints" fails 78 'activation_checkpointing.offload: disk needs a folder' \
    "$ZR" train c.json --train.output_dir=bad --activation_checkpointing.policy=unit --activation_checkpointing.offload=disk
check "parameters below stage 3" "$ZR" plan c.json --$zo.stage=2 $optim $param
check "... stay, which a note says" grep -q 'offload_param has no effect: parameters are whole on every rank at zero_optimization.stage 2' err
check "parameters and hpZ" fails 69 'zero_hpz_partition_size' "$ZR" train c.json --train.output_dir=bad --ranks 2 \
    --$zo.zero_hpz_partition_size=2 $optim $param
if mkdir tight && mount -t tmpfs -o size=64k tmpfs tight 2>/dev/null; then
    check "a disk that is full" fails 71 'tight' \
        "$ZR" train c.json --train.output_dir=bad --$zo.offload_optimizer.device=nvme --$zo.offload_optimizer.nvme_path=tight
    umount tight
else
    skip "a disk that is full" "no mount"
fi
check "nothing is made" test ! -e bad
echo '{"flops_f32": 1e12, "memory_bytes_sec": 2e10}' >profile.json
unknown="plan c.json --quiet --profile profile.json $optim"
check "a disk without rates" prints '^  a file for --profile may have disk_read_bytes_sec' "$ZR" $unknown
check "... which the advice says" grep -q '^They do not contain the time of the disk' printed
check "... and the speed" grep -q '^  without the time of the disk, whose rates are not known$' printed
check "... as no share of waiting" sh -c '! grep -q "^[* ][> ][0-3] .* %" printed'
check "... and JSON" sh -c '"$@" --json --advice | grep -q "\"disk_sec\": *null"' "$ZR" "$ZR" $unknown
echo '{"flops_f32": 1e12, "memory_bytes_sec": 2e10, "disk_read_bytes_sec": 1e9}' >profile.json
check "half of the rates" fails 65 '"disk_read_bytes_sec" is given without "disk_write_bytes_sec"' "$ZR" $unknown
check "no name of a folder" fails 73 'name is empty' "$ZR" info --bench --disk ''
check "--bench --disk measures a folder" "$ZR" info --bench --disk nvme --quick --json
check "... as JSON" grep -q "\"disk\":{\"folder\":\"$PWD/nvme\", \"read_bytes_sec\":[0-9]" out
check "... which a plan prices" prints '\(the disk\|computing\) is the bound' "$ZR" plan c.json --quiet $optim
echo '{"flops_f32": 1e12, "flops_bf16": 1e12, "memory_bytes_sec": 2e10, "disk_read_bytes_sec": 1e8, "disk_write_bytes_sec": 1e8}' >slow.json
check "a disk that is the bound" prints 'the disk is the bound; computing would be with more than [0-9.]* *[kM]* *tokens a step (now 256)' "$ZR" plan c.json --quiet \
    $optim --profile slow.json
check "... says why computing waits" prints 'updates wait for the norm of all gradients (gradient_clipping)' "$ZR" plan c.json --quiet $optim --profile slow.json --gradient_clipping=1
check "... also for states in the host's memory" prints 'updates wait for the norm of all gradients (gradient_clipping)' \
    "$ZR" plan --preset gpt2-124m --quiet --profile h100 --$zo.offload_optimizer.device=cpu --gradient_clipping=1
check "... and JSON too" sh -c '"$@" --json --advice | grep -q "\"disk_sec\": [0-9.e-]*, \"disk_tokens\": [0-9.e+]*, \"disk_written_per_day\": [0-9]"' "$ZR" "$ZR" plan c.json --quiet $optim
check "... and zr info shows" prints '^disk .*/s read' "$ZR" info
check "a folder that is not there" code 73 "$ZR" info --bench --disk nowhere
echo "1..$n"
