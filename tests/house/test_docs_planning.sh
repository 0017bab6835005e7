#TEST timeout=120 long=more
# Run the commands of the pages on planning, simulation and memory as they are written.
. tests/house/docs.inc

printf '%s\n' '{"model": {"n_layer": 2, "n_embd": 64, "n_head": 2}, "data": {"seq_length": 64}}' >config.json
for page in planning simulate memory; do follow $page <"$ZR_SOURCE/docs/$page.md"; done
check "a picture" grep -q '^<svg' step.svg
check "a table" grep -q '^ranks,stage,step_sec' lines.csv
echo "1..$n"
