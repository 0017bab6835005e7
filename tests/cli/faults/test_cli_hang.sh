#TEST timeout=150 mpi=1 build=tests/zr_fault
# Check that the whole job ends when a rank hangs, dies or lacks memory, with one message that names the rank and its
# phase. test_cli_faults.sh has every phase.
here=$PWD/tests/support
. tests/support/command.inc
. "$here/faults.inc"

# They mostly sleep, so all run at once.
for phase in forward exchange save; do start 2 "hang:1@$(at_step $phase)"; done
start 3 hang:2@evaluate
start 2 kill:0@update
start 1 hang:0@backward:2
if [ -n "$mpirun" ]; then
    start mpi2 hang:0@gather:2
    start mpi2 stop:1@exchange:2
    start mpi3 kill:1@backward:2
    start mpi2 stop:1@forward:2 ZR_MPI=p2p
    start mpi3 stop:2@forward:2 ZR_MPI=p2p
fi

# A rank that is asked to stop while another hangs cannot agree on a step, so the run ends as after a hang.
mkdir asked
ZR_FAULT=hang:1@gather:2 "$ZR" train c.json --ranks 2 --train.output_dir=asked/run >asked/out 2>&1 &
pid=$!
await $pid grep -q 'after 5 s the run ends' asked/out
kill -TERM $pid
wait $pid
check "asked to stop while a rank hangs" test $? = 82
check "... says where" grep -q 'rank 1 has been stuck .*training step 2.*The run ends' asked/out
check "... and saves nothing" test ! -e asked/run/model
wait

# Time in which the whole job is stopped counts as no rank's hang: the run ends a few seconds after it continues.
start 1 hang:0@forward:2
await $! grep -q 'after 5 s the run ends' 1-hang:0@forward:2/out
stopped=$(ps -eo pid,args | grep "$DIR/1-hang:0@forward:2/run" | grep -v 'grep\|timeout' | awk '{ print $1 }' | tail -n 1)
kill -STOP "$stopped" && sleep 4 && kill -CONT "$stopped"
wait
check "stopped whole while it hangs" grep -q 'rank 0 has been stuck for 5\.[0-4] s .*The run ends' 1-hang:0@forward:2/out

for phase in forward exchange save; do
    ended "hangs, $phase" "2-hang:1@$(at_step $phase)" "rank 1 has been stuck .*$(where_is $phase).*The run ends" 82
done
check "... for as long as a save may take" grep -q 'the limit here is 25 s' 2-hang:1@save/out
ended "hangs, evaluate, of 3" 3-hang:2@evaluate "rank 2 has been stuck .*$(where_is evaluate).*The run ends" 82
check "... every rank says where it is" test "$(grep -c '^zr: rank [012] \(waits for rank 2\|works\) in evaluation' 3-hang:2@evaluate/out)" = 3
check "... a warning comes before" grep -q '^zr: rank 2 has been stuck .*; after 10 s the run ends' 3-hang:2@evaluate/out
ended "hangs alone" 1-hang:0@backward:2 "rank 0 has been stuck .*training step 2.*The run ends" 82
killed "killed" 2-kill:0@update
if [ -n "$mpirun" ]; then
    ended "mpi, hangs" mpi2-hang:0@gather:2 "rank 0 has been stuck .*$(where_is gather).*The run ends" 82
    ended "mpi, stopped" mpi2-stop:1@exchange:2 "rank 1 has been stuck .*$(where_is exchange).*The run ends" 82
    killed "mpi, killed" mpi3-kill:1@backward:2
    check "mpi, stopped, on another host" test "$(cat mpi2-stop:1@forward:2/code)" = 82
    check "... is named by the rank that waits" grep -q 'rank 1 has not come .*training step 2.*The run ends' mpi2-stop:1@forward:2/out
    # Of three ranks, one may wait for another one that waits for the stopped one.
    check "mpi, stopped, one of two other hosts" test "$(cat mpi3-stop:2@forward:2/code)" = 82
    check "... is named, or who waits for it" grep -q 'rank [12], or one that it waits for itself, has not come .*training step 2.*The run ends' mpi3-stop:2@forward:2/out
else
    skip "ranks under mpirun" "no mpirun, or built without MPI"
fi
nothing_left

for nth in 1 2 3 5 8 13 21 34 55 89 144 233 377; do survives alloc $nth 71 "$ZR" train c.json --ranks 2; done
told "allocations that fail"
for nth in 1 2 3 4 5 8; do survives write $nth '73 74' "$ZR" train c.json --ranks 2; done
told "writes that fail"
check "a fault that is none" code 2 env ZR_FAULT=kill:0@dinner "$ZR" train c.json
check "zr itself fails on no request" sh -c '! grep -q ZR_FAULT "$0"' "$(dirname "$(dirname "$ZR")")/zr"
echo "1..$n"
