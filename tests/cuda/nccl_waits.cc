/* Implements tests/cuda/nccl_waits.h. A board is a file in memory, which other processes open through /proc. */
#include "nccl_waits.h"

#include <stdio.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

namespace
{

constexpr int most_communicators = 4096;

struct board {
    std::atomic<long> turn; /* changes with each wait that begins or ends */
    std::atomic<bool> waits;
    int rank, communicator;
    long group;
    char what[80];
    nccl_board_place peer;
    std::atomic<long> begun[most_communicators];
};

std::mutex lock;
board *mine;
nccl_board_place place;
std::map<int, board *> others; /* by process */
std::vector<long> last_turns;  /* of the ranks of the cycle that the last look found */

board *map_board(int file)
{
    void *made = mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return made == MAP_FAILED ? nullptr : (board *)made;
}

board *board_of(const nccl_board_place &at)
{
    if (at.pid == place.pid) return mine;
    board *&found = others[at.pid];
    if (found) return found;
    const std::string path = "/proc/" + std::to_string(at.pid) + "/fd/" + std::to_string(at.file);
    const int file = open(path.c_str(), O_RDWR);
    if (file < 0) return nullptr;
    found = map_board(file);
    close(file);
    return found;
}

} // namespace

nccl_board_place nccl_board(int rank)
{
    std::lock_guard<std::mutex> hold(lock);
    if (mine) return place;
    place = {rank, (int)getpid(), memfd_create("zr_stand_in", MFD_CLOEXEC)};
    if (place.file >= 0 && ftruncate(place.file, sizeof(board)) == 0) mine = map_board(place.file);
    if (mine) mine->rank = rank;
    return place;
}

void nccl_show_begun(int communicator, long groups)
{
    std::lock_guard<std::mutex> hold(lock);
    if (mine) mine->begun[communicator % most_communicators] = groups;
}

void nccl_show_wait(int communicator, long group, const char *what, const nccl_board_place &peer)
{
    std::lock_guard<std::mutex> hold(lock);
    if (!mine) return;
    if (mine->waits && mine->communicator == communicator && mine->group == group && mine->peer.pid == peer.pid) return;
    mine->waits = false;
    mine->turn++;
    mine->communicator = communicator;
    mine->group = group;
    mine->peer = peer;
    snprintf(mine->what, sizeof mine->what, "%s", what);
    mine->waits = true;
}

void nccl_show_no_wait()
{
    std::lock_guard<std::mutex> hold(lock);
    if (!mine || !mine->waits) return;
    mine->waits = false;
    mine->turn++;
}

/* A wait is for a process that has not begun the group. If it has, its message is only under way. A cycle is certain if
 * two looks find the same waits, because then all of them held at the same time. */
std::string nccl_find_deadlock()
{
    std::lock_guard<std::mutex> hold(lock);
    std::vector<long> turns;
    std::string text;
    for (board *b = mine; b && b->waits;) {
        board *peer = board_of(b->peer);
        turns.push_back(b->turn);
        if (!peer || peer->begun[b->communicator % most_communicators] > b->group) break;
        text += (text.empty() ? "rank " : ", rank ") + std::to_string(b->rank) + " waits in " + b->what + " for rank " +
                std::to_string(b->peer.rank);
        if (peer == mine) {
            const bool again = turns == last_turns;
            last_turns = turns;
            return again ? "ranks wait for each other: " + text : "";
        }
        if (turns.size() > 64) break; /* a cycle of others, who find it themselves */
        b = peer;
    }
    last_turns.clear();
    return "";
}
