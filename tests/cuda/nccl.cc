/* Implements the stand-in of tests/cuda/nccl.h; empty where zr is built without MPI. */
#if __has_include(<mpi.h>)
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "nccl.h"
#include "nccl_waits.h"
#include "recorder.h"
#include "zr/tensor.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace
{

/* A rank's message to the root of its communicator. */
struct caller {
    int rank, world_rank;
    char host[64], bus[24];
    nccl_board_place board;
};

/* The content of a unique id: the world rank at which the ranks meet, and the number of the communicator there. */
struct meeting {
    int root, number;
};

enum { CALLERS_TAG = 1000, TABLES_TAG = 2000, PIECES_TAG = 3000, HEADINGS_TAG = 1000000, NUMBERS = 500, POLLS = 2 };

/* What a rank's call is, which its peers compare with their own. */
struct heading {
    long group; /* number of the communicator's groups before */
    char name[24];
    size_t count, bytes; /* elements of the call, bytes of the message */
    int type;
};

/* One message between two ranks of a communicator, buffered: the bytes of an aborted communicator's messages may still
 * arrive. */
struct message {
    bool sends;
    int peer;
    const unsigned char *from;
    unsigned char *to;
    std::vector<unsigned char> bytes;
    heading mine, theirs;
};

enum class phase { meets, asked, ready, ends };

thread_local int depth;
thread_local heading call; /* what the function in progress is asked for */
/* NCCL's groups access it for the recorder, because two communicators must not be in flight at once, unless their
 * blocks are bounded (maxCTAs): then all of them have room on a GPU at the same time. */
char in_flight[1];
constexpr int most_blocks = 32; /* of all communicators whose blocks are bounded; a small GPU has room for them */
std::atomic<int> blocks;        /* so far */
thread_local char last_error[128];
int next_number;
std::atomic<int> alive, aborted;
std::atomic<long> operations;

ncclResult_t refuse(ncclResult_t result, const char *text)
{
    snprintf(last_error, sizeof last_error, "%s\nand more of it", text);
    return result;
}

} // namespace

struct zr_stand_in_group;

struct ncclComm {
    meeting at;
    int rank, size, polls = 0;
    phase now = phase::meets;
    /* (size): only this rank's entry until all have met; on the root, also the entries of the ranks that have come */
    std::vector<caller> table;
    int come = 1;
    std::vector<MPI_Request> request;
    bool told = false;
    long groups = 0;                                        /* number of groups so far */
    std::shared_ptr<zr_stand_in_group> asked;               /* not yet issued */
    std::vector<std::shared_ptr<zr_stand_in_group>> issued; /* not yet ended */
    int blocks = 0;                                         /* largest number of blocks; 0: not bounded */
    char own_in_flight[1];                                  /* as `in_flight`, if bounded */
    void *memory[4] = {};                                   /* taken at creation, and at the first call of each kind */

    void give_memory()
    {
        ::blocks -= blocks;
        if (blocks > 0) record_freed(own_in_flight);
        blocks = 0;
        for (void *&m : memory) cudaFree(m), m = nullptr;
    }
};

/* The operations of one NCCL group. */
struct zr_stand_in_group {
    ncclComm *comm; /* NULL: the communicator was aborted */
    cudaStream_t stream;
    std::vector<message> list;
    std::vector<MPI_Request> headings, request;
    std::vector<recorded_range> summed;                    /* what a reduce-scatter accesses besides its messages */
    std::function<void(const zr_stand_in_group &)> finish; /* processes the bytes received; NULL: nothing to do */
    bool begun = false, headed = false, ended = false;
    int looks = 0;
    long went_on = 0; /* items of streams that had ended when this group was looked at */
    std::chrono::steady_clock::time_point since;
    std::shared_ptr<zr_stand_in_group> own; /* a reference to itself while the stream has the group */
};

namespace
{

thread_local std::shared_ptr<zr_stand_in_group> open_group;

/* ---- how ranks meet ---------------------------------------------------------------------------- */

bool all_done(std::vector<MPI_Request> &request)
{
    int done = 0;
    MPI_Testall((int)request.size(), request.data(), &done, MPI_STATUSES_IGNORE);
    return done != 0;
}

/* Receive the ranks that come to the root, and send all of them the table when complete. */
bool met_root(ncclComm *c)
{
    const int tag = CALLERS_TAG + c->at.number;
    for (int there = 1; there && c->come < c->size;) {
        caller one;
        MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        if (!there) return false;
        MPI_Recv(&one, sizeof one, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        c->table[(size_t)one.rank] = one;
        c->come++;
    }
    for (int r = 0; r < c->size && !c->told; r++) {
        if (r == c->rank) continue;
        c->request.push_back(MPI_REQUEST_NULL);
        MPI_Isend(c->table.data(), (int)(sizeof(caller) * c->table.size()), MPI_BYTE, c->table[(size_t)r].world_rank,
                  TABLES_TAG + c->at.number, MPI_COMM_WORLD, &c->request.back());
    }
    c->told = true;
    return all_done(c->request);
}

bool met(ncclComm *c)
{
    if (c->rank == 0) return met_root(c);
    const int bytes = (int)(sizeof(caller) * c->table.size());
    if (!c->told) {
        c->request.resize(2);
        MPI_Isend(&c->table[(size_t)c->rank], sizeof(caller), MPI_BYTE, c->at.root, CALLERS_TAG + c->at.number,
                  MPI_COMM_WORLD, &c->request[0]);
        MPI_Irecv(c->table.data(), bytes, MPI_BYTE, c->at.root, TABLES_TAG + c->at.number, MPI_COMM_WORLD,
                  &c->request[1]);
    }
    c->told = true;
    return all_done(c->request);
}

ncclResult_t check_gpus(const ncclComm *c)
{
    for (const caller &a : c->table)
        for (const caller &b : c->table)
            if (a.rank < b.rank && strcmp(a.host, b.host) == 0 && strcmp(a.bus, b.bus) == 0)
                return refuse(ncclInvalidUsage, "Duplicate GPU detected");
    return ncclSuccess;
}

/* ---- messages ---------------------------------------------------------------------------------- */

int id_of(const ncclComm *c)
{
    return c->at.root * NUMBERS + c->at.number;
}

std::string text_of(const heading &h)
{
    return std::string(h.name) + " of " + std::to_string(h.count) + " elements of type " + std::to_string(h.type);
}

std::string group_of(const ncclComm *c, const heading &h)
{
    return "group " + std::to_string(h.group) + " of communicator " + std::to_string(id_of(c));
}

/* Send the messages, and ask for the headings of those to receive. */
void begin(zr_stand_in_group *g)
{
    const ncclComm *c = g->comm;
    const int tag = PIECES_TAG + id_of(c), head = HEADINGS_TAG + id_of(c);
    g->begun = true;
    g->request.assign(g->list.size(), MPI_REQUEST_NULL);
    g->headings = g->request;
    nccl_show_begun(id_of(c), g->list.empty() ? c->groups : g->list[0].mine.group + 1);
    for (size_t i = 0; i < g->list.size(); i++) {
        message &m = g->list[i];
        const int peer = c->table[(size_t)m.peer].world_rank, n = (int)m.bytes.size();
        if (m.sends) {
            memcpy(m.bytes.data(), m.from, m.bytes.size());
            MPI_Isend(&m.mine, sizeof m.mine, MPI_BYTE, peer, head, MPI_COMM_WORLD, &g->headings[i]);
            MPI_Isend(m.bytes.data(), n, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &g->request[i]);
        } else
            MPI_Irecv(&m.theirs, sizeof m.theirs, MPI_BYTE, peer, head, MPI_COMM_WORLD, &g->headings[i]);
    }
}

/* Held where a group advances, and where a communicator is aborted, which other threads may do. */
std::mutex advancing;

/* Compare the calls of this rank and its peers, and receive the messages. */
void receive(zr_stand_in_group *g)
{
    const ncclComm *c = g->comm;
    for (size_t i = 0; i < g->list.size(); i++) {
        message &m = g->list[i];
        const int peer = c->table[(size_t)m.peer].world_rank, own = c->table[(size_t)c->rank].world_rank;
        if (m.sends) continue;
        if (m.mine.group != m.theirs.group || strcmp(m.mine.name, m.theirs.name) != 0 ||
            m.mine.count != m.theirs.count || m.mine.type != m.theirs.type)
            record_fault("NCCL's calls differ: rank " + std::to_string(own) + " calls " + text_of(m.mine) + " as " +
                         group_of(c, m.mine) + ", rank " + std::to_string(peer) + " " + text_of(m.theirs) + " as " +
                         group_of(c, m.theirs));
        m.bytes.resize(std::max(m.bytes.size(), m.theirs.bytes));
        MPI_Irecv(m.bytes.data(), (int)m.bytes.size(), MPI_BYTE, peer, PIECES_TAG + id_of(c), MPI_COMM_WORLD,
                  &g->request[i]);
    }
    g->headed = true;
}

/* Groups of bounded communicators that wait for a peer. Several may wait at once, and need not wait for each other, so
 * a deadlock is that nothing goes on. */
std::set<zr_stand_in_group *> waiting;

std::string wait_of(const zr_stand_in_group &g)
{
    const ncclComm *c = g.comm;
    const message &m = g.list[0];
    return "rank " + std::to_string(c->table[(size_t)c->rank].world_rank) + " waits to " +
           (m.sends ? "send" : "receive") + " in " + group_of(c, m.mine) + " for rank " +
           std::to_string(c->table[(size_t)m.peer].world_rank);
}

bool find_standstill(zr_stand_in_group *g)
{
    using namespace std::chrono;
    const auto now = steady_clock::now();
    waiting.insert(g);
    if (g->went_on == 0 || g->went_on != zr_stand_in_ended()) {
        g->went_on = zr_stand_in_ended();
        g->since = now;
    }
    if (now - g->since < seconds(20)) return false;
    std::string text;
    for (const zr_stand_in_group *one : waiting)
        if (one->comm) text += (text.empty() ? "" : ", ") + wait_of(*one);
    record_fault("nothing has gone on for 20 s: " + text);
    return true;
}

/* Show for which rank a group waits, and look for a deadlock now and then; return whether there is one. */
bool show_wait(zr_stand_in_group *g)
{
    enum { LOOKS = 64 };
    const ncclComm *c = g->comm;
    if (++g->looks % LOOKS != 0) return false;
    if (c->blocks > 0) return find_standstill(g);
    for (size_t i = 0; i < g->list.size(); i++) {
        const message &m = g->list[i];
        int there = 1;
        if (!m.sends && g->headings[i] != MPI_REQUEST_NULL)
            MPI_Request_get_status(g->headings[i], &there, MPI_STATUS_IGNORE);
        if (there) continue;
        nccl_show_wait(id_of(c), m.mine.group, (text_of(m.mine) + " (" + group_of(c, m.mine) + ")").c_str(),
                       c->table[(size_t)m.peer].board);
        const std::string text = nccl_find_deadlock();
        if (!text.empty()) record_fault(text);
        return !text.empty();
    }
    return false;
}

/* Advance a group in its stream. A group that an aborted communicator has begun is kept: its bytes may still arrive. */
int step(void *arg)
{
    std::lock_guard<std::mutex> hold(advancing);
    zr_stand_in_group *g = (zr_stand_in_group *)arg;
    if (!g->comm) {
        waiting.erase(g);
        if (!g->begun) g->own.reset();
        return 1;
    }
    if (!g->begun) begin(g);
    if (!g->headed) {
        const bool there = all_done(g->headings);
        if (!there && !show_wait(g)) return 0;
        waiting.erase(g);
        if (g->comm->blocks == 0) nccl_show_no_wait();
        if (!there) return g->ended = true; /* leave the deadlock, so that a test goes on; the group is kept */
        receive(g);
    }
    if (!all_done(g->request)) return 0;
    for (message &m : g->list)
        if (!m.sends && m.to) memcpy(m.to, m.bytes.data(), m.mine.bytes);
    if (g->finish) g->finish(*g);
    g->ended = true;
    g->own.reset();
    return 1;
}

/* ---- sums -------------------------------------------------------------------------------------- */

float read_one(const unsigned char *from, size_t i, ncclDataType_t type)
{
    float wide;
    uint16_t narrow;
    if (type == ncclFloat32) {
        memcpy(&wide, from + 4 * i, 4);
        return wide;
    }
    memcpy(&narrow, from + 2 * i, 2);
    return type == ncclBfloat16 ? zr_f32_from_bf16(narrow) : zr_f32_from_f16(narrow);
}

void write_one(unsigned char *to, size_t i, ncclDataType_t type, float x)
{
    const uint16_t narrow = type == ncclBfloat16 ? zr_bf16_from_f32(x) : zr_f16_from_f32(x);
    if (type == ncclFloat32)
        memcpy(to + 4 * i, &x, 4);
    else
        memcpy(to + 2 * i, &narrow, 2);
}

/* Add the pieces received to this rank's own, in the order of the list. */
void add_pieces(const zr_stand_in_group &g, const unsigned char *own, unsigned char *to, size_t count,
                ncclDataType_t type)
{
    for (size_t i = 0; i < count; i++) {
        write_one(to, i, type, read_one(own, i, type));
        for (const message &m : g.list)
            if (!m.sends) write_one(to, i, type, read_one(to, i, type) + read_one(m.bytes.data(), i, type));
    }
}

/* Take memory as NCCL does, if it is not taken yet: 0 for the communicator, 1 to 3 for a kind of calls. */
void take_memory(ncclComm_t comm, int which)
{
    const char *asked = getenv("ZR_STAND_IN_NCCL_BYTES");
    if (!comm->memory[which]) cudaMalloc(&comm->memory[which], asked ? strtoul(asked, nullptr, 10) : (size_t)1 << 20);
}

/* Record a group when it is issued to its stream. */
void record_group(const zr_stand_in_group &g)
{
    std::vector<recorded_range> ranges = g.summed;
    for (const message &m : g.list) {
        if (m.sends) ranges.push_back({m.from, m.bytes.size(), false});
        if (!m.sends && m.to) ranges.push_back({m.to, m.bytes.size(), true});
    }
    ranges.push_back({g.comm->blocks > 0 ? g.comm->own_in_flight : in_flight, 1, true});
    record_work(recorded::groups, g.stream,
                g.list.empty() ? "NCCL's call" : record_name("NCCL's " + std::string(g.list[0].mine.name)),
                std::move(ranges));
}

/* Return the group for a new operation of a kind (take_memory): the open group, or a group for that operation alone. */
ncclResult_t open_for(ncclComm_t comm, cudaStream_t stream, int kind, const char *name, size_t count,
                      ncclDataType_t type)
{
    call = {0, "", count, 0, (int)type};
    snprintf(call.name, sizeof call.name, "%s", name);
    operations++;
    record_count(recorded::operations);
    const cudaError_t wanted = zr_stand_in_failure("nccl");
    if (wanted != cudaSuccess) return refuse((ncclResult_t)wanted, "as was asked for");
    if (!comm || comm->now != phase::ready) return refuse(ncclInvalidUsage, "the communicator is not ready");
    if (!open_group) {
        open_group = std::make_shared<zr_stand_in_group>();
        open_group->comm = comm;
        open_group->stream = stream;
    }
    take_memory(comm, kind);
    return open_group->comm == comm && open_group->stream == stream ? ncclSuccess : ncclInvalidUsage;
}

void put(bool sends, int peer, const void *from, void *to, size_t bytes)
{
    open_group->list.push_back({sends, peer, (const unsigned char *)from, (unsigned char *)to, {}, call, {}});
    open_group->list.back().bytes.resize(bytes);
    open_group->list.back().mine.bytes = bytes;
}

ncclResult_t close_group()
{
    const std::shared_ptr<zr_stand_in_group> g = open_group;
    if (depth > 0 || !g) return ncclSuccess;
    open_group.reset();
    for (message &m : g->list) m.mine.group = g->comm->groups;
    g->comm->groups++;
    g->comm->asked = g;
    g->comm->now = phase::asked;
    g->comm->polls = 0;
    return ncclInProgress;
}

ncclResult_t go_on(ncclComm *c)
{
    if (c->now == phase::ready) return ncclSuccess;
    if (c->now == phase::meets) {
        if (!met(c)) return ncclInProgress;
        c->now = phase::ready;
        return check_gpus(c);
    }
    if (c->polls++ < POLLS) return ncclInProgress;
    if (c->now == phase::ends) return ncclSuccess;
    {
        std::lock_guard<std::mutex> hold(advancing);
        const auto ended = [](const std::shared_ptr<zr_stand_in_group> &g) { return g->ended; };
        c->issued.erase(std::remove_if(c->issued.begin(), c->issued.end(), ended), c->issued.end());
    }
    record_group(*c->asked);
    c->asked->own = c->asked;
    c->issued.push_back(c->asked);
    zr_stand_in_issue_wait(c->asked->stream, step, c->asked.get());
    c->asked.reset();
    c->now = phase::ready;
    return ncclSuccess;
}

} // namespace

/* ---- the library ------------------------------------------------------------------------------- */

extern "C" {

int zr_stand_in_nccl_alive(void)
{
    return alive.load();
}

int zr_stand_in_nccl_aborted(void)
{
    return aborted.load();
}

long zr_stand_in_nccl_operations(void)
{
    return operations.load();
}

/* Threads of the stand-in's streams use MPI beside those of zr. */
int MPI_Init_thread(int *argc, char ***argv, int, int *level)
{
    return PMPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, level);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    meeting at;
    MPI_Comm_rank(MPI_COMM_WORLD, &at.root);
    at.number = next_number++ % NUMBERS;
    memset(id, 0x5a, sizeof *id);
    memcpy(id, &at, sizeof at);
    return (ncclResult_t)zr_stand_in_failure("ncclGetUniqueId");
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    const cudaError_t wanted = zr_stand_in_failure("ncclCommInitRankConfig");
    if (wanted != cudaSuccess) return refuse((ncclResult_t)wanted, "as was asked for");
    if (config->blocking != 0) return refuse(ncclInvalidArgument, "only what is not blocking is here");
    ncclComm *c = new ncclComm;
    int gpu;
    memcpy(&c->at, &id, sizeof c->at);
    c->rank = rank;
    c->size = ranks;
    c->table.resize((size_t)ranks);
    caller &mine = c->table[(size_t)rank];
    memset(&mine, 0, sizeof mine);
    mine.rank = rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &mine.world_rank);
    mine.board = nccl_board(mine.world_rank);
    nccl_show_begun(id_of(c), 0);
    static std::once_flag once;
    std::call_once(once, [] { record_memory(in_flight, 1, -2); });
    c->blocks = config->maxCTAs;
    if (c->blocks > 0) record_memory(c->own_in_flight, 1, -2);
    if ((blocks += c->blocks) > most_blocks)
        record_fault("NCCL's communicators have " + std::to_string(blocks) + " blocks in flight at once, of " +
                     std::to_string(most_blocks) + " for which a small GPU has room");
    cudaGetDevice(&gpu);
    cudaDeviceGetPCIBusId(mine.bus, sizeof mine.bus, gpu);
    const char *host = getenv("NCCL_HOSTID");
    if (host) snprintf(mine.host, sizeof mine.host, "%s", host);
    alive++;
    take_memory(c, 0);
    *comm = c;
    return ncclInProgress;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    std::lock_guard<std::mutex> hold(advancing);
    for (const auto &g : comm->issued)
        if (!g->ended) return refuse(ncclInvalidUsage, "an operation has not ended");
    if (comm->now != phase::ready) return ncclInvalidUsage;
    comm->now = phase::ends;
    comm->polls = 0;
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (comm->now != phase::ends || comm->polls < POLLS) return refuse(ncclInvalidUsage, "it has not ended");
    alive--;
    comm->give_memory();
    delete comm;
    return ncclSuccess;
}

/* Abort a communicator: its operations leave the stream. A communicator whose ranks have not met is kept, because
 * messages for it may still arrive. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    std::lock_guard<std::mutex> hold(advancing);
    for (const auto &g : comm->issued) g->comm = nullptr;
    comm->give_memory();
    alive--;
    aborted++;
    if (comm->now != phase::meets || !comm->told) delete comm;
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    const cudaError_t wanted = zr_stand_in_failure("ncclCommGetAsyncError");
    if (wanted != cudaSuccess) refuse((ncclResult_t)wanted, "as was asked for");
    *state = wanted != cudaSuccess ? (ncclResult_t)wanted : go_on(comm);
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    switch (result) {
    case ncclSystemError:
        return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInvalidUsage:
        return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
        return "remote process exited or there was a network error";
    default:
        return "another error";
    }
}

const char *ncclGetLastError(ncclComm_t)
{
    return last_error;
}

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    depth--;
    return close_group();
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    const ncclResult_t result = open_for(comm, stream, 1, "send or receive", count, type);
    if (result != ncclSuccess) return result;
    put(true, peer, from, nullptr, count);
    return close_group();
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    const ncclResult_t result = open_for(comm, stream, 1, "send or receive", count, type);
    if (result != ncclSuccess) return result;
    put(false, peer, nullptr, to, count);
    return close_group();
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    const ncclResult_t result = open_for(comm, stream, 2, "all-gather", count, type);
    if (result != ncclSuccess) return result;
    unsigned char *place = (unsigned char *)to;
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank) continue;
        put(true, r, from, nullptr, count);
        put(false, r, nullptr, place + (size_t)r * count, count);
    }
    if (place + (size_t)comm->rank * count != from)
        cudaMemcpyAsync(place + (size_t)comm->rank * count, from, count, cudaMemcpyDefault, stream);
    return close_group();
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    const size_t bytes = count * (type == ncclFloat32 ? 4 : 2);
    const unsigned char *send = (const unsigned char *)from;
    const bool known = type == ncclFloat32 || type == ncclFloat16 || type == ncclBfloat16;
    if (!known || op != ncclSum || depth > 0) return refuse(ncclInvalidArgument, "not what the stand-in can add");
    const ncclResult_t result = open_for(comm, stream, 3, "reduce-scatter", count, type);
    if (result != ncclSuccess) return result;
    for (int i = 1; i < comm->size; i++) {
        const int peer = (comm->rank + comm->size - i) % comm->size;
        put(true, peer, send + (size_t)peer * bytes, nullptr, bytes);
        put(false, peer, nullptr, nullptr, bytes);
    }
    const unsigned char *own = send + (size_t)comm->rank * bytes;
    open_group->summed = {{own, bytes, false}, {to, bytes, true}};
    open_group->finish = [=](const zr_stand_in_group &g) { add_pieces(g, own, (unsigned char *)to, count, type); };
    return close_group();
}
}

namespace
{

/* Registers the functions for code that loads the library at run time. */
struct loaded {
    loaded()
    {
#define KNOWN(function) zr_stand_in_function(#function, (void (*)(void))function)
        KNOWN(ncclGetUniqueId);
        KNOWN(ncclCommInitRankConfig);
        KNOWN(ncclCommFinalize);
        KNOWN(ncclCommDestroy);
        KNOWN(ncclCommAbort);
        KNOWN(ncclCommGetAsyncError);
        KNOWN(ncclGetErrorString);
        KNOWN(ncclGetLastError);
        KNOWN(ncclGroupStart);
        KNOWN(ncclGroupEnd);
        KNOWN(ncclSend);
        KNOWN(ncclRecv);
        KNOWN(ncclAllGather);
        KNOWN(ncclReduceScatter);
    }
} at_start;

} // namespace
#endif
