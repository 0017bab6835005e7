#TEST timeout=300
# Compare published speeds of runs with pipelines with `zr simulate`: median, nine of ten, ratios between schedules.
. tests/support/command.inc
SOURCE=${ZR_SOURCE:-$OLDPWD}
command -v python3 >/dev/null || { echo 'ok 1 # SKIP no python3'; exit 0; }

cat >check.py <<'END_CHECK'
import json, statistics, sys
made = json.load(open(sys.argv[2]))
far = sorted(abs(row["ratio"] - 1) for row in made["rows"])

def complete():
    return len(far) == 24 and len(made["schedules"]) == 6

def near():
    """The median is within 10 %, nine of ten are within 25 %."""
    print("#", [round(row["ratio"] - 1, 3) for row in made["rows"]])
    return statistics.median(far) <= 0.1 and sum(one <= 0.25 for one in far) >= 0.9 * len(far)

def ratios():
    """The ratio of two schedules of one model is within 5 %."""
    print("#", made["schedules"])
    return all(abs(zr / published - 1) <= 0.05 for _, published, zr in made["schedules"])

sys.exit(not globals()[sys.argv[1]]())
END_CHECK

simulated() { python3 "$SOURCE/bench/published_pipelines.py" --zr "$ZR" --quick --json >made.json; }
is() { python3 check.py "$@" made.json; }
check 'published runs with pipelines are simulated' simulated
check '... all of them' is complete
check '... median within 10 %, nine of ten within 25 %' is near
check '... ratios between schedules within 5 %' is ratios
echo "1..$n"
