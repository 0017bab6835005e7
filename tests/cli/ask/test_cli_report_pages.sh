#TEST timeout=300 long=1 deps=browser
# Check the pages of `zr report` and `zr plan --html` in a browser, from the width of a telephone to that of a desktop: nothing is wider than
# the page, and no texts overlap.
. tests/support/command.inc

browser=
for b in chromium chromium-browser google-chrome; do
    if [ -z "$browser" ] && command -v $b >/dev/null; then browser=$b; fi
done
if [ -z "$browser" ]; then
    skip "the page in a browser" "no chromium; scripts/deps --browser installs it"
    echo "1..$n"
    exit 0
fi
# metrics STEPS: print lines of metrics
metrics() {
    awk -v steps="$1" 'BEGIN { for (s = 1; s <= steps; s++) {
        printf "{\"step\":%d, \"loss\":%.9g, \"grad_norm\":%.9g, \"lr\":%.6g, \"step_ms\":%.6g, \"tokens_per_sec\":%.6g}\n",
            s, 2 + 8 / (1 + s / 50), 1 + 30 / s, 6e-4 / s, 12345.678 + s, 1e7 / s
        if (s % 50 == 0) printf "{\"step\":%d, \"val_loss\":%.9g}\n", s, 3 + 8 / (1 + s / 50)
    }}'
}
i=0
while [ $i -lt 200 ]; do echo "line $i of a small text, made for this test"; i=$((i + 1)); done >text.txt
cat >c.json <<'END_CONFIG'
{"model": {"type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 16}, "data": {"train": "text.txt"},
 "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3}, "train": {"steps": 30, "output_dir": "a"}}
END_CONFIG
long='a run whose name is longer than one would wish, and/without_any_place_to_break_it_in_two_or_in_three_parts'
mkdir -p "$long" b && metrics 20000 >"$long/metrics.jsonl" && metrics 300 >b/metrics.jsonl
check "a run" "$ZR" train c.json --quiet --ranks 2 --timings
check "a page of one" "$ZR" report --quiet a -o one.html
check "a page of one with a long name" "$ZR" report --quiet "$long" -o long.html
check "a page of a plan" "$ZR" plan --quiet --preset gpt2-350m --cluster 4xa10 --ranks 4 --batch 4 --html own.html
check "a page of a plan of another system" "$ZR" plan --quiet --preset llama3-8b --cluster 4x4090 --ranks 4 \
    --system deepspeed --stage 3 --html other.html
check "a page of three" "$ZR" report --quiet a b "$long" -o three.html

cat >look.html <<'END_PAGE'
<!doctype html><body><script>
const [page, width] = location.hash.slice(1).split(","), frame = document.createElement("iframe")
frame.style.width = width + "px"; frame.style.height = "4000px"; frame.style.border = "0"; frame.src = page
frame.onload = () => {
    const d = frame.contentDocument, e = d.documentElement, told = [], boxes = []
    for (const details of d.querySelectorAll("details")) details.open = true
    if (e.scrollWidth > e.clientWidth) told.push("wide: " + e.scrollWidth + " of " + e.clientWidth)
    for (const t of d.querySelectorAll("svg text, h1, h2, h3, p, figcaption, td, th, summary, .facts div")) {
        const r = t.getBoundingClientRect()
        if (r.width > 0 && r.height > 0) boxes.push([r, t.textContent.slice(0, 40), t])
    }
    for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
        const [a, at, ae] = boxes[i], [b, bt, be] = boxes[j]
        if (ae.contains(be) || be.contains(ae)) continue
        const w = Math.min(a.right, b.right) - Math.max(a.left, b.left)
        const h = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)
        if (w > 1.5 && h > 3.5) told.push("over each other: " + at + " | " + bt)
    }
    const result = document.createElement("pre")
    result.textContent = "looked at " + boxes.length + "; " + (told.length ? told.slice(0, 5).join("; ") : "all well")
    document.body.appendChild(result)
}
document.body.appendChild(frame)
</script>
END_PAGE
look() { # PAGE WIDTH
    $browser --headless=new --no-sandbox --disable-gpu --allow-file-access-from-files --window-size=1500,4000 \
        --user-data-dir="$PWD/profile" --dump-dom "file://$PWD/look.html#$1,$2" 2>/dev/null | sed -n 's/.*<pre>\(.*\)<\/pre>.*/\1/p' >seen
    cat seen >&2
    grep -q 'looked at [1-9][0-9].*all well' seen
}
for page in one long three own other; do
    for width in 390 1400; do check "$page.html at $width" look $page.html $width; done
done
echo "1..$n"
