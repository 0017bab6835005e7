#TEST timeout=1500 mpi=1 long=1 build=tests/zr_fault
# As test_cli_hang.sh, with every phase and every way to fail, and with every allocation and every write.
here=$PWD/tests/support
. tests/support/command.inc
. "$here/faults.inc"

all="start forward backward exchange update gather evaluate save end"
begin() { for phase in $all; do start "$1" "$2@$(at_step $phase)"; done; wait; }

begin 2 hang:1
begin 3 hang:0
begin 2 kill:1
for phase in $all; do
    says=".*$(where_is $phase).*The run ends"
    ended "2 hang, $phase" "2-hang:1@$(at_step $phase)" "rank 1 has been stuck $says" 82
    ended "3 hang, $phase" "3-hang:0@$(at_step $phase)" "rank 0 has been stuck $says" 82
    killed "2 killed, $phase" "2-kill:1@$(at_step $phase)"
done
for ranks in 2 3; do
    [ -n "$mpirun" ] || break
    for way in hang:1 stop:0 kill:1; do begin mpi$ranks $way; done
    for phase in $all; do
        says=".*$(where_is $phase).*The run ends" at=$(at_step $phase)
        ended "mpi $ranks hang, $phase" mpi$ranks-hang:1@$at "rank 1 has been stuck $says" 82
        # MPICH's launcher waits for a stopped rank, so its exit code and the number of messages are not determined
        if [ -n "$signals" ]; then
            skip "mpi $ranks stop, $phase" "MPICH's launcher decides the exit code"
        else
            ended "mpi $ranks stop, $phase" mpi$ranks-stop:0@$at "rank 0 has been stuck $says" 82
        fi
        killed "mpi $ranks killed, $phase" mpi$ranks-kill:1@$at
    done
done
[ -n "$mpirun" ] || skip "ranks under mpirun" "no mpirun, or built without MPI"
nothing_left

every() { # KIND CODES COMMAND...: until nothing fails any more, ten times in a row
    kind=$1 codes=$2 nth=1 whole=0
    shift 2
    while [ $whole -lt 10 ] && [ $nth -lt 3000 ]; do
        survives $kind $nth "$codes" "$@"
        whole=$(((whole + 1) * fine)) nth=$((nth + 1))
    done
    told "$kind, each of $nth"
}
every alloc 71 "$ZR" train c.json --ranks 2
every write '73 74' "$ZR" train c.json --ranks 2
if [ -n "$mpirun" ]; then
    for nth in 1 2 3 4 6 9 13 19 28 42 63 94 141 211 316; do survives alloc $nth 71 $mpirun -n 2 "$ZR" train c.json; done
    told "mpi, allocations that fail"
fi
echo "1..$n"
