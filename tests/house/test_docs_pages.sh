#TEST timeout=240 long=more
# Run the commands of the pages on fine-tuning, operations, tokenizers, parallelism, models and offload as they are written. Check what
# all pages name: each file and each link is there, and the table of presets is current.
. tests/house/docs.inc

# Texts with a WordPiece tokenizer, and ready rows, for an encoder.
make_weights
sed 's/"prompt".*/"text": "a book"}/' talks.jsonl >documents.jsonl
cp book.txt more.txt
mkdir wordpiece
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' line of a book , made for this test >wordpiece/vocab.txt
echo '{"do_lower_case": true}' >wordpiece/tokenizer_config.json
awk '{ print } NR % 5 == 0 { print "" }' book.txt >sentences.txt
python3 - <<'END_PYTHON'
import json, struct
rows = [[2] + [7 + i % 50 for i in range(127)] for _ in range(8)]
labels = [[9 if i % 8 == 7 else -100 for i in range(128)] for _ in range(8)]
part = [struct.pack("<1024i", *sum(part, [])) for part in (rows, labels)]
head = json.dumps({name: {"dtype": "I32", "shape": [8, 128], "data_offsets": [4096 * i, 4096 * (i + 1)]}
                   for i, name in enumerate(["input_ids", "labels"])}).encode()
open("rows.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + part[0] + part[1])
END_PYTHON
printf '%s\n' '{"model": {"n_layer": 1, "n_embd": 32, "n_head": 2}, "data": {"train": "book.txt", "val": "more.txt", "seq_length": 64}}' >config.json
check "a run" build/zr train config.json --train.steps=2 --train.output_dir=runs/first --quiet
follow finetuning <"$ZR_SOURCE/docs/finetuning.md"
follow operations <"$ZR_SOURCE/docs/operations.md"
follow tokenizers <"$ZR_SOURCE/docs/tokenizers.md"
follow parallel <"$ZR_SOURCE/docs/parallel.md"
follow models <"$ZR_SOURCE/docs/models.md"
cp "$ZR_SOURCE/docs/models.md" models.md
check "the table of presets is current" sh -c '"$0/scripts/presets" build/zr models.md && cmp models.md "$0/docs/models.md"' "$ZR_SOURCE"

sed 's|/local_nvme|.|' "$ZR_SOURCE/docs/offload.md" >lines
follow offload <lines

# Several runs at once without a given directory, each of which makes one.
rm -rf runs
check "a run without a directory that cannot start" code 66 "$ZR" train config.json --data.train=nope.txt
check "... leaves no directory" code 66 "$ZR" train config.json --data.train=nope.txt --ranks 2
check "... at all" test ! -e runs
for i in 1 2 3 4; do
    ("$ZR" train config.json --quiet --train.steps=1 2>>failed; echo $? >>codes) &
    pids="${pids-} $!"
done
wait $pids
check "four runs at once" test "$(sort -u codes)" = 0 -a ! -s failed
check "... have four directories" test "$(ls -d runs/gpt2-*/model | wc -l)" = 4
check "... that their configurations name" sh -c 'for d in runs/*; do grep -q "\"output_dir\": *\"$d\"" $d/config.json || exit 1; done'
if [ "$mpirun" ]; then
    check "two processes" $mpirun -n 2 "$ZR" train config.json --quiet --train.steps=1
    check "... have one directory" test "$(ls runs | wc -l)" = 5
fi

# No page has commands that no test runs.
grep -lE '^    (build/zr|zr|(mpirun|srun) .*\bzr) ' "$ZR_SOURCE"/*.md "$ZR_SOURCE"/docs/*.md | sed 's|.*/||; s/\.md$//' >with
check "the pages with commands are followed" sh -c '
    while read -r page; do grep -qE "(follow|page in).*\b$page\b" "$0"/tests/house/test_docs_*.sh || echo "$page"; done <with >missed
    cat missed; [ -s with ] && [ ! -s missed ]' "$ZR_SOURCE"

# Files that pages name exist: sources, and for built files their sources.
there() { # FOLDER NAME, which may be a pattern; a built program comes from any folder of tests or bench
    case $2 in build/*/*) of=${2#build/} && of=${of%%/*} && { there "$1" "$of/*/${2##*/}" || there "$1" "$of/*/*/${2##*/}"; }; return ;; esac
    for end in '' .c .h .cc; do
        for found in "$1"/$2$end; do [ ! -e "$found" ] || return 0; done
    done
    return 1
}
grep -ohE '(^|[ (`"])(src|tests|scripts|bench|examples|docs|include|build/bench|build/tests)/[A-Za-z0-9_./*-]*[A-Za-z0-9_*/]' \
    "$ZR_SOURCE"/*.md "$ZR_SOURCE"/docs/*.md | sed 's/^[ (`"]//' | grep -vE '_$|\.(json|svg)$|/gpu_test_|/zr_fault$|^src/(device|graph/ops|device/cpu/kernels)/$' |
    sort -u >names
check "there are names of files" test "$(wc -l <names)" -gt 50
while IFS= read -r name; do there "$ZR_SOURCE" "$name" || echo "$name"; done <names >missing
check "... each of which is there" sh -c 'cat missing; [ ! -s missing ]'

# links FOLDER: print the links between its pages whose page or heading is missing.
cat >links.py <<'END_PYTHON'
import pathlib, re, sys
root = pathlib.Path(sys.argv[1])
def anchors(page):
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    heads = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", head).lower() for head in re.findall(r"^#+ (.*)", text, re.M)]
    return {re.sub(r"[^\w\- ]", "", head).replace(" ", "-") for head in heads}
count = 0
for page in [*root.glob("*.md"), *root.glob("docs/*.md")]:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in link: continue
        name, _, anchor = link.partition("#")
        to = page.parent / name if name else page
        if not to.exists() or (anchor and anchor not in anchors(to)): print(f"{page.name}: {link}")
        count += 1
sys.exit(count < 20)
END_PYTHON
check "pages link to each other" sh -c 'python3 links.py "$0" >broken' "$ZR_SOURCE"
check "... and each link leads somewhere" sh -c 'cat broken; [ ! -s broken ]'
echo "1..$n"
