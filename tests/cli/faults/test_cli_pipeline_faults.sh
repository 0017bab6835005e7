#TEST timeout=150 mpi=1 build=tests/zr_fault
# Check that the job ends when a rank of a pipeline dies or hangs in any action, and that a message names rank, step and
# cell.
here=$PWD/tests/support
. tests/support/command.inc
. "$here/faults.inc"
sed -i 's/"zero_optimization"/"parallel": {"pipeline": 2}, "zero_optimization"/; s/"train_batch_size": 12/"train_batch_size": 12, "gradient_accumulation_steps": 2/; s/"stage": 3/"stage": 1/' c.json

cells='0:0F0 0:0F1 0:0B0 0:0B1 1:1F0 1:1F1 1:1B0 1:1B1'
for at in 0:0F1 1:1B0; do start 2 "hang:${at%:*}@${at#*:}:2"; done
wait
for at in 0:0F1 1:1B0; do
    rank=${at%:*} cell=${at#*:}
    ended "hangs in $cell" "2-hang:$rank@$cell:2" "rank $rank has been stuck .*training step 2, step [0-9]* of the schedule train (.*, cell $cell).*The run ends" 82
done
check "... the other rank waits for it" grep -q '^zr: rank 1 waits for rank 0 in training step 2, step [0-9]* of the schedule train (received from role 0, cell 1F1)' 2-hang:0@0F1:2/out
if [ -n "$mpirun" ]; then
    # A few at a time, since all start a process for each rank.
    for half in '0:0F0 0:0F1 0:0B0 0:0B1' '1:1F0 1:1F1 1:1B0 1:1B1'; do
        for at in $half; do start mpi2 "kill:${at%:*}@${at#*:}:2"; done
        wait
    done
    for at in $cells; do
        rank=${at%:*} cell=${at#*:}
        killed "killed in $cell" "mpi2-kill:$rank@$cell:2"
        check "... is named" grep -q "^zr: rank $rank is gone.* in training step 2, step [0-9]* of the schedule.*cell $cell" "mpi2-kill:$rank@$cell:2/out"
    done
else
    skip "ranks under mpirun" "no mpirun, or built without MPI"
fi
nothing_left
echo "1..$n"
