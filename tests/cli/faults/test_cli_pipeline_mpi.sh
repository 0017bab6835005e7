#TEST timeout=200 mpi=1 build=tests/zr_fault
# Check that a pipeline of processes, on one host and on pretended ones, has the bits of one rank, and that the whole job
# ends when one of its ranks dies, hangs or stops.
here=$PWD/tests/support
. tests/support/command.inc
. "$here/faults.inc"
if [ -z "$mpirun" ]; then
    skip "pipelines under mpirun" "no mpirun, or built without MPI"
    echo "1..$n"
    exit
fi
sed -i 's/"zero_opt/"gradient_accumulation_steps": 4, "zero_opt/; s/"stage": 3/"stage": 1/' c.json
check "one rank" "$ZR" train c.json --quiet --train.output_dir=one
sed -i 's/^{/{"parallel": {"pipeline": 2}, /' c.json
for way in '' p2p; do
    check "two processes $way" env ZR_MPI=$way $mpirun -n 2 "$ZR" train c.json --quiet --train.output_dir="two$way"
    check "... have the bits of one" same one "two$way"
    check "... planned is measured" as_planned "two$way"
done

# They mostly sleep, so all run at once.
start mpi2 kill:0@forward:2
start mpi2 kill:1@backward:2
start mpi2 hang:1@forward:2
start mpi2 stop:0@backward:2
start mpi2 kill:1@forward:3 ZR_MPI=p2p
start mpi2 stop:0@forward:3 ZR_MPI=p2p
wait
killed "the first is killed" mpi2-kill:0@forward:2
killed "the second is killed" mpi2-kill:1@backward:2
ended "the second hangs" mpi2-hang:1@forward:2 "rank 1 has been stuck .*training step 2.*The run ends" 82
ended "the first is stopped" mpi2-stop:0@backward:2 "rank 0 has been stuck .*training step 2.*The run ends" 82
# On another host a rank cannot see that the launcher's signal to stop follows a death.
check "between hosts, killed" grep -qxE '137|83|6|9' mpi2-kill:1@forward:3/code
check "... and no model is left" test ! -e mpi2-kill:1@forward:3/run/model
check "between hosts, stopped" test "$(cat mpi2-stop:0@forward:3/code)" = 82
check "... is named" grep -q 'rank 0 has not come .*training step 3.*The run ends' mpi2-stop:0@forward:3/out
nothing_left
echo "1..$n"
