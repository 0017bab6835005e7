#TEST timeout=120 long=more
# Run the commands of the pages on planning, simulation and memory as they are written, in a folder with a
# configuration. Commands that take minutes run in a long run only.
ZR_SOURCE=${ZR_SOURCE:-$PWD}
. tests/support/command.inc

mkdir build && ln -s "$ZR" build/zr
awk 'BEGIN { for (i = 0; i < 800; i++) print "line " i " of a book, made for this test" }' >book.txt
printf '%s\n' '{"model": {"n_layer": 2, "n_embd": 64, "n_head": 2}, "data": {"seq_length": 64}}' >config.json
mpirun=${ZR_MPIRUN-mpirun}
"$ZR" info | grep -q '^transports .*mpi' || mpirun=
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
export OMPI_MCA_rmaps_base_oversubscribe=1 OMP_NUM_THREADS=1 XDG_CACHE_HOME=$PWD/cache

# Print the commands of a page: indented lines, joined where they go on, without comments.
commands() {
    sed -n 's/^    //p' "$1" | sed -e :a -e '/\\$/N; s/\\\n *//; ta' | grep -E '^(build/zr|mpirun) ' | sed 's/  *# .*//'
}
for page in planning simulate memory; do
    commands "$ZR_SOURCE/docs/$page.md" >todo
    check "$page.md has commands" test -s todo
    while IFS= read -r line <&3; do
        case $line in
        mpirun*) ;;
        *" info --bench"* | *" train --preset "* | *" --cluster this "*)
            if [ -z "${ZR_LONG-}" ]; then skip "$line" "minutes: in the long run"; continue; fi
            case $line in *train*) line="$line --train.steps=1" ;; esac ;;
        esac
        case $line in
        mpirun* | *"--transport mpi"*)
            if [ -z "$mpirun" ]; then skip "$line" "no MPI"; continue; fi
            line=$(echo "$line" | sed "s|^mpirun |$mpirun |") ;;
        esac
        check "$page: $line" sh -c "$line"
    done 3<todo
done
check "a picture" grep -q '^<svg' step.svg
check "a table" grep -q '^ranks,stage,step_sec' lines.csv
echo "1..$n"
