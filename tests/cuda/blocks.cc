/* Implements blocks.h: the threads of a block are coroutines. With a seed, several blocks are in flight, and lots
 * decide which warp of which block goes on.
 *
 * The thread sanitizer sees each thread of a block in flight as a fibre. Barriers order the fibres, shuffles do not:
 * they exchange values, and say nothing of memory. This file is compiled without the sanitizer, which would take the
 * switches between fibres for races. */
#include "blocks.h"
#include "coroutine.h"
#include "fibres.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

thread_local constinit zr_stand_in_place zr_stand_in_here;
thread_local constinit const uint32_t *zr_stand_in_warp;

namespace
{

enum class thread_state { ready, at_block, at_warp, ended };

constexpr int most_warps = most_threads / 32, most_flights = 3;
/* The distance of stacks is no power of two: else the tops of all stacks would share a few lines of the caches. */
constexpr size_t stack_bytes = 64 << 10, stack_distance = stack_bytes + 17 * 64;

struct block_thread {
    coroutine own;
    void *fibre;
    thread_state state;
    dim3 place; /* index in the block */
    int turn;
    int barriers[2]; /* number of barriers of the warp and of the block that it has passed */
    bool begun;      /* whether it has begun a block of this launch */
};

/* An array that a kernel declares as shared: `site` stands for the declaration. */
struct shared_array {
    const void *site;
    size_t at;
};

/* A place for a block that runs. */
struct flight {
    block_thread thread[most_threads];
    uint32_t given[2][most_threads][zr_stand_in_words];
    alignas(16) unsigned char shared[shared_most];
    size_t shared_bytes; /* of it in use */
    std::vector<shared_array> arrays;
    dim3 block;
    int threads, warps;
    int runnable[most_warps], n_runnable;
    thread_state from[most_warps]; /* the state of the unfinished threads of a runnable warp */
    /* What fibres tell and hear at barriers of each warp, and of the block in the last place. Two alternate: a thread
     * tells the same again only when all have heard it. */
    uint64_t barrier[most_warps + 1][2];
    /* What the fibres of a block tell at their end. Two alternate: those of the next block here hear the other at their
     * begin if the block had shared memory, which they have now. */
    uint64_t ended[2];
    int parity;
    bool inherits;
};

/* The threads of a warp that run one after the other, each to the next place where it meets others. */
struct turns {
    block_thread *warp;
    int n, begin, taken; /* `taken`: number of threads that have had their turn, or needed none */
    bool backward;
    thread_state from; /* the state of those that have a turn */
};

/* The state with which one thread of the processor runs a kernel. */
struct machine {
    flight flights[most_flights];
    coroutine scheduler;
    void *fibre;
    const std::function<void()> *kernel;
    flight *now;
    block_thread *current;
    turns round;
    uint64_t begin; /* what is told and heard at the begin of a launch */
    machine *next = nullptr;

    machine()
    {
        const size_t bytes = stack_distance * most_threads;
        for (flight &f : flights) {
            char *stacks = (char *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            for (int t = 0; t < most_threads; t++) f.thread[t].own.stack = stacks + stack_distance * (size_t)t;
        }
    }
};

/* Machines that no thread uses. They are kept until the program ends, because the thread sanitizer has 8,128 fibres and
 * threads in all. With it at most two exist, and further launches wait for one; a kernel never waits for another. */
constexpr int most_watched = 2;
static_assert(most_watched * most_flights * most_threads < 8128 - 512);
struct {
    std::mutex lock;
    std::condition_variable given;
    machine *idle;
    int made;
} machines;

thread_local constinit machine *here = nullptr;

void take_machine()
{
    std::unique_lock<std::mutex> hold(machines.lock);
    machines.given.wait(hold, [] { return machines.idle || !fibres_watched() || machines.made < most_watched; });
    machines.made += !machines.idle;
    here = machines.idle ? machines.idle : new machine();
    machines.idle = here->next;
}

void give_machine()
{
    std::lock_guard<std::mutex> hold(machines.lock);
    here->next = machines.idle;
    machines.idle = here;
    machines.given.notify_one();
}

/* ---- threads ----------------------------------------------------------------------------------- */

/* Switch to the next thread of the round, or to the scheduler if there is no other. */
void switch_on(machine &m, coroutine *from)
{
    turns &r = m.round;
    while (r.taken < r.n) {
        const int i = r.taken++, lane = r.begin + i < r.n ? r.begin + i : r.begin + i - r.n;
        block_thread &one = r.warp[r.backward ? r.n - 1 - lane : lane];
        if (one.state != r.from) continue;
        m.current = &one;
        zr_stand_in_here.thread = one.place;
        fibre_switch(one.fibre);
        coroutine_switch(from, &one.own);
        return;
    }
    if (from == &m.scheduler) return;
    fibre_switch(m.fibre);
    coroutine_switch(from, &m.scheduler);
}

void stop(thread_state at)
{
    machine &m = *here;
    block_thread &mine = *m.current;
    mine.state = at;
    switch_on(m, &mine.own);
}

void thread_main(void *)
{
    machine &m = *here;
    flight &f = *m.now;
    block_thread &mine = *m.current;
    if (!mine.begun) fibre_hear(&m.begin);
    if (f.inherits) fibre_hear(&f.ended[!f.parity]);
    mine.begun = true;
    (*m.kernel)();
    fibre_tell(&f.ended[f.parity]);
    stop(thread_state::ended);
    abort();
}

/* Meet the warp, or the block, and order what its threads have done before what they do next. */
void meet(bool block)
{
    flight &f = *here->now;
    block_thread &mine = *here->current;
    const long warp = (&mine - f.thread) / 32;
    uint64_t *barrier = &f.barrier[block ? most_warps : warp][mine.barriers[block]++ % 2];
    fibre_tell(barrier);
    stop(block ? thread_state::at_block : thread_state::at_warp);
    fibre_hear(barrier);
}

/* ---- blocks ------------------------------------------------------------------------------------ */

/* Let each thread of a warp run to the next place where it meets others. Return whether the warp can go on at once: it
 * has not ended, and none of its threads waits for the block. */
bool run_warp(flight &f, int warp, const launch &l, lot &order)
{
    const int first = 32 * warp, n = first + 32 < f.threads ? 32 : f.threads - first;
    const int begin = order_seed() ? order.below(n) : 0;
    const bool backward = order_seed() ? order.below(2) != 0 : l.backward;
    machine &m = *here;
    int waiting = 0, blocked = 0;
    m.round = {&f.thread[first], n, begin, 0, backward, f.from[warp]};
    zr_stand_in_here.block = f.block;
    switch_on(m, &m.scheduler);
    for (int i = first; i < first + n; i++) {
        waiting += f.thread[i].state == thread_state::at_warp;
        blocked += f.thread[i].state == thread_state::at_block;
    }
    f.from[warp] = thread_state::at_warp;
    return waiting > 0 && blocked == 0;
}

/* Make all warps runnable, in the order in which they are taken, the last of them first. */
void start_warps(flight &f, bool backward)
{
    f.n_runnable = f.warps;
    for (int w = 0; w < f.warps; w++) {
        f.runnable[w] = backward ? w : f.warps - 1 - w;
        f.from[w] = thread_state::ready;
    }
}

/* Release all threads that wait for the block if no other thread is still running; return whether they were released.
 */
bool release(flight &f)
{
    int waiting = 0;
    for (int t = 0; t < f.threads; t++) {
        if (f.thread[t].state == thread_state::at_block)
            waiting++;
        else if (f.thread[t].state != thread_state::ended)
            return false;
    }
    for (int t = 0; t < f.threads; t++)
        if (f.thread[t].state == thread_state::at_block) f.thread[t].state = thread_state::ready;
    return waiting > 0;
}

/* Let a warp of a block go on, which a lot draws if there is a seed. Return false if the block has ended. */
bool run_some(flight &f, const launch &l, lot &order)
{
    const int last = f.n_runnable - 1;
    if (order_seed()) std::swap(f.runnable[order.below(f.n_runnable)], f.runnable[last]);
    bool more = true, same = true;
    while (more && same) {
        more = run_warp(f, f.runnable[last], l, order);
        same = !order_seed() || order.below(4) != 0;
    }
    f.n_runnable -= !more;
    if (f.n_runnable > 0) return true;
    if (release(f)) {
        start_warps(f, l.backward);
        return true;
    }
    for (int t = 0; t < f.threads; t++)
        if (f.thread[t].state != thread_state::ended) {
            fprintf(stderr, "a kernel's threads wait for each other at different places\n");
            abort();
        }
    return false;
}

/* Fill shared memory, which is not zero on a GPU either. The sanitizer does not see it. */
void fill(unsigned char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) ((volatile unsigned char *)at)[i] = 0xa5;
}

void start_block(flight &f, const launch &l, dim3 block)
{
    f.block = block;
    f.parity = !f.parity;
    f.inherits = f.shared_bytes > 0;
    f.shared_bytes = l.shared_bytes;
    f.arrays.clear();
    fill(f.shared, l.shared_bytes);
    for (int t = 0; t < f.threads; t++) {
        block_thread &one = f.thread[t];
        one.state = thread_state::ready;
        one.turn = one.barriers[0] = one.barriers[1] = 0;
        coroutine_start(&one.own, stack_bytes, thread_main, nullptr);
    }
    start_warps(f, l.backward);
}

void prepare(flight &f, const launch &l)
{
    int t = 0;
    for (unsigned k = 0; k < l.threads.z; k++)
        for (unsigned j = 0; j < l.threads.y; j++)
            for (unsigned i = 0; i < l.threads.x; i++) {
                f.thread[t].place = dim3(i, j, k);
                f.thread[t].begun = false;
                if (!f.thread[t].fibre) f.thread[t].fibre = fibre_new();
                t++;
            }
    f.threads = t;
    f.warps = (t + 31) / 32;
}

} // namespace

void run_blocks(const launch &l)
{
    const uint64_t x = l.blocks.x, y = l.blocks.y, all = x * y * l.blocks.z;
    const bool some = l.sparse && all > 4;
    const uint64_t sparse[] = {0, all / 2, all - 2, all - 1}, n = some ? 4 : all;
    const int most = order_seed() ? most_flights : 1;
    lot order = l.order;
    flight *busy[most_flights];
    int n_busy = 0;
    uint64_t started = 0;
    const auto start = [&](flight &f) {
        const uint64_t i = started++, at = l.backward ? n - 1 - i : i, b = some ? sparse[at] : at;
        start_block(f, l, dim3((unsigned)(b % x), (unsigned)(b / x % y), (unsigned)(b / x / y)));
    };
    take_machine();
    machine &m = *here;
    m.fibre = fibre_current();
    m.kernel = &l.run;
    zr_stand_in_here.threads = l.threads;
    zr_stand_in_here.blocks = l.blocks;
    fibre_tell(&m.begin);
    for (; n_busy < most && started < n; n_busy++) {
        busy[n_busy] = &m.flights[n_busy];
        prepare(*busy[n_busy], l);
        start(*busy[n_busy]);
    }
    while (n_busy > 0) {
        flight *&one = busy[order.below(n_busy)];
        m.now = one;
        if (run_some(*one, l, order)) continue;
        if (started < n)
            start(*one);
        else
            one = busy[--n_busy];
    }
    for (flight &f : m.flights)
        for (uint64_t &ended : f.ended) fibre_hear(&ended);
    give_machine();
}

/* ---- what kernels call ------------------------------------------------------------------------- */

void *zr_stand_in_shared()
{
    return here->now->shared;
}

void *zr_stand_in_shared_array(const void *site, size_t bytes)
{
    flight &f = *here->now;
    for (const shared_array &a : f.arrays)
        if (a.site == site) return f.shared + a.at;
    const size_t at = (f.shared_bytes + 15) / 16 * 16;
    f.arrays.push_back({site, at});
    f.shared_bytes = at + bytes;
    zr_stand_in_check(f.shared_bytes <= sizeof f.shared);
    fill(f.shared + at, bytes);
    return f.shared + at;
}

void zr_stand_in_meet_block()
{
    meet(true);
}

void zr_stand_in_meet_warp()
{
    meet(false);
}

/* Two sets alternate: a thread that fills a set again has met all others in between, and they have read the set by
 * then. */
void zr_stand_in_exchange(const uint32_t *mine, int words)
{
    flight &f = *here->now;
    block_thread &one = *here->current;
    const long index = &one - f.thread;
    uint32_t(*set)[zr_stand_in_words] = f.given[one.turn++ & 1];
    for (int i = 0; i < words; i++) set[index][i] = mine[i];
    stop(thread_state::at_warp);
    zr_stand_in_warp = set[index / 32 * 32];
}
