#TEST timeout=60
# bench/planner.py on a few measured rows, which it maps to calls of `zr plan --system`.
. tests/support/command.inc
ROOT=${ZR_SOURCE:-$OLDPWD}
command -v python3 >/dev/null || { echo 'ok 1 # SKIP no python3'; exit 0; }
bench() { python3 "$ROOT/bench/planner.py" --zr "$ZR" "$@"; }
check 'rows are planned' bench --rows "$ROOT/tests/systems/planner_rows.csv" --json
check 'each within its bounds' sh -c 'python3 -c "
import json
rows = [json.loads(line) for line in open(\"out\")]
assert len(rows) == 16
for row in rows:
    most = .1 if row[\"measure\"] == \"peak_unknown_kind\" else .05
    assert abs(row[\"error\"]) <= most, row
"'
check 'as a table' bench --rows "$ROOT/tests/systems/planner_rows.csv" --markdown
check 'with all systems' sh -c 'for name in "megatron te" "megatron local" nanotron torchtitan "litgpt fsdp"; do
    grep -q "^| $name |" out || exit 1
done'
check 'with estimators beside it' grep -q '^| Megatron-Bridge | all | ' out
sed '2s/,100,\|megatron te/mystery/' "$ROOT/tests/systems/planner_rows.csv" >strange.csv
check 'a row of an unknown system is named' fails 1 'no system for mystery' bench --rows strange.csv
check 'without rows it says so' sh -c 'python3 "$0" --rows absent.csv 2>&1 | grep -q "SKIPPED: there is no absent.csv"' \
    "$ROOT/bench/planner.py"
echo "1..$n"
