#TEST timeout=120
# Check machines by their names, for --profile and --cluster, what links them, 8-bit products, and the times of other
# systems' runs, compared with published ones.
. tests/support/command.inc
SOURCE=${ZR_SOURCE:-$OLDPWD}
notes() { # PATTERN COMMAND...: in a note
    pattern=$1
    shift
    "$@" >printed 2>&1 && grep -q -- "note: $pattern" printed || { cat printed; return 1; }
}

cat >c.json <<'END_CONFIG'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": 256, "n_positions": 128, "vocab_size": 512},
 "bf16": {"enabled": true}, "optimizer": {"type": "AdamW"}}
END_CONFIG

# ---- names

# Write the names that a message lists, one a line.
listed() { sed -n 's/.*there are: *\([^;]*\);.*/\1/p' | tr ' ' '\n'; }
same_list() { # --profile and --cluster list the same names, and each takes all of them
    "$ZR" plan c.json --profile abacus 2>&1 | listed >of_profile
    "$ZR" plan c.json --cluster abacus 2>&1 | listed >of_cluster
    cmp of_profile of_cluster && test "$(wc -l <of_profile)" -gt 30 || return 1
    for name in $(cat of_profile) 4x4090 2x8xh100; do
        "$ZR" plan c.json --profile $name --quiet | grep -q "machine: $name\$" || { echo "--profile $name"; return 1; }
        "$ZR" plan c.json --cluster $name --quiet | grep -q "machine: $name\$" || { echo "--cluster $name"; return 1; }
    done
}
check "profiles and clusters have the same names" same_list
check "what links the devices of a number is told" notes '2x8xh100: 8 devices in a host, linked by NVSwitch with 450.00 GB/s each; hosts linked by InfiniBand with 400.00 GB/s each' "$ZR" plan c.json --ranks 16 --cluster 2x8xh100
check "... of a device" notes '3090: 4 devices in a host, linked by PCIe with 31.51 GB/s each through the memory of the host; hosts linked by Ethernet' "$ZR" plan c.json --cluster 3090
check "a profile with hosts has a network" prints 'machine: 2x8xh100' "$ZR" plan --preset gpt2 --ranks 16 --profile 2x8xh100 --quiet
check "... but not more devices" fails 2 'has 16 devices' "$ZR" plan --preset gpt2 --ranks 32 --profile 2x8xh100 --quiet
check "a near name of a number" fails 2 'did you mean 4x4090' "$ZR" plan c.json --profile 4x409

# ---- links and products

through_host() { # without access to each other's memory, devices exchange half as fast over PCI Express
    echo '{"include": "4x4090", "device": {"through_host": false}}' >direct.json
    for what in 4x4090 ./direct.json; do
        "$ZR" simulate c.json --quiet --cluster $what --ranks 4 --stage 1 --batch 1 --zero_optimization.overlap_comm=false \
            --json || return 1
    done >exchanged && python3 - <<'END'
import json
text, made = open("exchanged").read(), []
while text.strip():
    one, end = json.JSONDecoder().raw_decode(text.lstrip())
    made.append(one["exposed"]["stage"])
    text = text.lstrip()[end:]
assert made[0] > 0 and abs(made[0] / made[1] - 2) < 1e-9, made
END
}
check "GeForce cards exchange through the host" through_host
eight() { # products of 8 bits take as long as FLOP/s in 8 bits say, and the head and attention as before
    for bits in 16 8; do
        echo '{"include": "h100", "software": {"product_bits": '$bits'}}' >bits.json
        test $bits = 8 || echo '{"include": "h100"}' >bits.json
        "$ZR" simulate --preset llama3-8b --seq 2048 --quiet --cluster ./bits.json --ranks 8 --stage 3 --batch 2 --json >bits.$bits.json || return 1
    done
    python3 - <<'END'
import json
wide, narrow = (json.load(open(f"bits.{bits}.json"))["product_sec"] for bits in (16, 8))
assert 0.5 < narrow / wide < 0.7, (wide, narrow)
END
}
check "products of 8 bits" eight
echo '{"include": "a100", "software": {"product_bits": 8}}' >bits.json
check "... that a device does not have" fails 78 'no products of 8 bits' "$ZR" simulate c.json --quiet --cluster ./bits.json --ranks 8
echo '{"include": "h100", "software": {"product_bits": 7}}' >bits.json
check "... of another number" fails 78 '8 or 4 was wanted' "$ZR" simulate c.json --quiet --cluster ./bits.json --ranks 8

# ---- times of other systems

steps() { # every row within 25 %, and the median within 10 %
    python3 "$SOURCE"/bench/planner_steps.py --zr "$ZR" --rows "$SOURCE"/tests/planner_steps.csv --json >steps.json && python3 - <<'END'
import json, statistics
rows = [json.loads(line) for line in open("steps.json")]
far = [abs(row["ratio"] - 1) for row in rows]
assert len(rows) == 14 and max(far) < 0.25 and statistics.median(far) < 0.10, sorted(zip(far, (row["id"] for row in rows)))
END
}
check "times of steps of other systems" steps
llama="--preset llama3-8b --seq 8192 --cluster h100 --ranks 16 --batch 1"
check "a system's run in words" prints '^FSDP2 (torch' "$ZR" simulate $llama --stage 3 --system fsdp2 --quiet
check "... its memory" grep -q '^memory  *[0-9.]* GB allocated; nvidia-smi shows [0-9.]* GB of a device.s 85.52 GB' printed
check "... and what its time was compared with" grep -q '^compared  *with 10 published runs of torchtitan' printed
check "a system that is none" fails 2 'there is no such system' "$ZR" simulate $llama --system fsdp3 --quiet
check "an option without a system" fails 2 'give --system NAME too' "$ZR" simulate $llama --with compile=model --quiet
check "8-bit products of a system" sh -c "for f in none rowwise; do '$ZR' simulate $llama --stage 3 --system fsdp2 --with float8=\$f --json --quiet >\$f.json || exit 1; done
    python3 -c 'import json; wide, narrow = (json.load(open(f + \".json\")) for f in (\"none\", \"rowwise\")); assert narrow[\"product_sec\"] < 0.75 * wide[\"product_sec\"] and narrow[\"memory_sec\"] > wide[\"memory_sec\"]'"
check "... that the device does not have" fails 78 'no products of 8 bits' "$ZR" simulate --preset llama3-8b --seq 2048 --cluster a100 --ranks 8 --batch 1 --stage 3 --system fsdp2 --with float8=rowwise --quiet
