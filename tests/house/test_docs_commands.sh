#TEST timeout=240 long=more
# Run the commands of README and guide as they are written, one after the other, in a folder with a text.
. tests/house/docs.inc

make_weights
page=$ZR_SOURCE/README.md
awk '/^## Train/ { exit } { print }' "$page" >lines
follow "README's first screens" <lines
rm -rf runs config.json

awk '/^```json/ { on = 1; next } /^```/ { on = 0 } on' "$page" >whole.json
check "README has a configuration" test -s whole.json
check "... that plans as it is" "$ZR" plan whole.json --ranks 2
# A smaller model, which trains in less time.
sed 's/"n_layer": [0-9]*/"n_layer": 2/; s/"n_embd": [0-9]*/"n_embd": 64/; s/"warmup_num_steps": [0-9]*/"warmup_num_steps": 1/' whole.json >config.json
head -c 20000 book.txt >train.txt && tail -c 4000 book.txt >val.txt
awk '/^## Train/ { on = 1 } on' "$page" >lines
follow README <lines
rm -rf runs train.txt val.txt

follow guide <"$ZR_SOURCE/docs/guide.md"
echo "1..$n"
