#TEST timeout=60
# zr tokenize: the same tokens in both formats and with any number of threads; what is refused leaves nothing behind.
. tests/command.inc

i=0
while [ $i -lt 60000 ]; do echo "line $i of a text,  made   for this test"; i=$((i + 1)); done >text.txt
printf 'abc' >a.txt
printf 'de' >b.txt
: >empty.txt
tokens() { od -An -v -t u2 -j "$1" "$2" | tr -s ' \n' ' '; }

check "bytes, nanoGPT's format" "$ZR" tokenize --tokenizer bytes a.txt b.txt --format nanogpt -o n.bin
check "... are the bytes" test "$(tokens 0 n.bin)" = " 97 98 99 100 101 "
check "bytes, llm.c's format" "$ZR" tokenize --tokenizer bytes a.txt empty.txt b.txt -o l.bin --json
check "... told as JSON" grep -q '"texts":3, "bytes":5, "tokens":5, "format":"llmc", "token_bytes":2}' out
check "... the same tokens" test "$(tokens 1024 l.bin)" = " 97 98 99 100 101 "
check "... behind llm.c's header" test "$(od -An -t d4 -N 12 l.bin | tr -s ' ')" = " 20240520 1 5"
check "no file is left beside" test ! -e l.bin.tmp

# A vocabulary of the 256 bytes, two merges and <|endoftext|>.
mkdir tok
LC_ALL=C awk 'BEGIN {
    printf "{\"model\": {\"type\": \"BPE\", \"vocab\": {"; others = 256
    for (b = 0; b < 256; b++) {
        c = (b >= 33 && b <= 126) || (b >= 161 && b != 173) ? b : others++
        s = c < 128 ? sprintf("%c", c) : sprintf("\\u%04x", c)
        printf "%s\"%s%s\": %d", b ? ", " : "", c == 34 || c == 92 ? "\\" : "", s, b
    }
    print ", \"li\": 256, \"ne\": 257}, \"merges\": [\"l i\", \"n e\"]},"
    print "\"added_tokens\": [{\"id\": 258, \"content\": \"<|endoftext|>\"}],"
    print "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}}"
}' >tok/tokenizer.json
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
cat >c.json <<'END'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16, "vocab_size": 259},
 "data": {"train": "e2.bin"}, "train_micro_batch_size_per_gpu": 2, "train": {"steps": 1, "output_dir": "run"}}
END
head -c 4000 text.txt >short.txt
check "tokens to train on" "$ZR" tokenize --tokenizer tok short.txt -o e2.bin
check "... are trained on" "$ZR" train c.json --quiet

check "a model of tokens has no text" code 69 "$ZR" generate run --prompt line
check "... and says what is missing" grep -q 'put its tokenizer.json' err
cp tok/tokenizer.json run/model
check "with its tokenizer's files it has" "$ZR" generate run --prompt "line" --tokens 20 --temperature 0
check "... and what stands in model/ is read alone" sh -c '"$0" generate run/model --prompt "line" --tokens 20 \
    --temperature 0 >alone && cmp alone out' "$ZR"
check "without a prompt" "$ZR" generate run --tokens 3

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
check "no such folder" code 73 "$ZR" tokenize --tokenizer bytes a.txt -o none/x.bin
check "a full disk" env ZR_FAULT=write:1 sh -c '"$1" tokenize --tokenizer bytes a.txt -o x.bin; test $? = 74' - "$ZR"
check "what is refused leaves nothing" test ! -e x.bin -a ! -e x.bin.tmp -a ! -e x
echo '{"model": {"type": "Unigram"}}' >tok/tokenizer.json
check "another kind of tokenizer" code 69 "$ZR" tokenize --tokenizer tok a.txt -o x.bin
check "... is named" grep -q 'tok/tokenizer.json: model is of type "Unigram"' err
echo "1..$n"
