"""Memory-bound kernels, and ZeRO's collectives between thread ranks compared with MPI's."""
import shutil

import measure

measure.options()
measure.adopt_program(measure.OUT / "bench_memory", ["--json", "--threads", measure.CORES])
mpi = measure.OUT / "mpi_collectives"
beside = [" ".join([*measure.MPIRUN, "-n", "2", str(mpi)])] if mpi.exists() and shutil.which("mpirun") else []
measure.adopt_program(measure.OUT / "bench_reduce", ["--json", *beside])
if not beside:
    measure.without("reduction and gather beside MPI's",
                    measure.Missing("no mpirun, or no build/bench/mpi_collectives"), ">= 4, 2")
