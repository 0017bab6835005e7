#TEST timeout=120
# Check what a run may be trained on: patterns, lists, .jsonl, weighted sources; refusals and their exit codes.
. tests/support/tokenizer.inc
. tests/support/command.inc
export XDG_CACHE_HOME="$DIR/cache"

awk 'BEGIN { for (i = 0; i < 600; i++) print "line " i " of a small text" }' >all.txt
head -c 5000 all.txt >part-1.txt
tail -c +5001 all.txt >part-2.txt
sed 's/.*/{"id": 7, "text": "&"}/' all.txt >all.jsonl
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16},
 "data": {"train": "part-*.txt", "val": ["part-1.txt", "part-2.txt"], "tokenizer": "bytes"}, "train_batch_size": 4,
 "train": {"steps": 6, "eval_interval": 3, "eval_batches": 0, "threads": 1, "save_interval": 3}}
END
train() { "$ZR" train c.json --quiet "$@"; }
val() { grep -o '"val_loss":[^,]*' "$1/metrics.jsonl"; }
same_val() { val "$1" >a && val "$2" >b && [ -s a ] && cmp a b >&2; }

check "a pattern and a list" train --train.output_dir=parts
check "one file of the same text" train --data.train=all.txt --data.val=all.txt --train.output_dir=whole
check "... are the same, to the bit" same parts whole
check "... and so is its evaluation" same_val parts whole
check ".jsonl of its lines" train --data.train=all.jsonl --data.val=all.jsonl --train.output_dir=lines
check "... is the same text" same lines whole
check "... whose tokens are kept" test "$(ls cache/zr/tokens | wc -l)" = 1
check "... on 2 ranks" train --data.train=all.jsonl --data.val=all.jsonl --ranks 2 --data.cache_dir=tokens --train.output_dir=two
check "... where the key says" test "$(ls tokens | wc -l)" = 1
printf 'overwritten' >damage
damage() { for file in "$1"/*.tokens; do dd if=damage of="$file" bs=1 seek=4000 conv=notrunc 2>/dev/null; done; }
damage tokens
check "... with tokens that are damaged" "$ZR" train c.json --data.train=all.jsonl --data.val=all.jsonl \
    --ranks 2 --data.cache_dir=tokens --train.output_dir=mended
check "... says that they are made again" grep -q 'note: all.jsonl: its tokens in the cache were damaged, so it is tokenized again: tokens/' err
check "... and trains on the same" same two mended
damage tokens
check "... as does zr eval" "$ZR" eval mended --data all.jsonl
check "... once" test "$(grep -c 'tokenized again' err)" = 1
check "the run's own configuration has the list" grep -q 'part-1.txt' parts/config.json
check "... and is evaluated by it" "$ZR" eval parts --json
mkdir elsewhere
check "... from elsewhere" sh -c 'cd elsewhere && "$0" eval ../parts --json' "$ZR"
# Records by another name.
python3 - <<'END_PYTHON'
import json, struct
records = [json.loads(line) for line in open("all.jsonl")]
json.dump(records, open("array.json", "w"), indent=1)
open("lines.json", "w").write(open("all.jsonl").read())
open("all.csv", "w").write("text\n" + open("all.txt").read())
talk = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "no", "weight": 0},
        {"role": "user", "content": "q"}, {"role": "assistant", "content": "yes"}]
open("talk.jsonl", "w").write(4 * (json.dumps({"messages": talk}) + "\n"))
tokens = [7 * i % 251 for i in range(400)]
open("wide.bin", "wb").write(struct.pack("<400I", *tokens))
open("narrow.bin", "wb").write(struct.pack("<400H", *tokens))
END_PYTHON
check "an array of records" "$ZR" train c.json --data.train=array.json --data.val=lines.json --train.output_dir=array
check "... says how it is read" grep -q 'note: array.json: it is read as JSON records, an array of objects; data.format "text"' err
check "... also of the evaluation" grep -q 'note: lines.json: it is read as JSON records, an object on each line' err
check "... is the same text" same array whole
check "... whose evaluation is the same" same_val array whole
check "... and so is that of zr eval" sh -c '"$0" eval array --data array.json --json | sed "s/\"data\".*//" >a && "$0" eval array --data all.jsonl --json | sed "s/\"data\".*//" >b && cmp a b && grep -q loss a' "$ZR"
check "... in array and lines" train --data.train='["array.json", "all.jsonl"]' --train.output_dir=several
check "as text" train --data.train=array.json --data.format=text --train.output_dir=texts
other() { numbers "$1" >a && numbers "$2" >b && [ -s a ] && ! cmp -s a b; }
check "... it is another text" other texts array
check "... also in zr eval" prints '"tokens":' "$ZR" eval parts --data array.json --as-text --json
check "a table" train --data.train=all.csv --data.val=all.csv --train.output_dir=table
check "... is the same text" same table whole
check "... whose evaluation is the same" same_val table whole
gzip -c all.jsonl >packed
check "a compressed file" train --data.train=packed --data.val=packed --train.output_dir=packed.run
check "... is the same text" same packed.run whole
head -c 500 packed >cut.gz
check "... that is cut off" fails 65 'cut.gz: its compressed data (gzip) end too early, at byte 500 of the file' "$ZR" eval parts --data cut.gz
check "... as text" "$ZR" eval parts --data all.csv --as-text
check "other records" fails 65 'talk.jsonl: it has records of messages, and a file of tokens cannot say which of them the loss counts' \
    "$ZR" tokenize --tokenizer bytes talk.jsonl -o none.bin
check "... to learn from" fails 65 'records of messages, and a tokenizer learns from one text of each; name the member' \
    "$ZR" tokenize --train 300 talk.jsonl -o none

check "tokens of 4 bytes" fails 65 'wide.bin: every second of its first 800 numbers.*give data.token_bytes 4' train --data.train=wide.bin --train.output_dir=none
check "... when the key says so" train --data.train=wide.bin --data.val=null --data.token_bytes=4 --train.output_dir=wide
check "... are those of 2" train --data.train=narrow.bin --data.val=null --train.output_dir=narrow
check "... to the bit" same wide narrow
check "... to evaluate on" fails 65 'wide.bin.*--token-bytes' "$ZR" eval narrow --data wide.bin
check "... with the option" "$ZR" eval narrow --data wide.bin --token-bytes 4
check "... by the run's key" "$ZR" eval wide --data wide.bin
check "another width" fails 78 'data.token_bytes: found 3, wanted 2 (uint16) or 4 (uint32)' train --data.token_bytes=3 --train.output_dir=none
check "a key without effect" "$ZR" train c.json --data.token_bytes=4 --data.loss_on=last --data.text_key=body --data.bad_lines=skip \
    --data.columns='{"text": "body"}' --data.chat_template_kwargs='{"a": 1}' --data.chat_template=chatml \
    --train.output_dir=keys
check "... is told" grep -q 'note: data.token_bytes has no effect: the data are not tokens, but text' err
check "... of records, too" grep -q 'note: data.text_key has no effect: the data are not records, but text' err
check "... as their names" grep -q 'note: data.columns has no effect: the data are not records, but text' err
check "... and a template" grep -q 'note: data.chat_template has no effect: the data are not messages, but text' err
check "... and its variables" grep -q 'note: data.chat_template_kwargs has no effect: the data are not messages, but text' err
check "... each" grep -q 'note: data.loss_on has no effect: the data have neither prompts nor messages' err
talks() { train --data.train=talk.jsonl --data.val=talk.jsonl --data.chat_template=chatml --model.n_positions=256 --train.steps=3 --train.output_dir="$@"; }
targets() { grep -o '"val_tokens":[0-9]*' "$1/metrics.jsonl" | sort -u; }
check "answers that are switched off" talks talk
check "... of records whose form is told" sh -c '"$0" eval talk 2>&1 | grep -q "note: .*talk.jsonl: 4 records of messages"' "$ZR"
check "... by other names" prints '"tokens":' "$ZR" eval talk --data talk.jsonl --columns '{"messages": "messages"}' --chat-template qwen2 --json
check "... do not count" test "$(targets talk)" = '"val_tokens":52' # yes<|im_end|> in 4 conversations
check "the last answer" talks last --data.loss_on=last
check "... is the other one" same talk last
check "all tokens" talks all --data.loss_on=all
check "... but those" test "$(targets all)" = '"val_tokens":464'

check "how long data was waited for" grep -q '"data_wait_ms":[0-9]' parts/metrics.jsonl

mix='[{"path": "part-1.txt", "weight": 3}, {"path": ["part-2.txt", "all.txt"], "weight": 1}]'
check "sources with weights" train --data.train="$mix" --train.output_dir=mixed
check "... on 2 ranks" train --data.train="$mix" --ranks 2 --train.output_dir=mixed2
losses() { grep -o '"loss":[0-9.]\{5\}' "$1/metrics.jsonl"; }
both() { losses "$1" >a && losses "$2" >b && [ -s a ] && cmp a b >&2; }
check "... the same samples" both mixed mixed2
check "... as those of .jsonl" both two lines
check "... which are not those of one text" test "$(losses mixed)" != "$(losses whole)"
cp -r mixed half && rm -rf half/step-00000006 half/model half/run.json && echo step-00000003 >half/latest
check "... and go on where they were" "$ZR" train half/config.json --quiet --resume
check "... to the bit" same half mixed
check "... not with other weights" fails 65 'data.train: the file has changed' "$ZR" train mixed/config.json --quiet --resume \
    --train.steps=8 --data.train="$(echo "$mix" | sed s/3/2/)"
cp -r parts again && echo more >part-3.txt
check "nor with one file more" fails 65 'data.train: the file has' "$ZR" train again/config.json --quiet --resume --train.steps=8
rm part-3.txt

refuse() { # CODE MESSAGE OPTION...
    want=$1 says=$2
    shift 2
    fails "$want" "$says" train --train.output_dir=none "$@" && [ ! -e none ]
}
check "no match" refuse 66 'none-\*.txt: no file matches this pattern' --data.train='none-*.txt'
check "a list with a file that is not there" refuse 66 'gone.txt' --data.train='["all.txt", "gone.txt"]'
check "an empty list" refuse 78 'data.train: found .*wanted a path, a list of paths' --data.train='[]'
check "a list of something else" refuse 78 'data.train\[1\]: found 7' --data.train='["all.txt", 7]'
check "a weight of nothing" refuse 78 'data.train\[0\]' --data.train='[{"path": "all.txt", "weight": 0}]'
check "weights of an evaluation" refuse 78 'data.val: evaluation data cannot have weights' --data.val='[{"path": "all.txt", "weight": 1}]'
echo '{"text": 7}' >>all.jsonl
check "a bad line" refuse 65 'all.jsonl:601: "text" is not a string' --data.train=all.jsonl
check "... is left out when asked" "$ZR" train c.json --data.train=all.jsonl --data.bad_lines=skip --train.output_dir=skipped
check "... and told" grep -q 'all.jsonl: 1 bad lines left out; the first is line 601' err
check "... and the rest is trained on" same skipped whole
cp all.jsonl worse.jsonl && sed -i '2s/.*/none/' worse.jsonl
check "... of several files" "$ZR" train c.json --data.train='["part-1.txt"]' --data.val='["all.jsonl", "worse.jsonl"]' \
    --data.bad_lines=skip --train.output_dir=skipped2
check "... which are counted" grep -q 'all.jsonl and others (2 files): 3 bad lines left out; the first is line 601' err
check "an evaluation" "$ZR" eval skipped2
check "... tells it too" grep -q 'note: .*all.jsonl and others (2 files): 3 bad lines left out' err
: >empty.jsonl && echo '{"text": "a few"}' >few.jsonl
check "a file without tokens, by its name" refuse 65 ' empty.jsonl: the file holds 0 tokens (jsonl); leave it out' \
    --data.train='["few.jsonl", "empty.jsonl"]'
check "one too short, by its name" refuse 65 ' few.jsonl: only 6 tokens (jsonl); at least 17' --data.train=few.jsonl
check "a mistyped policy" refuse 78 'data.bad_lines: .*error.*skip' --data.train=all.jsonl --data.bad_lines=ignore
touch file
check "a cache that cannot be" refuse 73 'file' --data.train=all.jsonl --data.bad_lines=skip --data.cache_dir=file
check "... nor its folder" refuse 73 'file/no: Not a directory; tokens of texts .* data.cache_dir' \
    --data.train=all.jsonl --data.bad_lines=skip --data.cache_dir=file/no

# A run must not write over a file that it reads, by whichever name.
mkdir own && cp all.txt own/run.json
check "a shard in the place of an output" fails 73 'run.json' train --data.train='own/ru*' --train.output_dir=own
check "... which is as it was" cmp own/run.json all.txt
cp part-2.txt part-4.txt
check "a trace over a shard" fails 73 'would overwrite' train --train.output_dir=traced --trace part-4.txt
check "... which is as it was" cmp part-4.txt part-2.txt

# A folder whose own name looks like a pattern.
mkdir 'o[d]d' && cp part-1.txt 'o[d]d/odd-1.txt' && cp c.json 'o[d]d'
odd() (cd 'o[d]d' && "$ZR" train c.json --quiet --data.train='odd-*.txt' --data.val='odd-[1].txt' --train.output_dir=run)
check "patterns in an odd folder" odd
check "... are found from elsewhere" sh -c 'cd elsewhere && "$0" train "../o[d]d/run/config.json" --resume --train.steps=8' "$ZR"
check "... where they were" sh -c '[ -s err ] && ! grep "no longer exists where the run read it" err'
check "... and evaluated" "$ZR" eval 'o[d]d/run'

# A text through the files of a tokenizer.
make_tokenizer tok
cp -r tok other && sed -i 's/, "merges": \["l i", "n e"\]/, "merges": ["l i"]/' other/tokenizer.json
bpe() { train --data.tokenizer=tok --model.vocab_size=259 --data.train=part-1.txt --data.val=part-2.txt "$@"; }
check "a tokenizer's directory" bpe --train.output_dir=bpe
check "tokens of its own" "$ZR" tokenize --tokenizer tok part-1.txt --format nanogpt -o 1.bin
check "... and for its evaluation" "$ZR" tokenize --tokenizer tok part-2.txt --format nanogpt -o 2.bin
check "... to train on" bpe --data.train=1.bin --data.val=2.bin --train.output_dir=bpe2
check "... are the same" same bpe bpe2
check "... in its evaluation too" same_val bpe bpe2
check "on 2 ranks" bpe --ranks 2 --train.output_dir=bpe3
check "... the same tokens" both bpe bpe3
cp -r bpe half2 && rm -rf half2/step-00000006 half2/model half2/run.json && echo step-00000003 >half2/latest
check "from elsewhere it goes on" sh -c 'cd elsewhere && "$0" train ../half2/config.json --quiet --resume' "$ZR"
check "... to the bit" same half2 bpe
check "... is evaluated" sh -c 'cd elsewhere && "$0" eval ../bpe --json' "$ZR"
check "... with bits of its text" grep -q '"bits_per_byte":[0-9]' out
check "... and writes text" sh -c 'cd elsewhere && "$0" generate ../bpe --prompt line --tokens 5 --temperature 0' "$ZR"
check "not with another tokenizer's tokens" fails 65 'data.train: the file' "$ZR" train bpe/config.json --quiet --resume \
    --train.steps=8 --data.tokenizer=other
check "nor as bytes" fails 65 'data.t' "$ZR" train bpe/config.json --quiet --resume --train.steps=8 --data.tokenizer=bytes
check "a vocabulary below the tokenizer's" fails 78 'needs a vocab_size of at least 259, but it is 258' \
    bpe --model.vocab_size=258 --train.output_dir=none
check "no tokenizer's directory" fails 66 'elsewhere' bpe --data.tokenizer=elsewhere --train.output_dir=none
check "... leaves nothing" test ! -e none

# Data larger than what stays in memory is read by a thread, with the same results: the first samples of a text equal
# those of a longer one with the same beginning.
cp all.txt big.txt
while [ "$(wc -c <big.txt)" -lt 70000000 ]; do cat big.txt big.txt big.txt big.txt >more.txt && mv more.txt big.txt; done
in_order() { train --data.order=sequential --data.val=null --train.save_interval=0 "$@"; }
check "small data" in_order --data.train=all.txt --train.output_dir=small
check "large data" in_order --data.train=big.txt --train.output_dir=big
check "... is read as small data is" same small big
check "... in a batch of several parts" in_order --data.train=all.txt --gradient_accumulation_steps=2 --train.output_dir=small2
check "... too" in_order --data.train=big.txt --gradient_accumulation_steps=2 --train.output_dir=big2
check "... to the bit" same small2 big2
echo "1..$n"
