#TEST timeout=60
# Check how many calls between ranks a step of GPT-2 1.5B and Llama-3 8B has at stage 3 on 8 ranks. Each bucket of a unit
# is a call. GPUs gather whole units; processors gather buckets. One number of all ranks is needed on the host.
. tests/support/command.inc

calls() { # PRESET PROFILE: print steps and calls of gathers, then of reductions, then steps whose numbers the host needs
    "$ZR" plan --preset "$1" --ranks 8 --stage 3 --bf16.enabled=true --batch 1 --profile "$2" --schedule >schedule &&
        awk '$2 != "comm" { next }
            { calls = 1; for (i = 4; i < NF; i++) if ($i == "in" && $(i + 2) == "buckets") calls = $(i + 1) }
            { steps[$3]++; all[$3] += calls }
            END { print steps["gather"], all["gather"], steps["reduce_scatter"], all["reduce_scatter"],
                        steps["norm"] + steps["agree"] + steps["count"] + steps["trust"] }' schedule
}
has() { # WANTED PRESET PROFILE
    got=$(calls "$2" "$3")
    [ "$got" = "$1" ] || { echo "not $1 but $got" >&2; return 1; }
}
check "GPT-2 1.5B on GPUs" has "99 99 50 102 1" gpt2-1.5b h100
check "... on processors" has "99 203 50 102 1" gpt2-1.5b zen3
check "Llama-3 8B on GPUs" has "66 66 34 512 1" llama3-8b h100
check "... on processors" has "66 960 34 512 1" llama3-8b zen3
echo "1..$n"
