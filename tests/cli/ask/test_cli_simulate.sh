#TEST timeout=240 long=more
# Check `zr simulate`: its output, --sweep, --svg and --search, which finds what a sweep over the same space finds.
. tests/support/command.inc

xml() { python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$1"; }

cat >c.json <<'END_CONFIG'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": 256, "n_positions": 128, "vocab_size": 512},
 "bf16": {"enabled": true}, "optimizer": {"type": "AdamW"}}
END_CONFIG
cat >small.json <<'END_CLUSTER'
{"name": "small", "devices": 8,
 "device": {"memory_bytes": 1133741824, "flops_f32_per_sec": 1e12, "flops_bf16_per_sec": 8e12,
            "memory_bytes_per_sec": 1e11, "launch_sec": 2e-6, "product_share": 0.8, "product_half_size": 64},
 "host": {"devices": 4, "memory_bytes": 400000000, "device_bytes_per_sec": 4e9},
 "links": [{"name": "bus", "devices": 4, "bytes_per_sec": 1e10, "latency_sec": 2e-6},
           {"name": "net", "devices": 8, "bytes_per_sec": 5e8, "latency_sec": 1e-5}]}
END_CLUSTER
simulate() { "$ZR" simulate --quiet --cluster ./small.json "$@"; }
on8() { simulate c.json --ranks 8 "$@"; }

# ---- one configuration

keys() {
    on8 --stage 2 --batch 4 --tokens 1e9 --json >one.json && python3 - <<'END'
import json, math
one = json.load(open("one.json"))
for key in ("step_sec", "samples_per_sec", "tokens_per_sec", "tflops", "mfu", "exposed_sec", "memory", "traffic",
            "bound_by", "fits", "days"):
    assert key in one, key
assert one["cluster"] == dict(name="small", devices=8, host_devices=4, device_bytes=1133741824, host_bytes=400000000,
                              kernel_bytes_per_sec=1e11, latency_sec=1e-5), one["cluster"]
assert one["params"] == 2 * (12 * 256**2 + 13 * 256) + (512 + 128 + 2) * 256, one["params"]
numbers = {key for key, value in one.items() if isinstance(value, (int, float, dict)) and not isinstance(value, bool)}
assert set(one["of"]) == numbers - {"of", "params", "cluster"}, one["of"]
whole = {key for key, of in one["of"].items() if of == "all"}
assert whole == {"step_sec", "samples_per_sec", "tokens_per_sec", "pflops_all", "days"}, whole
assert {key for key, of in one["of"].items() if of != "rank"} == whole | {"host_bytes"}, one["of"]
assert one["of"]["host_bytes"] == "host", one["of"]
assert abs(one["pflops_all"] / one["tflops"] - 8 / 1000) < 1e-9, one
assert abs(one["samples_per_sec"] * one["step_sec"] - 32) < 1e-6, one
steps = math.ceil(1e9 / (32 * 128)) # whole steps
assert abs(one["days"] * 86400 / (steps * one["step_sec"]) - 1) < 1e-12, one
assert abs(sum(one["exposed"].values()) - one["exposed_sec"]) <= 1e-9 * one["step_sec"], one
END
}
check "the keys of JSON" keys
check "in words" prints 'bound by' on8 --stage 2 --batch 4
check "the step over time, as SVG" on8 --stage 3 --batch 4 --json --svg step.svg
check "... that is well-formed" xml step.svg
check "... and by the cluster's time" grep -q 'as priced for small' step.svg
check "a picture over the cluster's file" fails 73 'small.json' on8 --svg small.json
check "no cluster" fails 2 'needs --cluster' "$ZR" simulate c.json --ranks 8
check "no ranks" fails 2 'needs --ranks' simulate c.json
memory() { # PATTERN OPTION...: the line of memory
    pattern=$1
    shift
    prints "^memory  *[0-9.]* MB of a device's 1.13 GB$pattern$" on8 "$@"
}
check "what fits" memory '' --stage 2 --batch 4
check "a device's memory that does not do" memory ': does not fit with 1.07 GB aside' --batch 4 --memory 1GB
pieces() { # the gather of a checkpoint that ranks keep in pieces is listed as a wait of its own
    for pieces in true false; do
        on8 --tensor 4 --batch 4 --activation_checkpointing.policy=unit --zero_optimization.overlap_comm=false --json \
            --activation_checkpointing.partition_activations=$pieces >pieces.$pieces.json || return 1
    done
    python3 - <<'END'
import json
kept, whole = (json.load(open(f"pieces.{pieces}.json"))["exposed"] for pieces in ("true", "false"))
assert kept["Pa"] > 0 and whole["Pa"] == 0 and abs(kept["tensor"] / whole["tensor"] - 1) < 1e-9, (kept, whole)
END
}
check "what pieces of checkpoints cost" pieces
sed 's/400000000/200000/' small.json >poor.json
check "... a host's" memory "; [0-9.]* kB of a host's 200.00 kB: does not fit" --stage 2 --cluster ./poor.json
check "... less than memory.limit" memory ': more than memory.limit allows' --stage 2 --batch 4 --memory 1100MB
host() { on8 --json >host.json && python3 -c '
import json
one = json.load(open("host.json"))
assert one["host_bytes"] == 4 * one["memory"]["spaces"]["host"]["total"] > 0, one'; }
check "... of a host in JSON" host
hosts() { # without ranks_per_host, the cluster's own number is used, and not one rank on each host
    on8 --stage 3 --batch 1 --json >open.json && on8 --stage 3 --batch 1 --json --parallel.ranks_per_host=4 >given.json &&
        cmp open.json given.json && on8 --stage 3 --batch 1 --collectives.hierarchical=false --json >flat.json &&
        ! cmp -s open.json flat.json; }
check "the plan is made for the cluster's hosts" hosts
for name in dgx-a100x8 dgx-a100x8-40gb dgx-h100x8 hgx-h200x8 hgx-b200x8 mi300x8; do
    check "as many hosts as are asked for: $name" prints "on 1024 of the 1024 devices of $name" \
        "$ZR" simulate c.json --quiet --cluster $name --ranks 1024 --stage 1 --batch 1
done
check "... in racks" prints 'on 576 of the 576 devices of gb200' "$ZR" simulate c.json --quiet --cluster gb200-nvl72 --ranks 576 --stage 1 --batch 1
check "... in a sweep" sh -c "'$ZR' simulate c.json --quiet --cluster dgx-h100x8 --stage 1 --batch 1 --sweep ranks=64,256 >any.csv &&
    awk -F, 'NR > 1 && \$2 > 0 { n++ } END { exit n != 2 }' any.csv"
check "... not of one host" fails 78 'do not fit the 4 devices' "$ZR" simulate c.json --quiet --cluster 4x4090 --ranks 8 --stage 1 --batch 1
jitter() {
    for f in 0 0.1 0.3; do on8 --stage 2 --jitter $f --json >jitter.$f.json || return 1; done
    on8 --stage 2 --jitter 0.1 --seed 0 --json >again.json && cmp again.json jitter.0.1.json || return 1
    on8 --stage 2 --jitter 0.1 --seed 1 --json >other.json && on8 --stage 2 --json >none.json || return 1
    cmp none.json jitter.0.json && ! cmp -s other.json again.json && python3 - <<'END'
import json
slowest, step = zip(*((one["slowest"], one["step_sec"]) for one in
                      (json.load(open(f"jitter.{f}.json")) for f in ("0", "0.1", "0.3"))))
assert slowest[0] == 1 and abs((slowest[2] - 1) - 3 * (slowest[1] - 1)) < 1e-9, slowest
assert step[0] < step[1] < step[2], step
END
}
check "jitter, by its seed" jitter
check "... in words" prints '^slowest .* take 1\.[0-9]* times as long$' on8 --jitter 0.1
check "a seed for nothing" fails 2 'give it too' on8 --seed 1
saves() {
    sed 's/"device_bytes_per_sec"/"disk_bytes_per_sec": 1e8, "device_bytes_per_sec"/' small.json >disk.json &&
        on8 --cluster ./disk.json --train.save_interval=10 --json >save.json && python3 - <<'END'
import json
save = json.load(open("save.json"))["save"]
assert abs(save["write_sec"] - 4 * save["bytes"] / 1e8) < 1e-9, save # the four ranks of a host share its disk
assert 0 < save["stall_sec"] < save["write_sec"], save
END
}
check "a save" saves
check "... in words" prints '^save .* a rank, every 10 steps: .* training waits ' on8 --cluster ./disk.json --train.save_interval=10
check "... on disks that are not known: a usual rate" prints '^save .* by the hosts. disks' on8 --train.save_interval=10
check "... not asked for" sh -c "! '$ZR' simulate --quiet --cluster ./disk.json c.json --ranks 8 | grep ^save"
check "more ranks than devices" fails 78 '16 ranks, 4 on a host, do not fit the 8 devices' simulate c.json --ranks 16
check "... to search" fails 78 '16 ranks do not fit the 8 devices' simulate c.json --ranks 16 --search
check "more ranks on a host than it has devices" fails 78 'lower parallel.ranks_per_host' \
    on8 --parallel.ranks_per_host=8
check "a group that fits no host" fails 78 'zero_hpz_partition_size' \
    on8 --stage 3 --zero_optimization.zero_hpz_partition_size=3
sed 's/5e8/0/' small.json >zero.json
check "a link without bandwidth, by line and key" fails 65 'zero.json:6:42: links\[1\].bytes_per_sec: is 0' \
    on8 --cluster ./zero.json
echo '{"include": "b.json"}' >a.json
echo '{"include": "a.json"}' >b.json
check "files that include each other" fails 65 'b.json:1:2: include: .*a.json -> ./b.json -> ./a.json' \
    on8 --cluster ./a.json

# ---- sweeps

sweep() { on8 "$@" >sweep.csv; }
rows() {
    sweep --sweep stage=0,1,2,3 --sweep tensor=1,2,3 --sweep batch=1,8 --tokens 1e9 && python3 - <<'END'
import csv
rows = list(csv.reader(open("sweep.csv")))
assert rows[0] == ["stage", "tensor", "batch", "step_sec", "samples_per_sec", "tokens_per_sec", "tflops", "mfu",
                   "exposed_sec", "memory_bytes", "days", "fits", "bound_by", "error"], rows[0]
assert len(rows) == 1 + 4 * 3 * 2 and all(len(row) == 14 for row in rows)
assert [row[:3] for row in rows[1:4]] == [["0", "1", "1"], ["0", "1", "8"], ["0", "2", "1"]]
for row in rows[1:]:
    assert (row[1] == "3") == bool(row[13]) == (not row[3]) == (not row[11]), row
END
}
check "a row for each combination, with a reason where there is none" rows
same() {
    sweep --sweep batch=4 --sweep zero_optimization.stage=2 && python3 - <<'END'
import csv, json
one, row = json.load(open("one.json")), list(csv.DictReader(open("sweep.csv")))[0]
for key in ("step_sec", "samples_per_sec", "tflops", "exposed_sec"):
    assert abs(float(row[key]) - one[key]) <= 1e-8 * one[key], key
assert int(row["memory_bytes"]) == one["memory"]["total"]
END
}
check "a row is what one simulation says" same
listed() {
    sweep --sweep ranks=2,8 --sweep optimizer.params.betas='[0.9,0.95]','[0.9,0.99]' --json && return 1 # --ranks too
    simulate c.json --sweep ranks=2,8 --sweep optimizer.params.betas='[0.9,0.95],[0.9,0.99]' --json >list.json &&
        python3 - <<'END'
import json
rows = json.load(open("list.json"))
assert [row["ranks"] for row in rows] == [2, 2, 8, 8]
assert rows[1]["optimizer.params.betas"] == [0.9, 0.99] and rows[1]["error"] is None
END
}
check "a list as JSON, values with commas" listed
check "an unknown key" fails 2 'did you mean' on8 --sweep zero_optimization.stag=1
check "an empty list" fails 2 'a value is empty' on8 --sweep stage=
check "an empty value" fails 2 'a value is empty' on8 --sweep stage=1,,2
check "no list" fails 2 'expected KEY=a,b,c' on8 --sweep stage
check "a value twice" fails 2 'twice' on8 --sweep stage=1,1
check "a key twice" fails 2 'twice' on8 --sweep stage=1 --sweep zero_optimization.stage=2
check "a key that is given as well" fails 2 'leave out one of the two' on8 --sweep stage=1,2 --stage 1
check "... with its section" fails 2 'leave out one of the two' on8 --sweep stage=1,2 '--zero_optimization={"stage":1}'
many() {
    list=1 i=2
    while [ $i -le 101 ]; do list=$list,$i; i=$((i + 1)); done
    fails 2 'there are 10201 combinations; the most is 10000' on8 --sweep batch=$list --sweep seq=$list
}
check "too many" many
nothing() { fails 78 'none of the 2 combinations' on8 --sweep tensor=3,5 >rows.csv && ! test -s rows.csv; }
check "nothing can be planned: no rows" nothing
check "a model that cannot be read is no row" fails 66 'none/' on8 --sweep model.init=./none,./nowhere
check "lines, as SVG" sweep --sweep batch=1,2,4,16 --sweep stage=1,2,3 --svg lines.svg
check "... that are well-formed" xml lines.svg
check "... with a name each" sh -c 'for s in 1 2 3; do grep -q ">stage $s<" lines.svg || exit 1; done'
check "... of another column" sweep --sweep stage=1,2,3 --svg lines.svg --plot samples_per_sec
check "... which its axis names" grep -q 'samples a second' lines.svg
check "of an unknown column" fails 2 'tflops' on8 --sweep stage=1 --svg lines.svg --plot tflop
check "a column without a picture" fails 2 'needs --sweep and --svg' on8 --plot mfu

# ---- search

# every BATCHES OPTION...: write all combinations of the searched space to all.*.csv
every() {
    batches=$1
    shift
    rm -f all.*.csv
    for policy in none selective unit; do
        for tensor in 1 2 4; do
            group=$((4 / tensor)) groups=-1 # data-parallel ranks on a host
            [ $group = 1 ] || groups=-1,$group
            on8 --activation_checkpointing.policy=$policy --sweep stage=0,1,2,3 --sweep tensor=$tensor --sweep batch=$batches \
                "$@" \
                --sweep activation_checkpointing.partition_activations=false,true \
                --sweep activation_checkpointing.cpu_checkpointing=false,true \
                --sweep zero_optimization.mics_shard_size=$groups >all.$policy.$tensor.csv || return 1
            [ $group != 1 ] || continue
            on8 --activation_checkpointing.policy=$policy --sweep stage=3 --sweep tensor=$tensor --sweep batch=$batches \
                "$@" \
                --sweep activation_checkpointing.cpu_checkpointing=false,true \
                --sweep activation_checkpointing.partition_activations=false,true \
                --sweep zero_optimization.zero_hpz_partition_size=$group >all.hpz.$policy.$tensor.csv || return 1
        done
    done
}
# optimum STAGES TENSORS OPTION...: check that the candidate that is found is within 2 % of the fastest of all
# combinations, and that what is listed is sorted by speed
optimum() {
    stages=$1 tensors=$2
    shift 2
    on8 --search --json $configured "$@" >search.json || return 1
    python3 - "$stages" "$tensors" <<'END'
import csv, glob, json, sys
stages, tensors = (text.split(",") for text in sys.argv[1:3])
fastest, too_large = 0, 0
for name in glob.glob("all.*.csv"):
    for row in csv.DictReader(open(name)):
        if row["stage"] not in stages or row["tensor"] not in tensors:
            continue
        too_large += row["fits"] == "false"
        if row["fits"] != "true":
            continue
        fastest = max(fastest, float(row["samples_per_sec"]))
found = [way["samples_per_sec"] for way in json.load(open("search.json")) if way["fits"]]
print("wanted", fastest, "found", found)
assert too_large and found[0] * 1.02 >= fastest * (1 - 1e-7)
assert found[1:] == sorted(found[1:], reverse=True)
END
}
# Buckets, overlap and levels as they are by default: given, they are not varied.
configured='--zero_optimization.reduce_bucket_size=auto --zero_optimization.overlap_comm=true --collectives.hierarchical=auto --gradient_reduction=micro'
check "all combinations" every 1,2,3,6,12,24,48,96
for stage in 0 1 2 3; do
    for tensor in 1 2 4; do
        check "what is found is as fast as any of them: stage $stage, $tensor ranks share a layer" \
            optimum $stage $tensor --stage $stage --tensor $tensor
    done
done
check "... of all" optimum 0,1,2,3 1,2,4
cp search.json all.json
best() {
    python3 - <<'END'
import json
found = json.load(open("all.json"))
fits = [way for way in found if way["fits"]]
speeds = [way["samples_per_sec"] for way in fits]
assert len(fits) == 11 and found[:11] == fits and speeds[1:] == sorted(speeds[1:], reverse=True), speeds
assert fits[0]["why"] is None and all(way["why"] for way in found[1:])
for way in fits[1:]: # within 2 % of the fastest it is a tie
    lost = max(speeds) / way["samples_per_sec"]
    assert (" a tie:" in " " + way["why"]) == (lost <= 1.02), (lost, way["why"])
for way in fits[1:]: # the losses of a plan are the relative time that it takes longer
    lost = speeds[0] / way["samples_per_sec"] - 1
    assert abs(sum(way["loses"].values()) - lost) < 1e-6, way
END
}
check "... then ten, each with what it loses" best
pasted() { # the first and the fifth, as keys and as sections
    for i in 0 4; do
        python3 -c '
import json, sys
way = json.load(open("all.json"))[int(sys.argv[1])]
value = lambda x: x if isinstance(x, str) else json.dumps(x)
print("\n".join(f"--{key}={value(x)}" for key, x in way["keys"].items()))
config = json.load(open("c.json"))
for key, x in way["config"].items():
    config[key] = {**config.get(key, {}), **x} if isinstance(x, dict) else x
json.dump(config, open("pasted.json", "w"))' $i >keys.txt || return 1
        on8 --json $(cat keys.txt) >as_keys.json && simulate pasted.json --ranks 8 --json >as_file.json || return 1
        python3 -c '
import json, sys
way = json.load(open("all.json"))[int(sys.argv[1])]
for name in ("as_keys.json", "as_file.json"):
    one = json.load(open(name))
    assert one["samples_per_sec"] == way["samples_per_sec"] and one["fits"], (one, way)' $i || return 1
    done
}
check "its keys give it" pasted
batches=1,4,8,24,32,96
[ -z "${ZR_LONG-}" ] || batches=1,2,3,4,6,8,12,16,24,32,48,96
check "all combinations of the same samples a step" every $batches --train_batch_size=768
check "... the fastest of them" optimum 0,1,2,3 1,2,4 --train_batch_size=768
check "... at stage 3" optimum 3 1,2,4 --train_batch_size=768 --stage 3
check "... among ranks that share layers" optimum 0,1,2,3 4 --train_batch_size=768 --tensor 4
check "what is given is kept" on8 --search --json --stage 2 --tensor 2 --activation_checkpointing.policy=unit
kept() {
    on8 --search --json --stage 1 --tensor 2 --batch 4 >search.json && python3 - <<'END'
import json
for way in json.load(open("search.json")):
    keys = way["keys"]
    assert (keys["zero_optimization.stage"], keys["parallel.tensor"], keys["train_micro_batch_size_per_gpu"]) == (1, 2, 4)
END
}
check "... in all that is found" kept
stays() { # KEY VALUE TRIED OPTION...: no way has another value of the key, nor any of the keys TRIED, which it decides
    key=$1 value=$2 tried=$3
    shift 3
    on8 --search --json "--$key=$value" "$@" >search.json && python3 - "$key" "$value" $tried <<'END'
import json, sys
key, value, *tried = sys.argv[1:]
ways = json.load(open("search.json"))
assert ways
for way in ways:
    assert str(way["keys"].get(key, value)) == value and not set(tried) & set(way["keys"]), way["keys"]
END
}
check "... micro-batches a step" stays gradient_accumulation_steps 3 '' --stage 1 --tensor 2 \
    --activation_checkpointing.policy=unit
check "... where checkpoints are" stays activation_checkpointing.offload none \
    'activation_checkpointing.cpu_checkpointing activation_checkpointing.partition_activations' --stage 1 --tensor 2
check "... a second partition" stays zero_optimization.zero_hpz_partition_size 4 zero_optimization.mics_shard_size \
    --stage 3 --tensor 1 --activation_checkpointing.policy=unit
without_limit() { # policy auto is limited by a device's memory, where keeping all activations does not fit
    on8 --json --stage 2 --batch 8 --activation_checkpointing.policy=none >none.json &&
        on8 --json --stage 2 --batch 8 --activation_checkpointing.policy=auto >auto.json && python3 - <<'END'
import json
none, auto = (json.load(open(name)) for name in ("none.json", "auto.json"))
assert not none["fits"] and auto["fits"], (none["memory"]["total"], auto["memory"]["total"])
END
}
check "policy auto without memory.limit" without_limit
again() { on8 --search "$@" >first && on8 --search "$@" >second && cmp first second; }
check "twice the same" again
varied() { # further keys are taken where they gain more than 2 %
    sed 's/"bf16"/"zero_optimization": {"reduce_bucket_size": 4096}, "bf16"/' c.json >buckets.json &&
        simulate buckets.json --ranks 8 --search --json --stage 1 --tensor 1 --batch 1 >large.json &&
        sed 's/"bf16"/"zero_optimization": {"overlap_comm": false}, "bf16"/' c.json >off_config.json &&
        simulate off_config.json --ranks 8 --search --json --stage 3 --tensor 1 --batch 8 >off.json &&
        on8 --search --json --stage 3 $configured >plain.json &&
        on8 --search --json --step-tokens 65536 --stage 1 --tensor 1 --parallel.pipeline=1 --batch 2 >accum.json &&
        on8 --search --json --stage 1 --activation_checkpointing.policy=unit >unit.json && python3 - <<'END'
import json
large, off, plain, accum, unit = (json.load(open(name + ".json")) for name in ("large", "off", "plain", "accum", "unit"))
assert large[0]["keys"]["zero_optimization.reduce_bucket_size"] > 4096, large[0]["keys"]
assert off[0]["keys"]["zero_optimization.overlap_comm"] is True, off[0]["keys"]
assert accum[0]["keys"]["gradient_accumulation_steps"] == 8, accum[0]["keys"]
policies = {(way["keys"].get("activation_checkpointing.cpu_checkpointing"), way["keys"].get("activation_checkpointing.every"))
            for way in unit}
assert all(way["keys"]["activation_checkpointing.policy"] == "unit" for way in unit) and len(policies) > 1, policies
varied = {"zero_optimization.reduce_bucket_size", "zero_optimization.overlap_comm", "collectives.hierarchical"}
assert not any(varied & set(way["keys"]) for way in plain)
END
}
check "buckets, overlap and levels are varied" varied
bounded() {
    on8 --search --json --step-tokens 16384 >search.json && python3 - <<'END'
import json
for way in json.load(open("search.json")):
    keys = way["keys"]
    ranks = 8 // (keys.get("parallel.tensor", 1) * keys.get("parallel.pipeline", 1))
    samples = keys["train_micro_batch_size_per_gpu"] * keys["gradient_accumulation_steps"] * ranks
    assert samples * 128 <= 16384, keys
END
}
check "a step's tokens are bounded" bounded
# Two hosts with a slow network between them, which a pipeline uses least; with a number of ranks that is given it stays.
pipelines() {
    cat >slow.json <<'END'
{"include": "dgx-a100x8", "name": "slow", "devices": 8, "host": {"devices": 4}, "links": [
  {"name": "NVLink", "devices": 4, "bytes_per_sec": 3e11}, {"name": "network", "devices": 8, "bytes_per_sec": 1e8}]}
END
    slow() { "$ZR" simulate --quiet --preset gpt2-124m --cluster ./slow.json --ranks 8 --stage 1 --tensor 1 \
        --train_batch_size=32 --json --search "$@"; }
    slow >search.json && slow --parallel.pipeline=1 >one.json && python3 - <<'END'
import json
best, one = (json.load(open(f)) for f in ("search.json", "one.json"))
assert best[0]["keys"]["parallel.pipeline"] > 1 and best[0]["step_sec"] < one[0]["step_sec"] / 1.02, best[0]["keys"]
assert not any("parallel.pipeline" in way["keys"] and way["keys"]["parallel.pipeline"] > 1 for way in one)
assert "parallel.schedule" in best[0]["question"]["free"] and "parallel.pipeline" not in one[0]["question"]["free"]
END
}
check "... for a search alone" fails 2 'give it too' on8 --step-tokens 16384
check "pipelines are searched" pipelines
check "in words" sh -c 'grep -q "^preferred of" first && grep -q -- "--zero_optimization.stage=" first &&
    grep -q "^ 11 " first'
check "nothing fits" fails 71 'nothing fits; stage' on8 --search --model.n_embd=8192
check "nothing can be planned" fails 78 'none of the ways .*; the first: 5 ranks a host' on8 --search \
    --parallel.ranks_per_host=5
check "a memory limit is kept" sh -c "'$ZR' simulate --quiet --cluster ./small.json c.json --ranks 8 --search --json --memory 1112MB >l.json &&
    python3 -c 'import json; assert max(w[\"memory_bytes\"] + 2**30 for w in json.load(open(\"l.json\")) if w[\"fits\"]) <= 1112e6'"
check "both at once" fails 2 'cannot be given together' on8 --search --sweep stage=1

echo "1..$n"
