#TEST timeout=10
# Check that the engine reads no policy: it uses only these fields of a plan: memory, graphs, schedules, groups, the
# places of states and results, hidden matrices with the rank that iterates each (matrix, whose ops are in the graph
# ortho), and what the caller of a step must know. None of them says how a layout is chosen.
set -u
cd "$ZR_SOURCE" || exit 1
allowed='counted decode_len differences disk_block_bytes disk_depth error_beta error_steps graph group loss losses matrix n_persistent n_slots n_units ortho staging norm_first numbers optimizer output passing passing_disk
persistent profile ranks schedule side_by_side space_bytes stochastic terms unit verdict window_bytes windows'
named=$(grep -ohE '\bplan->[a-z_]+' src/engine/*.c src/engine/*.h | sed 's/plan->//' | sort -u)
[ -n "$named" ] || { echo 'not ok 1 - nothing is read of a plan'; exit 1; }
odd=
for field in $named; do
    case " $(echo $allowed) " in *" $field "*) ;; *) odd="$odd $field" ;; esac
done
if [ -z "$odd" ]; then echo 'ok 1 - the engine reads no policy of the plan'; else echo "not ok 1 - the engine reads$odd"; fi
if grep -nE 'zr_plan \*([^p]|p[^l])' src/engine/*.c src/engine/*.h; then
    echo 'not ok 2 - a plan goes by another name than plan'
else
    echo 'ok 2 - a plan goes by the name of plan'
fi
