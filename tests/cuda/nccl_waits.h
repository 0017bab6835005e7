/* Boards on which the processes of a job show for whom they wait in NCCL's calls, so that a deadlock is found and
 * explained at once: nccl.cc would wait forever, because each rank waits for one that waits in another call. */
#ifndef ZR_TESTS_NCCL_WAITS_H
#define ZR_TESTS_NCCL_WAITS_H

#include <string>

/** Where other processes of this machine find a process's board. */
struct nccl_board_place {
    int rank, pid, file;
};

/** Create this process's board if it has none, and return its place. `rank` is its rank in the world. */
nccl_board_place nccl_board(int rank);
/** Show how many groups of a communicator this process has begun. */
void nccl_show_begun(int communicator, long groups);
/** Show that this process waits in a group, whose number is counted from 0, for another process to begin it. */
void nccl_show_wait(int communicator, long group, const char *what, const nccl_board_place &peer);
void nccl_show_no_wait();
/** Return who waits for whom if this process waits for itself through others, or "". */
std::string nccl_find_deadlock();

#endif
