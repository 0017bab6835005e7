#TEST timeout=120
# Check that all ranks read the same bytes, and that every token is in the vocabulary, before anything is created.
. tests/support/command.inc

numbers() { # FIRST COUNT: a uint16 token file of COUNT tokens, all FIRST
    i=0
    while [ $i -lt "$2" ]; do printf "\\$(printf %03o $(($1 % 256)))\\$(printf %03o $(($1 / 256)))"; i=$((i + 1)); done
}
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16, "vocab_size": 300},
 "data": {"train": "t.bin", "val": "v.bin", "order": "sequential"}, "train": {"steps": 1}}
END
says() { grep -q "$1" err; }

# One invalid token of 5,000, which no step of this run would read.
{ numbers 7 4321; numbers 300 1; numbers 7 678; } >t.bin
numbers 7 100 >v.bin
check "a token outside, anywhere in the file" code 65 "$ZR" train c.json --train.output_dir=run
check "... with its position" says "t.bin: token 4321 (byte 8642) is 300, which is not below vocab_size 300"
check "... on thread ranks once" code 65 "$ZR" train c.json --train.output_dir=run --ranks 2
check "... with its position" says "t.bin: token 4321 (byte 8642) is 300"
cp v.bin t.bin
{ numbers 7 99; numbers 301 1; } >v.bin
check "... and in validation data" code 65 "$ZR" train c.json --train.output_dir=run
check "... with its position" says "v.bin: token 99 (byte 198) is 301"
check "nothing was created" test ! -e run
numbers 7 100 >v.bin

# The bytes of a text are not tokens of a token file, unless a named tokenizer says so.
yes 'a small text' | head -n 20 >v.txt
check "a text for the evaluation of tokens" code 78 "$ZR" train c.json --data.val=v.txt --data.tokenizer=null --train.output_dir=run
check "... says which is which" says "data.train is tokens but data.val is text, and data.tokenizer is not given"
check "... and the other way round" code 78 "$ZR" plan c.json --data.train=v.txt
check "... says so too" says "data.train is text but data.val is tokens, and data.tokenizer"
check "nothing was created" test ! -e run
check "tokens that are bytes, as their tokenizer says" "$ZR" train c.json --data.val=v.txt --data.tokenizer=bytes --train.output_dir=bytes
check "... with nothing to say of it" sh -c '! grep -q "data.tokenizer: not given" err'

# Most tokens of a large vocabulary never occur in bytes.
text() { "$ZR" plan c.json --data.train=v.txt --data.val=null "$@"; }
check "a text as bytes for a large vocabulary" text --model.vocab_size=50257
check "... is told" says "note: data.tokenizer: not given, so the text is read as bytes, which use only 256 of the model's 50257 tokens"
check "... with a preset, too" "$ZR" plan --preset gpt2-124m --data.train=v.txt
check "... is told" says "as bytes, which use only 256 of the model's 50257 tokens and train badly. .*--data.tokenizer=DIR"
mkdir bare && echo '{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": 600}' >bare/config.json
check "with weights that have no tokenizer, too" "$ZR" plan --model.init=bare --data.train=v.txt --seq 16
check "... is told which one is wanted" says "only 256 of the model's 600 tokens .* the tokenizer that belongs to these weights"
check "not for a small one" text
check "... is it told" sh -c '! grep -q "data.tokenizer: not given" err'

if [ -z "${ZR_MPIRUN:-}" ]; then
    skip "ranks that read other files" "no MPI"
    echo "1..$n"
    exit 0
fi

# Two folders simulate two hosts: the same names with different files.
"$ZR" train c.json --quiet --data.seq_length=8 --train.output_dir=first || exit 1
mkdir 0 1
for rank in 0 1; do cp -r c.json t.bin v.bin first $rank/ || exit 1; done
cat >each <<END
#!/bin/sh
cd "$DIR/\${OMPI_COMM_WORLD_RANK:-\${PMI_RANK:-\$PMIX_RANK}}" && exec "\$@"
END
chmod +x each
ranks() { # CODE ZR'S WORDS...: two ranks, each in its folder
    want=$1
    shift
    rm -rf "$DIR/run"
    code "$want" $ZR_MPIRUN -n 2 ./each "$ZR" train c.json "--train.output_dir=$DIR/run" "$@"
}
restore() { cp t.bin v.bin 1/ && cp first/model/* 1/first/model/; }

check "copies are the same data" ranks 0 --quiet --model.init=first/model --data.seq_length=8
{ numbers 7 99; numbers 8 1; } >1/t.bin
check "another token" ranks 65
check "... names the rank" says "data.train: the content of t.bin differs between ranks: rank 1 differs from rank 0"
numbers 7 101 >1/t.bin
check "another length" ranks 65
check "... names the rank" says "data.train: the number of tokens of t.bin .*rank 1 differs from rank 0 (rank 1 has 101, rank 0 has 100)"
{ numbers 7 99; numbers 300 1; } >1/t.bin
check "a bad token on one host" ranks 65
check "... names the rank" says "rank 1: t.bin: token 99"
restore
numbers 9 100 >1/v.bin
check "other validation data" ranks 65
check "... names the rank" says "data.val: the content of v.bin differs"
restore
at=$(($(wc -c <1/first/model/model.safetensors) - 4))
printf '\001\002\003\075' | dd of=1/first/model/model.safetensors bs=1 seek=$at conv=notrunc 2>/dev/null
check "other weights" ranks 65 --model.init=first/model --data.seq_length=8
check "... names the rank" says "model.init: the content of first/model differs between ranks: rank 1 differs from rank 0"
check "nothing was created" test ! -e run
echo "1..$n"
