#TEST timeout=60
# `zr plan --html`: one page with the question, the answer, memory, a picture and what-ifs. Every number in it is one of
# --json, and it needs no other file.
. tests/support/command.inc

cat >look.py <<'END'
import html.parser, json, sys
class Page(html.parser.HTMLParser):
    void = {"meta", "br"}
    def __init__(self):
        super().__init__()
        self.open, self.numbers, self.classes, self.tags, self.texts, self.key = [], {}, [], set(), [], None
    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.add(tag)
        self.classes.append(attrs.get("class", ""))
        for name, value in attrs.items():
            assert name not in ("src", "href") and (name == "xmlns" or "//" not in (value or "")), (tag, name, value)
        if tag == "data":
            self.numbers.setdefault(attrs["data-key"], set()).add(float(attrs["value"]))
        if tag not in self.void:
            self.open.append(tag)
    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.getpos())
    def handle_data(self, text):
        self.texts.append(text)
def at(told, path):
    for name in path.split("."):
        told = told[int(name)] if isinstance(told, list) else told[name]
    return told
page, told = Page(), json.load(open(sys.argv[2]))
page.feed(open(sys.argv[1]).read())
page.close()
assert not page.open and "script" not in page.tags and "link" not in page.tags and "svg" in page.tags
for key, values in page.numbers.items():
    wanted = float(at(told, key))
    assert all(abs(value - wanted) <= 1e-8 * abs(wanted) for value in values), (key, values, wanted)
cells = [key for key in page.numbers if key.startswith("grid.") and key.endswith(".needs")]
assert len(cells) == len(told["grid"]) > 8, (len(cells), len(told["grid"]))
fits = [cell.get("fits") for cell in told["grid"]]
yes, no = (sum(name.split()[:1] == [word] for name in page.classes) for word in ("yes", "no"))
assert (yes, no) == (fits.count(True), fits.count(False)), (yes, no)
text = "".join(page.texts)
assert text.count("\u2713") == yes + (None not in fits) and text.count("\u2717") == no + (None not in fits)
assert sum("this" in name.split() for name in page.classes) == 1
for wanted in sys.argv[3:]:
    assert wanted in text, (wanted, text)
END
# page NAME OPTION...: plan, and write NAME and NAME.json
page() {
    name=$1
    shift
    "$ZR" plan --quiet --preset gpt2-350m --seq 1024 --batch 4 "$@" --html "$name" --json --advice >"$name.json"
}
check 'a plan of zr' page 'a&b.html' --ranks 4 --cluster 4xv100-16gb --stage 2
check 'is a page of its numbers' python3 look.py 'a&b.html' 'a&b.html.json' 'It fits.' 'are left' 'gpt2-350m' \
    "--html 'a&b.html'" 'tokens/s' 'time of a step' 'One step'
check 'with what-ifs that are plans of their own' sh -c '"$0" plan --quiet --preset gpt2-350m --seq 1024 --batch 8 --ranks 4 \
    --cluster 4xv100-16gb --stage 3 --activation_checkpointing.policy=unit --json --advice >one && python3 -c "
import json
one = json.load(open(\"one\"))
cell, = (c for c in json.load(open(\"a&b.html.json\"))[\"grid\"]
         if (c[\"stage\"], c[\"recompute\"], c[\"batch\"]) == (3, \"unit\", 8))
assert cell[\"needs\"] == one[\"needs\"] and cell[\"fits\"] == one[\"fits\"]
assert abs(cell[\"step_sec\"] / one[\"time\"][\"step_sec\"] - 1) < 1e-8"' "$ZR"
check 'a plan that does not fit' page small.html --ranks 2 --profile a10 --stage 0 --memory 4GB --activation_checkpointing.policy=none
check 'says by how much' python3 look.py small.html small.html.json 'It does not fit.' 'too much'
check 'a plan of another system' page other.html --ranks 4 --cluster 4xa10 --system fsdp2 --stage 3 \
    --with activation_checkpoint=selective
check 'has its parts beside those of zr' python3 look.py other.html other.html.json 'FSDP2' 'What fills the memory' \
    'nvidia-smi' 'gathered units' 'Not proved:' 'tokens/s'
check 'and the policies of the system' python3 -c "
import json
grid = json.load(open('other.html.json'))['grid']
assert {(c['stage'], c['recompute']) for c in grid} == {(s, r) for s in (2, 3) for r in ('none', 'selective', 'unit')}"
check 'without a device' page bare.html --ranks 2 --system ddp
check 'it is not known whether it fits' python3 look.py bare.html bare.html.json 'Whether that fits is not known'
check 'a given batch is divided' page split.html --ranks 2 --cluster 2xa10 --system ddp --train_batch_size=16
check 'into micro-batches' python3 -c "
import json
assert {(c['batch'], c['accumulation']) for c in json.load(open('split.html.json'))['grid']} == {(1, 8), (2, 4), (4, 2), (8, 1)}"
echo precious >kept.html
check 'another file is not overwritten' fails 73 kept page kept.html --ranks 1 --system ddp
check 'and is as it was' grep -q precious kept.html
check 'a page is written again' page other.html --ranks 2 --system ddp
echo "1..$n"
