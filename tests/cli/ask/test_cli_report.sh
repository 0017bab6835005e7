#TEST timeout=120
# Check `zr report`: the values on the page are those of metrics.jsonl and run.json, read back from its data and its
# curves; it says what is partial or damaged; nothing of a file is interpreted as HTML.
. tests/support/command.inc

i=0
while [ $i -lt 200 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END_CONFIG'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 16},
 "data": {"train": "text.txt", "val": "text.txt"}, "train_micro_batch_size_per_gpu": 2,
 "zero_optimization": {"stage": 3}, "gradient_clipping": 1.0,
 "train": {"steps": 30, "eval_interval": 10, "eval_batches": 1, "output_dir": "runs/a"}}
END_CONFIG
train() { "$ZR" train c.json --quiet --ranks 2 "$@"; }
check "a run" train --timings --train.save_interval=30
check "... and another" train --train.output_dir=runs/b --optimizer.params.lr=0.01 --zero_optimization.stage=1

check "a report of one" prints 'Last training loss' "$ZR" report runs/a
check "... in its directory" grep -q '</html>' runs/a/report.html
check "... again, over the older one" "$ZR" report --quiet runs/a
check "... the run is resumed as before" train --resume --train.steps=31
check "... whose end the report has" sh -c "$ZR report --quiet runs/a && grep -q '31 of 31' runs/a/report.html"
check "of two" "$ZR" report --quiet runs/a runs/b
check "... stands here" test -s report.html
check "... says what differs" sh -c "grep -q 'optimizer.params.lr' report.html && grep -q 'zero_optimization.stage' report.html"
check "... and nothing else" sh -c "! grep -q '<td>train.seed' report.html && ! grep -q '<td>train.output_dir' report.html"
check "nothing comes from elsewhere, nothing is run" sh -c "! grep -Eiq '<script|<link|<img|@import|url\(|(src|href)=' report.html"

cat >figures.py <<'END_PYTHON'
import html.parser, json, math, re, sys
class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.data, self.figures, self.now = [], {}, None
    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        if tag == "data": self.data.append((a["data-key"], float(a["value"])))
        if tag == "figure":
            self.now = a
            self.figures[a["data-quantity"]] = (a, [])
        if tag == "figcaption": self.now, self.later = None, self.now
        if tag == "path" and a.get("stroke-linejoin") and self.now:
            self.figures[self.now["data-quantity"]][1].append(a["d"])
    def handle_endtag(self, tag):
        if tag == "figure": self.now = None
        if tag == "figcaption": self.now = self.later
def points(figure, d):
    f = {k[5:]: float(v) for k, v in figure.items() if k != "data-quantity"}
    for x, y in re.findall(r"[ML](-?[0-9.]+) (-?[0-9.]+)", d):
        step = f["x0"] + (float(x) - f["left"]) / f["width"] * (f["x1"] - f["x0"])
        part = 1 - (float(y) - f["top"]) / f["height"]
        value = f["y0"] * (f["y1"] / f["y0"]) ** part if f["log"] else f["y0"] + part * (f["y1"] - f["y0"])
        yield step, value, (f["y1"] - f["y0"]) / f["height"]
run, page = sys.argv[1], Page()
page.feed(open(sys.argv[2], encoding="utf-8").read())
lines = [json.loads(line) for line in open(run + "/metrics.jsonl")]
document, data = json.load(open(run + "/run.json")), dict(page.data)
wanted = 0
for part in ("planned", "measured"):
    def walk(value, path):
        global wanted
        for key, inner in value.items():
            if isinstance(inner, dict): walk(inner, path + "." + key)
            elif ".spaces.device" not in path and inner > 0:
                wanted += 1
                assert data[path + "." + key] == inner, (path, key, inner)
    for of in ("memory", "traffic"): walk(document[part][of], part + "." + of)
assert wanted > 20, wanted
mean = lambda key: sum(l[key] for l in lines if key in l) / sum(key in l for l in lines)
for key, value in (("step_ms", mean("step_ms")), ("tokens_per_sec", mean("tokens_per_sec")),
                   ("loss", [l["loss"] for l in lines if "loss" in l][-1]),
                   ("val_loss", min(l["val_loss"] for l in lines if "val_loss" in l)),
                   ("params", document["params"]), ("ranks", document["ranks"]), ("wall_sec", document["wall_sec"])):
    assert math.isclose(data[key], value, rel_tol=1e-9), (key, data[key], value)
for name in ("loss", "grad_norm", "lr", "tokens_per_sec", "step_ms"):
    figure, paths = page.figures[name]
    for key, d in zip((name, "val_loss"), paths):
        told = [(l["step"], l[key]) for l in lines if key in l]
        drawn = list(points(figure, d))
        assert len(drawn) == len(told) > 2, (key, len(drawn), len(told))
        for (step, value), (x, y, pixel) in zip(told, drawn):
            assert abs(x - step) < 0.1 and abs(y - value) <= 0.02 * pixel + 1e-6 * abs(value), (key, step, value, x, y)
assert len(page.figures["loss"][1]) == 2
END_PYTHON
cat >document.py <<'END_PYTHON'
import json, sys
d = json.load(open(sys.argv[1]))
lines = [json.loads(line) for line in open("runs/a/metrics.jsonl")]
run = d["runs"][0]
assert [(p[0], p[1]) for p in run["curves"]["grad_norm"]["points"]] == [(l["step"], l["grad_norm"]) for l in lines if "loss" in l]
assert run["measured"] == json.load(open("runs/a/run.json"))["measured"]
assert d["different"]["zero_optimization.stage"] == [3, 1] and len(d["runs"]) == 2
END_PYTHON
if command -v python3 >/dev/null; then
    check "the page's figures and curves are the files'" python3 figures.py runs/a runs/a/report.html
    "$ZR" report runs/a runs/b --quiet --json -o two.html >two.json
    check "those of --json as well" python3 document.py two.json
else
    skip "the page's figures" "no python3"
fi

# Partial and damaged runs.
part() { mkdir -p "$1" && cp runs/a/config.json "$1/"; }
part stopped && head -12 runs/a/metrics.jsonl >stopped/metrics.jsonl
check "a run that has not ended" prints 'no run.json' "$ZR" report stopped
: >stopped/lock
check "... and may go on" prints 'still training' "$ZR" report stopped
check "... of that, without an evaluation" sh -c "grep -v val_loss runs/a/metrics.jsonl >stopped/metrics.jsonl; $ZR report stopped >text && ! grep -q validation text"
(head -5 runs/a/metrics.jsonl; echo 'what is this'; printf '{"step":6, "lo') >stopped/metrics.jsonl
check "a line cut in the middle" prints 'last line is not whole' "$ZR" report stopped
check "... whole but for its newline" sh -c "head -3 runs/a/metrics.jsonl | head -c -1 >stopped/metrics.jsonl &&
    $ZR report stopped >text && ! grep -q 'not whole' text"
(head -5 runs/a/metrics.jsonl; echo 'what is this'; printf '{"step":6, "lo') >stopped/metrics.jsonl
check "... one that is none" prints '1 line left out' "$ZR" report stopped
part none
check "no step" prints 'no step has ended' "$ZR" report none
part nan && echo '{"step":1, "loss":null, "grad_norm":null, "lr":0, "skipped":1}' >nan/metrics.jsonl
check "no finite loss" prints 'no training loss is finite' "$ZR" report nan
check "... no number that is none in the picture" sh -c "! grep -Eiq '[\"MLhv](-?nan|-?inf)\b' nan/report.html"
echo '{"planned": {"mem' >nan/run.json
check "a damaged run.json" prints 'run.json cannot be read' "$ZR" report nan
echo '{"params": "x", "planned": {"memory": {"total": "a", "param": 7}}, "timings": {"kinds": [1, {"kind": 3}]}}' >nan/run.json
check "one that says other things" "$ZR" report --quiet nan
echo '[1]' >nan/config.json
check "a configuration that is none" prints 'not an object' "$ZR" report nan
mkdir -p 'odd <b>&"' && cp runs/a/metrics.jsonl 'odd <b>&"/'
cat >'odd <b>&"/config.json' <<'END_CONFIG'
{"optimizer": {"type": "<script>alert(1)</script>"}, "<i>": "</pre><u>"}
END_CONFIG
check "marks in names and values" "$ZR" report --quiet 'odd <b>&"' runs/b -o odd.html
check "... are letters on the page" sh -c "! grep -Eq '<b>&|<script|<i>|<u>' odd.html && grep -q 'odd &#60;b&#62;&#38;&#34;' odd.html && grep -q '&#60;script' odd.html"
odd=$(printf 'odd\377')
mkdir -p "$odd" && cp runs/a/metrics.jsonl "$odd/"
check "a name that is not UTF-8, as JSON" prints '"run":"odd' "$ZR" report --quiet --json "$odd"
check "all of them together" "$ZR" report --quiet runs/a stopped none nan -o many.html

echo '<!doctype html><p>mine' >mine.html
check "a page of someone else's is kept" fails 73 'not the expected kind of file (report)' "$ZR" report runs/a -o mine.html
check "what the run reads is kept" fails 73 'would overwrite' "$ZR" report runs/a -o runs/a/run.json
mkdir nothing conf hub foreign
"$ZR" init conf/config.json --quiet
check "a configuration alone is no run" fails 66 'conf is not the directory of a run.*`zr train conf/config.json` makes a run' "$ZR" report conf
check "... nor is a model" sh -c 'echo "{\"model_type\": \"gpt2\"}" >hub/config.json; "$0" report hub 2>message; test $? = 66 && grep -q "hub is not the directory of a run" message' "$ZR"
check "... nor a folder of runs, which names them" fails 66 'the folders in it are: runs/\*' "$ZR" report runs
check "... nor metrics of something else" sh -c 'echo "{\"event\": \"x\"}" >foreign/metrics.jsonl; "$0" report foreign 2>message; test $? = 65 && grep -q "foreign is not .*line 1 of its metrics.jsonl holds no metrics" message' "$ZR"
check "... and they get no page" sh -c '! ls conf hub runs foreign | grep -q report.html'
check "zr plot says so too" fails 66 'conf is not the directory of a run.*`zr train conf/config.json` makes a run' "$ZR" plot conf -o x.svg
check "a directory of something else" fails 66 'not the directory of a run' "$ZR" report nothing
check "a missing one" fails 66 'nowhere' "$ZR" report nowhere
check "no run" fails 2 'needs the directory' "$ZR" report
echo "1..$n"
