#TEST timeout=60 build=tests/zr_fault
# Check zr tokenize: the same tokens in both formats and with any number of threads; refusals leave no file.
. tests/support/tokenizer.inc
. tests/support/command.inc

i=0
while [ $i -lt 60000 ]; do echo "line $i of a text,  made   for this test"; i=$((i + 1)); done >text.txt
printf 'abc' >a.txt
printf 'de' >b.txt
: >empty.txt
tokens() { od -An -v -t u2 -j "$1" "$2" | tr -s ' \n' ' '; }

check "bytes, nanoGPT's format" "$ZR" tokenize --tokenizer bytes a.txt b.txt --format nanogpt -o n.bin
check "... are the bytes" test "$(tokens 0 n.bin)" = " 97 98 99 100 101 "
check "bytes, llm.c's format" "$ZR" tokenize --tokenizer bytes a.txt empty.txt b.txt -o l.bin --json
check "... told as JSON" grep -q '"texts":3, "documents":2, "skipped_lines":0, "bytes":5, "tokens":5, "format":"llmc", "token_bytes":2}' out
check "... the same tokens" test "$(tokens 1024 l.bin)" = " 97 98 99 100 101 "
check "... behind llm.c's header" test "$(od -An -t d4 -N 12 l.bin | tr -s ' ')" = " 20240520 1 5"
check "no file is left beside" test ! -e l.bin.tmp

make_tokenizer tok
check "a tokenizer's directory" "$ZR" tokenize --tokenizer tok a.txt b.txt --eot -o e.bin
check "... with <|endoftext|> between texts" test "$(tokens 1024 e.bin)" = " 97 98 99 258 100 101 "
for threads in 1 2 5; do
    check "$threads threads" "$ZR" tokenize --tokenizer tok text.txt --format nanogpt -o t$threads.bin --threads $threads
done
check "two threads give the tokens of one" cmp t1.bin t2.bin
check "five threads too" cmp t1.bin t5.bin
check "text of several windows is whole" test "$(tokens 0 t1.bin | tr ' ' '\n' | grep -cx 256)" = 60000
check "an older file of tokens is overwritten" "$ZR" tokenize --tokenizer tok b.txt -o l.bin
check "... as a whole" test "$(tokens 1024 l.bin)" = " 100 101 "
# .jsonl: a document on each line.
printf '{"text": "ab"}\n\n{"text": "", "n": 1}\n{"text": "c\\u0064 <|endoftext|>"}\n' >d.jsonl
check "a .jsonl file" "$ZR" tokenize --tokenizer tok d.jsonl -o d.bin --json
check "... is its documents" grep -q '"texts":1, "documents":2, "skipped_lines":0, "bytes":18, "tokens":6,' out
check "... and no token of its own" test "$(tokens 1024 d.bin)" = " 97 98 99 100 32 258 "
check "<|endoftext|> stands between documents" "$ZR" tokenize --tokenizer tok a.txt d.jsonl b.txt d.jsonl empty.txt --eot -o d.bin
check "... of all files" test "$(tokens 1024 d.bin)" = \
    " 97 98 99 258 97 98 258 99 100 32 258 258 100 101 258 97 98 258 99 100 32 258 "
printf '[\n{"text": "ab"},\n{"text": "", "n": 1}, {"text": "c\\u0064 <|endoftext|>"}]' >d.json
"$ZR" tokenize --tokenizer tok d.jsonl --eot -o lines.bin >/dev/null 2>&1
check "an array of records" "$ZR" tokenize --tokenizer tok d.json --eot -o array.bin
check "... has the tokens of .jsonl" cmp array.bin lines.bin
check "... says how it is read" grep -q 'note: d.json: it is read as JSON records, an array' err
check "... or as one text" prints '"documents":1' "$ZR" tokenize --tokenizer tok d.json --as-text -o text.bin --json
printf 'b\ttext\n1\tx\n2\tz\n' >t.tsv
check "a table" "$ZR" tokenize --tokenizer bytes t.tsv -o table.bin
check "... has the tokens of its texts" test "$(tokens 1024 table.bin)" = " 120 122 "
cat >talk.jsonl <<'END'
{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a \"b\"\n"}]}
{"messages": [{"role": "user", "content": "r"}, {"role": "assistant", "content": "c"}]}
END
show() { XDG_CACHE_HOME=cache "$ZR" tokenize --tokenizer bytes talk.jsonl --chat-template mistral --show "$@"; }
cat >wanted <<'END'
record 1: 29 tokens, of which 10 count (+)
  "<s>[INST] q [/INST]"
+ "a \"b\"\n</s>"
record 2: 24 tokens, of which 5 count (+)
  "<s>[INST] r [/INST]"
+ "c</s>"
END
check "records are shown, with what counts" show 3
check "... of them" cmp out wanted
check "... and their form" grep -q 'note: talk.jsonl: 2 records of messages' err
check "... as JSON" prints '{"record":1, "ids":\[60,115,.*"counts":\[0,.*0,1,1,1,1,1,1,1,1,1,1\]}' show 1 --json
check "... with another choice" prints 'of which 28 count' show 1 --loss-on all
check "... by other names" fails 65 '"body" is missing; expected a text' show 1 --columns '{"text": "body"}'
check "... without a file" fails 2 'writes no file' "$ZR" tokenize --tokenizer bytes talk.jsonl --show 1 -o x.bin
check "... not of a text" fails 69 'talk.jsonl (text): records are needed' show 1 --as-text
check "... its options need it" fails 2 'need --show N' "$ZR" tokenize --tokenizer bytes talk.jsonl -o x.bin --loss-on all
printf '{"text": "x"}\n{"body": "y"}\n[]\n{"text": "z"}\n' >bad.jsonl
check "a bad line" code 65 "$ZR" tokenize --tokenizer bytes bad.jsonl -o x.bin
check "... is named, and what to do" grep -q 'bad.jsonl:2: "text" is missing.*--text-key.*--bad-lines skip' err
check "... or left out" "$ZR" tokenize --tokenizer bytes bad.jsonl --bad-lines skip -o d.bin
check "... which is told" grep -q 'note: 2 bad lines left out; the first is bad.jsonl:2' err
check "... with the others' tokens" test "$(tokens 1024 d.bin)" = " 120 122 "
check "... of several files, all of them" sh -c "$ZR tokenize --tokenizer bytes d.jsonl bad.jsonl bad.jsonl --bad-lines skip -o d.bin 2>&1 |
    grep -q 'note: 4 bad lines left out; the first is bad.jsonl:2'"
check "the text has another name" "$ZR" tokenize --tokenizer bytes bad.jsonl --bad-lines skip --text-key body -o d.bin
check "... which is read" test "$(tokens 1024 d.bin)" = " 121 "
check "a policy of no kind" code 2 "$ZR" tokenize --tokenizer bytes bad.jsonl --bad-lines maybe -o x.bin
awk '{ gsub(/ /, " a\\n"); printf "{\"text\": \"%s %d\"}\n", $0, NR }' text.txt >many.jsonl
for threads in 1 2 5; do
    check "$threads threads on lines" "$ZR" tokenize --tokenizer tok many.jsonl --eot -o m$threads.bin --threads $threads
done
check "two threads give the tokens of one" cmp m1.bin m2.bin
check "five threads too" cmp m1.bin m5.bin
check "... with all documents" test "$(tokens 1024 m1.bin | tr ' ' '\n' | grep -cx 258)" = 59999
cat >j.json <<'END'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16, "vocab_size": 259},
 "data": {"train": "many.jsonl", "tokenizer": "tok", "cache_dir": "tokens"}, "train_micro_batch_size_per_gpu": 2,
 "train": {"steps": 1, "output_dir": "of-lines"}}
END
check "training makes the same tokens" "$ZR" train j.json --quiet
tail -c +1025 m1.bin >wanted
tail -c +81 tokens/*.tokens | head -c "$(wc -c <wanted)" >got # an index of the documents follows
check "... in the same order" cmp wanted got

# The tokens with the tokenizer of a configuration.
sed 's/, "vocab_size": 259//; s/"of-lines"/"sized"/' j.json >sized.json
check "without a size the vocabulary is the tokenizer's" "$ZR" train sized.json --quiet
check "... as the run says" grep -q '"vocab_size": 259' sized/config.json
check "... and so does a plan" sh -c '"$0" plan sized.json --json >planned && \
    "$0" plan j.json --json | cmp - planned' "$ZR"
check "a larger one is taken" "$ZR" train sized.json --quiet --model.vocab_size=300 --train.output_dir=larger
check "a smaller one is refused" code 78 "$ZR" train sized.json --quiet --model.vocab_size=258 --train.output_dir=x
check "... with both" grep -q 'tok" needs a vocab_size of at least 259, but it is 258' err
check "no tokenizer, no size" code 66 "$ZR" plan sized.json --data.tokenizer=nowhere
check "... which says why" grep -q 'data.tokenizer: .*nowhere.*model.vocab_size' err
check "a plan of a given size needs none" "$ZR" plan j.json --data.tokenizer=nowhere
check "an output is no file of the tokenizer" code 73 "$ZR" train j.json --quiet --train.output_dir=traced \
    --trace tok/tokenizer.json
check "... which is said" grep -q 'would overwrite an input: it is in the directory tok' err

# The path of the tokens is relative to the folder where the run was started, also in later commands.
sed 's/"tokens"/"mine\/tokens"/; s/"of-lines"/"runs\/home"/; s/"many.jsonl"/"d.jsonl", "val": "d.jsonl"/
    s/"n_positions": 16/"n_positions": 4/' j.json >home.json
check "a relative folder of tokens" "$ZR" train home.json --quiet --train.save_interval=1
check "... is where the run is started" sh -c 'ls mine/tokens/*.tokens'
mkdir away moved
rm -r mine
check "... also for zr eval from elsewhere" sh -c 'cd away && "$0" eval ../runs/home' "$ZR"
check "... which makes it anew" sh -c 'ls mine/tokens/*.tokens && test ! -e away/mine'
cp -r runs d.jsonl tok moved
sed -i 's|"started_in": "[^"]*"|"started_in": "/nowhere/at all"|' moved/runs/home/config.json
check "where that place is gone, it is beside what moved" sh -c 'cd away && "$0" eval ../moved/runs/home && \
    ls ../moved/mine/tokens/*.tokens && test ! -e mine' "$ZR"
rm -r mine
check "... and for a run that goes on" sh -c 'cd away && "$0" train ../runs/home/config.json --quiet --train.steps=2 \
    --resume --train.output_dir=../runs/home' "$ZR"
check "... in the same place" sh -c 'ls mine/tokens/*.tokens && test ! -e away/mine'
cp -r runs d.jsonl tok away
sed -i 's|"cache_dir": "[^"]*"|"cache_dir": "/nowhere/at all/tokens"|' away/runs/home/config.json
check "a folder that is gone is not made again where a run was moved" sh -c 'cd away && XDG_CACHE_HOME=$PWD/own "$0" eval runs/home &&
    ls own/zr/tokens/*.tokens && test ! -e /nowhere' "$ZR"
check "a folder typed there is from there" sh -c 'cd away && "$0" train ../runs/home/config.json --quiet \
    --train.output_dir=on --data.cache_dir=own && ls own/*.tokens' "$ZR"

cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16, "vocab_size": 259},
 "data": {"train": "e2.bin"}, "train_micro_batch_size_per_gpu": 2, "train": {"steps": 1, "output_dir": "run"}}
END
head -c 4000 text.txt >short.txt
check "tokens to train on" "$ZR" tokenize --tokenizer tok short.txt -o e2.bin
check "... are trained on" "$ZR" train c.json --quiet

check "a model of tokens has no text" code 69 "$ZR" generate run --prompt line
check "... and says what is missing" grep -q 'put its tokenizer.json' err
mkdir named && cp -R run named && sed -i 's/"tokenizer": null/"tokenizer": "tok"/' named/run/config.json
check "the tokenizer that a run names is found from anywhere" sh -c 'cd / && "$0" generate "$1/named/run" --prompt line \
    --tokens 20 --temperature 0' "$ZR" "$PWD"
mv out named/out
cp tok/tokenizer.json run/model
check "with its tokenizer's files it has" "$ZR" generate run --prompt "line" --tokens 20 --temperature 0
check "... the same" cmp out named/out
check "... and what stands in model/ is read alone" sh -c '"$0" generate run/model --prompt "line" --tokens 20 \
    --temperature 0 >alone && cmp alone out' "$ZR"
check "without a prompt" "$ZR" generate run --tokens 3

# Learning: "the" and " the" occur most often.
i=0
while [ $i -lt 300 ]; do echo "the cat and the dog and the hen $i"; i=$((i + 1)); done >learn.txt
check "a tokenizer is learned" "$ZR" tokenize --train 300 learn.txt a.txt -o learned/
check "... with the tokens asked for" sh -c 'grep -q "learned/: a tokenizer with a vocabulary of 300 tokens" err && grep -q "<|endoftext|>\": 299" learned/tokenizer.json'
check "... whole" test -s learned/tokenizer_config.json -a ! -e learned.tmp
check "... and its hash is told" sh -c '"$0" tokenize --train 300 learn.txt a.txt -o again --json >learned.json && \
    grep -q "\"hash\":\"[0-9a-f]\{16\}\", \"vocab\":300, \"texts\":2, " learned.json' "$ZR"
check "... the same files each time" cmp learned/tokenizer.json again/tokenizer.json
check "... takes text" "$ZR" tokenize --tokenizer learned learn.txt a.txt --eot -o learn.bin --json
check "... in fewer tokens than bytes" sh -c 'test $(wc -c <learn.bin) -lt $(wc -c <learn.txt)'
mkdir empty
check "an empty directory is taken" "$ZR" tokenize --train 257 learn.txt -o empty
check "... once" code 73 "$ZR" tokenize --train 257 learn.txt -o empty
check "a file is none" code 73 "$ZR" tokenize --train 257 learn.txt -o a.txt
check "fewer pairs than asked for" "$ZR" tokenize --train 100000 a.txt -o small
check "... are told" grep -q '259 tokens.*no more pairs' err
check "fewer tokens than bytes" code 2 "$ZR" tokenize --train 256 learn.txt -o x
check "... are named" grep -q -- '--train.*257' err
check "learning takes no tokenizer" code 2 "$ZR" tokenize --train 300 --tokenizer tok learn.txt -o x
check "... and no format" code 2 "$ZR" tokenize --train 300 --format llmc learn.txt -o x
sed 's/.*/{"title": "zz zz", "text": "&\\n"}/' learn.txt >learn.jsonl
check "learning reads documents" "$ZR" tokenize --train 300 learn.jsonl -o of-lines-learned --json
check "... and nothing of what stands around them" grep -q '"documents":300, "skipped_lines":0, "bytes":'$(wc -c <learn.txt)'}' out
"$ZR" tokenize --train 300 learn.txt -o of-text-learned --quiet
check "... the tokens of their text" cmp of-lines-learned/tokenizer.json of-text-learned/tokenizer.json
check "... but a text that is there" code 66 "$ZR" tokenize --train 300 learn.txt nope.txt -o x
check "learning on a full disk" env ZR_FAULT=write:1 sh -c '"$1" tokenize --train 300 a.txt -o x; test $? = 74' - "$FAULTY"
check "what is not learned leaves nothing" test ! -e x -a ! -e x.tmp

# A run on bytes leaves a tokenizer of bytes with its model.
head -c 5000 learn.txt >bytes.txt
cat >b.json <<'END'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16},
 "data": {"train": "bytes.txt"}, "train_micro_batch_size_per_gpu": 2, "train": {"steps": 1, "output_dir": "of-bytes"}}
END
check "a run on bytes" "$ZR" train b.json --quiet
check "... leaves a tokenizer" test -s of-bytes/model/tokenizer.json -a -s of-bytes/model/tokenizer_config.json
check "... that gives bytes" "$ZR" tokenize --tokenizer of-bytes/model a.txt -o of-bytes.bin
check "... by their values" test "$(tokens 1024 of-bytes.bin)" = " 97 98 99 "
"$ZR" generate of-bytes --prompt the --tokens 20 --seed 1 >by-name
check "... and model/ alone writes the same text" sh -c '"$0" generate of-bytes/model --prompt the --tokens 20 --seed 1 | \
    cmp - by-name' "$ZR"

sed 's/"bytes.txt"/"bytes.txt", "tokenizer": "learned", "cache_dir": "cache"/; s/of-bytes/of-text/
    s/"n_positions"/"vocab_size": 300, "n_positions"/' b.json >t.json
check "a run on text by a tokenizer" "$ZR" train t.json --quiet --ranks 2 --train_batch_size=4
check "... leaves its files" cmp learned/tokenizer.json of-text/model/tokenizer.json
check "... both" cmp learned/tokenizer_config.json of-text/model/tokenizer_config.json
check "... and what goes on" "$ZR" train t.json --quiet --train.output_dir=on --train.steps=1 --train.save_interval=1
check "... replaces them" "$ZR" train t.json --quiet --train.output_dir=on --train.steps=2 --train.save_interval=1 --resume
check "... and leaves nothing old" sh -c 'cmp learned/tokenizer.json on/model/tokenizer.json && test ! -e on/model.old'
mv learned away
check "without the directory the run has its text" "$ZR" generate of-text --prompt the --tokens 3

# Tokenizers of other models: documents begin with the token of post_processor, and are separated by eos_token.
mkdir llama tekken
cp "$ZR_SOURCE/tests/tokenizers/llama2.json" llama/tokenizer.json
cp "$ZR_SOURCE/tests/tokenizers/tekken_own.json" tekken/tekken.json
printf '\n' >line.txt
check "a text begins with the token of the template" "$ZR" tokenize --tokenizer llama line.txt -o line.bin
check "... then come a space and a line end" sh -c '[ "$1" = " 1 $2 13 " ]' - "$(tokens 1024 line.bin)" \
    "$(grep -o '"\\u2581":[0-9]*' llama/tokenizer.json | tail -n 1 | cut -d: -f2)"
check "no token ends a text" code 65 "$ZR" tokenize --tokenizer llama line.txt line.txt --eot -o two.bin
check "... and the message says what would" grep -q 'no tokenizer_config.json with an eos_token' err
echo '{"eos_token": {"content": "</s>"}}' >llama/tokenizer_config.json
check "a configuration names it" "$ZR" tokenize --tokenizer llama line.txt line.txt --eot -o two.bin
check "... and it separates texts" test "$(tokens 1024 two.bin | tr ' ' '\n' | grep -cx '[12]')" = 3
i=0
while [ $i -lt 300 ]; do printf '{"text": "the %d ее"}\n' $i; i=$((i + 1)); done >some.jsonl
check "lines are documents" "$ZR" tokenize --tokenizer llama some.jsonl --eot -o some.bin
check "... which all begin" test "$(tokens 1024 some.bin | tr ' ' '\n' | grep -cx 1)" = 300
check "... and are separated" test "$(tokens 1024 some.bin | tr ' ' '\n' | grep -cx 2)" = 299
i=0
while [ $i -lt 30000 ]; do echo "the cat's 日本 $i"; i=$((i + 1)); done >long.txt
for kind in llama tekken; do
    check "$kind: one thread" "$ZR" tokenize --tokenizer $kind long.txt -o one.bin --threads 1
    check "... and four give the same" "$ZR" tokenize --tokenizer $kind long.txt -o four.bin --threads 4
    check "... tokens" cmp one.bin four.bin
    check "... of which one is the first of a text" test "$(tokens 1024 four.bin | tr ' ' '\n' | grep -cx 1)" = 1
    sed "s/\"tok\"/\"$kind\"/; s/, \"vocab_size\": 259//; s/of-lines/of-$kind/; s/many.jsonl/some.jsonl/" j.json >$kind.json
    check "training takes it" "$ZR" train $kind.json --quiet
    check "... and writes text" "$ZR" generate of-$kind --prompt "the" --tokens 5
    check "... also without a prompt" "$ZR" generate of-$kind/model --tokens 5
    check "a smaller vocabulary is refused" code 78 "$ZR" train $kind.json --quiet --model.vocab_size=200 --train.output_dir=x
    check "... with what to do" grep -q 'its token ids go up to [0-9]*; give model.vocab_size [0-9]* or more' err
done
check "the run has the tokenizer's files" cmp tekken/tekken.json of-tekken/model/tekken.json
mkdir spm && echo x >spm/tokenizer.model
check "a SentencePiece model is not read" code 66 "$ZR" tokenize --tokenizer spm a.txt -o x.bin
check "... and the message says what makes a tokenizer.json" grep -q 'transformers.*save_pretrained' err

check "no tokenizer" code 2 "$ZR" tokenize a.txt -o x.bin
check "no text" code 2 "$ZR" tokenize --tokenizer bytes -o x.bin
check "no output" code 2 "$ZR" tokenize --tokenizer bytes a.txt
check "a format of no kind" code 2 "$ZR" tokenize --tokenizer bytes a.txt --format gz -o x.bin
check "nanoGPT's file is called .bin" code 2 "$ZR" tokenize --tokenizer bytes a.txt --format nanogpt -o x
check "no such tokenizer" code 66 "$ZR" tokenize --tokenizer nope a.txt -o x.bin
check "no such text" code 66 "$ZR" tokenize --tokenizer bytes a.txt nope.txt -o x.bin
check "no <|endoftext|> in bytes" code 65 "$ZR" tokenize --tokenizer bytes a.txt --eot -o x.bin
check "the text is not overwritten" code 73 "$ZR" tokenize --tokenizer bytes a.txt -o a.txt
check "nor the tokenizer" code 73 "$ZR" tokenize --tokenizer tok a.txt -o tok/tokenizer.json
check "nor another file" code 73 "$ZR" tokenize --tokenizer bytes a.txt -o b.txt
cp a.txt i.bin.tmp
check "a text is not taken for a file that is unfinished" code 73 "$ZR" tokenize --tokenizer bytes i.bin.tmp -o i.bin
check "... and says so" grep -q 'temporary file i.bin.tmp would overwrite an input' err
check "... it is as it was" cmp a.txt i.bin.tmp
check "nor is what another command writes touched" code 73 "$ZR" tokenize --tokenizer bytes b.txt -o i.bin
check "... and says what to do" grep -q 'is creating it, or was interrupted: then remove it' err
check "... it is as it was" cmp a.txt i.bin.tmp
nanogpt() { "$ZR" tokenize --tokenizer bytes "$@" --format nanogpt; }
cp a.txt odd.bin
cp l.bin header.bin
printf 'PK\003\004weights.' >zip.bin
for file in odd header zip; do
    cp $file.bin was
    check "nanoGPT's format overwrites no $file.bin" code 73 nanogpt a.txt -o $file.bin
    check "... and says so" grep -q "$file.bin exists and is not a token file of the format nanogpt" err
    check "... it is as it was" cmp was $file.bin
done
printf 'x' >one.txt
check "one token without a header" nanogpt one.txt -o n.bin
check "... is overwritten" nanogpt a.txt -o n.bin
check "... so are more" nanogpt b.txt -o n.bin
gzip -c text.txt >text.gz
check "a compressed text" "$ZR" tokenize --tokenizer bytes text.gz -o packed.bin
check "... has the tokens of the text" sh -c '"$0" tokenize --tokenizer bytes text.txt -o plain.bin && cmp packed.bin plain.bin' "$ZR"
head -c 1000 /dev/zero >zeros
check "what is no text is refused" code 65 "$ZR" tokenize --tokenizer bytes zeros -o x.bin
check "tokens are no text" code 65 "$ZR" tokenize --tokenizer bytes l.bin -o x.bin
check "... and it says which" grep -q 'l.bin: by its name or its beginning this is a file of tokens' err
printf 'caf\351 au lait' >latin.txt
check "what is odd about a text is told" "$ZR" tokenize --tokenizer bytes a.txt latin.txt -o latin.bin
check "... by file and byte" grep -q 'note: latin.txt: byte 3 is not UTF-8; its bytes are used unchanged' err
check "... also where a tokenizer is learned" "$ZR" tokenize --train 257 a.txt latin.txt -o of-latin
check "... by file and byte as well" grep -q 'note: latin.txt: byte 3 is not UTF-8' err
check "no such folder" code 73 "$ZR" tokenize --tokenizer bytes a.txt -o none/x.bin
check "a full disk" env ZR_FAULT=write:1 sh -c '"$1" tokenize --tokenizer bytes a.txt -o x.bin; test $? = 74' - "$FAULTY"
check "what is refused leaves nothing" test ! -e x.bin -a ! -e x.bin.tmp -a ! -e x
echo '{"model": {"type": "Unigram"}}' >tok/tokenizer.json
check "another kind of tokenizer" code 65 "$ZR" tokenize --tokenizer tok a.txt -o x.bin
check "... is named" grep -q 'tok/tokenizer.json: model is of type "Unigram"' err
echo "1..$n"
