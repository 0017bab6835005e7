/* Implements tests/cuda/recorder.h: clocks, accesses and their order. */
#include "recorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

namespace
{

/* ---- counts ------------------------------------------------------------------------------------ */

constexpr int kinds = (int)recorded::kinds;
const char *const kind_name[] = {
#define NAME(kind) #kind,
    ZR_RECORDED_KINDS(NAME)
#undef NAME
};

std::atomic<long> count[kinds];

/* Appends the counts to the file that ZR_STAND_IN_COUNTS names, when the process ends. */
struct at_end {
    ~at_end()
    {
        const char *path = getenv("ZR_STAND_IN_COUNTS");
        FILE *file = path && *path ? fopen(path, "a") : nullptr;
        if (!file) return;
        fprintf(file, "process %d:", (int)getpid());
        for (int k = 0; k < kinds; k++) fprintf(file, " %ld %s", count[k].load(), kind_name[k]);
        fprintf(file, "\n");
        fclose(file);
    }
} writes_counts;

/* ---- state ------------------------------------------------------------------------------------- */

/* A thread of the host or a stream: its clock, of which the entry of its own number is its time. */
struct chain {
    recorded_clock clock;
    int device;     /* -1: a thread of the host */
    int number = 0; /* of threads or of streams, for texts */
};

/* An access: by whom, when, and how it is called in texts. */
struct access {
    int chain = -1; /* -1: none */
    uint32_t time = 0;
    const char *name = nullptr;
    uint64_t step = 0;
};

/* Bytes with the same accesses: the last write, and the reads since that no other read comes after. */
struct cell {
    uintptr_t end;
    access write;
    std::vector<access> reads;
};

struct block {
    size_t bytes;
    int device; /* -1: pinned; -2: no memory, but what NCCL's groups must not use at once */
};

/* The bytes that a copy from pinned memory found. */
struct seen {
    uint64_t hash;
    access write; /* the last write that was recorded then */
};

/* The state lives as long as the process, because threads may end after static objects. */
struct state {
    std::mutex lock;
    std::vector<chain> chains;
    std::vector<int> free_chains; /* chains of threads and streams that have ended */
    int threads = 0, streams = 0;
    std::unordered_map<cudaStream_t, int> stream;
    std::unordered_map<cudaEvent_t, recorded_clock> event;
    recorded_clock ended; /* clocks of threads that have ended: those that live on may have joined them */
    uint32_t ended_threads = 0;
    std::map<uintptr_t, cell> cells;
    std::map<uintptr_t, block> blocks;
    std::map<std::pair<const void *, size_t>, seen> copied;
    std::set<std::string> names;
    std::string fault; /* first fault */
    bool collect = false;
} &all = *new state;

std::atomic<uintptr_t> pinned_begin{UINTPTR_MAX}, pinned_end{0};

bool records()
{
    static const bool on = [] {
        const char *asked = getenv("ZR_STAND_IN_ORDER");
        return !asked || strcmp(asked, "0") != 0;
    }();
    return on;
}

/* ---- clocks ------------------------------------------------------------------------------------ */

void join(recorded_clock &into, const recorded_clock &from)
{
    if (into.size() < from.size()) into.resize(from.size());
    for (size_t i = 0; i < from.size(); i++) into[i] = std::max(into[i], from[i]);
}

uint32_t &time_of(int c)
{
    return all.chains[(size_t)c].clock[(size_t)c];
}

/* Return a new chain. It may take the number of one that has ended, and then goes on with its time. */
int make_chain(int device)
{
    int c = (int)all.chains.size();
    if (!all.free_chains.empty()) {
        c = all.free_chains.back();
        all.free_chains.pop_back();
    } else
        all.chains.push_back({});
    chain &made = all.chains[(size_t)c];
    made.device = device;
    made.number = device < 0 ? all.threads++ : all.streams++;
    if (made.clock.size() <= (size_t)c) made.clock.resize((size_t)c + 1);
    time_of(c)++;
    return c;
}

/* Take over what a chain knows, after which it goes on. */
void follow(int into, int from)
{
    join(all.chains[(size_t)into].clock, all.chains[(size_t)from].clock);
    time_of(from)++;
}

/* The chain of this thread. Who started the thread is not known: it comes after all that was recorded before it. */
struct own_chain {
    int number = -1;
    uint32_t ended_threads = 0;

    ~own_chain()
    {
        if (number < 0) return;
        std::lock_guard<std::mutex> hold(all.lock);
        join(all.ended, all.chains[(size_t)number].clock);
        all.ended_threads++;
        all.free_chains.push_back(number);
    }
};
thread_local own_chain own;
thread_local record_op *op_here;
thread_local uint64_t step_here;
thread_local recorded_clock last_event_here;
thread_local std::string unpinned_here; /* a copy of memory that is not pinned, until this thread waits */

/* Return this thread's chain. The caller holds the lock. */
int here()
{
    if (own.number < 0) {
        own.number = make_chain(-1);
        for (int c = 0; c < (int)all.chains.size(); c++)
            if (c != own.number) follow(own.number, c);
    }
    if (own.ended_threads != all.ended_threads) {
        own.ended_threads = all.ended_threads;
        join(all.chains[(size_t)own.number].clock, all.ended);
    }
    return own.number;
}

int chain_of(cudaStream_t stream, int device)
{
    const auto found = all.stream.find(stream);
    if (found != all.stream.end()) return found->second;
    return all.stream[stream] = make_chain(device);
}

/* Let a stream come after all that this thread has done. */
int issue(cudaStream_t stream)
{
    const int h = here(), s = chain_of(stream, zr_stand_in_device(stream));
    join(all.chains[(size_t)s].clock, all.chains[(size_t)h].clock);
    time_of(h)++;
    return s;
}

/* ---- texts ------------------------------------------------------------------------------------- */

std::string text_of(const access &a)
{
    const chain &by = all.chains[(size_t)a.chain];
    std::string text = std::string(a.name ? a.name : "?") + " in ";
    text += by.device < 0 ? "thread " + std::to_string(by.number)
                          : "stream " + std::to_string(by.number) + " of GPU " + std::to_string(by.device);
    if (a.step)
        text += " (step " + std::to_string((uint32_t)a.step & INT32_MAX) + " of schedule " +
                std::to_string(a.step >> 60 & 3) + ", micro-batch " + std::to_string(a.step >> 32 & 0xfffffff) + ")";
    return text;
}

std::string place_of(uintptr_t begin, uintptr_t end)
{
    auto after = all.blocks.upper_bound(begin);
    if (after == all.blocks.begin()) return "memory that is not recorded";
    --after;
    const block &in = after->second;
    if (in.device == -2) return "NCCL has two groups in flight at once";
    return "bytes " + std::to_string(begin - after->first) + " to " + std::to_string(end - after->first) + " of " +
           std::to_string(in.bytes) + " of " + (in.device < 0 ? "pinned memory" : "GPU " + std::to_string(in.device));
}

void fault(const std::string &text)
{
    if (all.fault.empty()) all.fault = text;
    if (all.collect) return;
    fprintf(stderr, "the stand-in's recorder: %s\n", text.c_str());
    abort();
}

/* ---- accesses ---------------------------------------------------------------------------------- */

bool is_before(const access &a, const recorded_clock &clock)
{
    return a.chain < 0 || ((size_t)a.chain < clock.size() && a.time <= clock[(size_t)a.chain]);
}

void check(const access &was, bool wrote, const access &now, bool writes, uintptr_t begin, uintptr_t end)
{
    if (is_before(was, all.chains[(size_t)now.chain].clock)) return;
    fault(std::string(wrote ? "the write by " : "the read by ") + text_of(was) + " is not ordered before the " +
          (writes ? "write by " : "read by ") + text_of(now) + ": " + place_of(begin, end));
}

void add_read(cell &c, const access &now)
{
    const recorded_clock &clock = all.chains[(size_t)now.chain].clock;
    std::erase_if(c.reads, [&](const access &read) { return is_before(read, clock); });
    c.reads.push_back(now);
}

/* Cut the cell that contains `at`, if there is one, so that a cell begins there. */
void cut(uintptr_t at)
{
    auto after = all.cells.upper_bound(at);
    if (after == all.cells.begin()) return;
    auto in = std::prev(after);
    if (in->first == at || in->second.end <= at) return;
    cell rest = in->second;
    in->second.end = at;
    all.cells.emplace_hint(after, at, std::move(rest));
}

/* Return whether recorded memory has these bytes. */
bool is_recorded(uintptr_t at, size_t bytes)
{
    auto after = all.blocks.upper_bound(at);
    if (after == all.blocks.begin() || bytes == 0) return false;
    --after;
    return at < after->first + after->second.bytes;
}

/* Check an access against earlier ones, and remember it. */
void add(const recorded_range &range, const access &now)
{
    const uintptr_t begin = (uintptr_t)range.at, end = begin + range.bytes;
    if (!is_recorded(begin, range.bytes)) return;
    cut(begin);
    cut(end);
    auto at = all.cells.lower_bound(begin);
    for (auto c = at; c != all.cells.end() && c->first < end; ++c) {
        check(c->second.write, true, now, range.writes, c->first, c->second.end);
        for (const access &read : c->second.reads)
            if (range.writes) check(read, false, now, true, c->first, c->second.end);
    }
    if (range.writes) {
        while (at != all.cells.end() && at->first < end) at = all.cells.erase(at);
        all.cells.emplace_hint(at, begin, cell{end, now, {}});
        return;
    }
    for (uintptr_t next = begin; next < end;) {
        if (at == all.cells.end() || at->first > next) { /* bytes that nothing has accessed */
            const uintptr_t until = at == all.cells.end() ? end : std::min(end, at->first);
            at = all.cells.emplace_hint(at, next, cell{until, {}, {}});
        }
        add_read(at->second, now);
        next = at->second.end;
        ++at;
    }
}

void add_all(int chain, const char *name, const std::vector<recorded_range> &ranges)
{
    const access now = {chain, time_of(chain), name, step_here};
    for (const recorded_range &range : ranges) add(range, now);
}

void forget(uintptr_t begin, uintptr_t end)
{
    cut(begin);
    cut(end);
    all.cells.erase(all.cells.lower_bound(begin), all.cells.lower_bound(end));
    all.copied.erase(all.copied.lower_bound({(const void *)begin, 0}), all.copied.lower_bound({(const void *)end, 0}));
}

/* Return the last write to a byte. */
access last_write(uintptr_t at)
{
    auto after = all.cells.upper_bound(at);
    if (after == all.cells.begin()) return {};
    --after;
    return at < after->second.end ? after->second.write : access{};
}

/* Before a copy from pinned memory: find writes by code that tells the recorder nothing, such as a batch callback. */
void find_host_write(int thread, const void *from, size_t bytes)
{
    const access write = last_write((uintptr_t)from);
    if (write.chain >= 0 && all.chains[(size_t)write.chain].device >= 0) return; /* a GPU wrote it, or will */
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((const unsigned char *)from)[i]) * 1099511628211u;
    seen &last = all.copied[{from, bytes}];
    const bool same_write = write.chain == last.write.chain && write.time == last.write.time;
    if (last.hash != hash && same_write) add_all(thread, "code of the host", {{from, bytes, true}});
    last = {hash, last_write((uintptr_t)from)};
}

/* A thread that launches other work behind a copy of memory that is not pinned takes the copy for asynchronous. */
void check_pinned()
{
    if (!unpinned_here.empty()) fault(std::exchange(unpinned_here, ""));
}

} // namespace

/* ---- calls ------------------------------------------------------------------------------------- */

void record_count(recorded kind)
{
    count[(int)kind].fetch_add(1, std::memory_order_relaxed);
}

void record_launch(recorded kind, cudaStream_t stream)
{
    record_count(kind);
    if (!records()) return;
    std::lock_guard<std::mutex> hold(all.lock);
    check_pinned();
    const int s = issue(stream);
    record_op *op = op_here;
    /* A later launch of the operation is at the same time, unless something came after the stream in between. */
    if (!op || (op->stream == stream && op->time == time_of(s))) return;
    op->stream = stream;
    op->time = time_of(s);
    add_all(s, op->name, op->ranges);
}

void record_work(recorded kind, cudaStream_t stream, const char *name, std::vector<recorded_range> ranges)
{
    record_count(kind);
    if (!records()) return;
    std::lock_guard<std::mutex> hold(all.lock);
    check_pinned();
    add_all(issue(stream), name, ranges);
}

void record_copy(cudaStream_t stream, void *to, const void *from, size_t bytes, bool staged)
{
    record_count(recorded::copies);
    if (!records()) return;
    std::lock_guard<std::mutex> hold(all.lock);
    const int thread = here();
    std::string unpinned;
    for (const void *host : {(const void *)to, staged ? to : from})
        if (bytes > 0 && !is_recorded((uintptr_t)host, bytes) && !zr_stand_in_is_touchable())
            unpinned = "a copy of " + std::to_string(bytes) + " bytes " + (host == to ? "to" : "from") +
                       " memory that is not pinned, and no wait for it follows: CUDA would not return before it ends";
    if (!unpinned.empty()) unpinned_here.clear();
    const auto in = all.blocks.upper_bound((uintptr_t)from);
    if (!staged && in != all.blocks.begin() && std::prev(in)->second.device < 0 && is_recorded((uintptr_t)from, bytes))
        find_host_write(thread, from, bytes);
    const int s = issue(stream);
    if (!staged) add_all(s, "a copy", {{from, bytes, false}});
    add_all(s, "a copy", {{to, bytes, true}});
    if (!unpinned.empty()) unpinned_here = unpinned;
}

void record_event(cudaEvent_t event, cudaStream_t stream)
{
    record_count(recorded::records);
    if (!records()) return;
    std::lock_guard<std::mutex> hold(all.lock);
    const int s = issue(stream);
    all.event[event] = last_event_here = all.chains[(size_t)s].clock;
    time_of(s)++;
}

void record_follow(cudaStream_t stream, cudaEvent_t event)
{
    record_count(recorded::follows);
    if (!records()) return;
    std::lock_guard<std::mutex> hold(all.lock);
    check_pinned();
    const int s = issue(stream);
    join(all.chains[(size_t)s].clock, all.event[event]);
}

void record_stream_wait(cudaStream_t stream)
{
    record_count(recorded::waits);
    if (!records()) return;
    std::lock_guard<std::mutex> hold(all.lock);
    follow(here(), chain_of(stream, zr_stand_in_device(stream)));
    unpinned_here.clear();
}

void record_event_wait(cudaEvent_t event)
{
    record_count(recorded::waits);
    if (!records()) return;
    std::lock_guard<std::mutex> hold(all.lock);
    join(all.chains[(size_t)here()].clock, all.event[event]);
    unpinned_here.clear();
}

void record_memory(void *memory, size_t bytes, int device)
{
    if (!records()) return;
    std::lock_guard<std::mutex> hold(all.lock);
    const uintptr_t at = (uintptr_t)memory;
    forget(at, at + bytes);
    all.blocks[at] = {bytes, device};
    if (device != -1) return;
    pinned_begin = std::min(pinned_begin.load(), at);
    pinned_end = std::max(pinned_end.load(), at + bytes);
}

void record_freed(void *memory)
{
    if (!records()) return;
    std::lock_guard<std::mutex> hold(all.lock);
    const auto found = all.blocks.find((uintptr_t)memory);
    if (found == all.blocks.end()) return;
    forget(found->first, found->first + found->second.bytes);
    all.blocks.erase(found);
}

void record_gone(cudaStream_t stream)
{
    if (!records()) return;
    std::lock_guard<std::mutex> hold(all.lock);
    const auto found = all.stream.find(stream);
    if (found == all.stream.end()) return;
    all.free_chains.push_back(found->second);
    all.stream.erase(found);
}

void record_gone(cudaEvent_t event)
{
    if (!records()) return;
    std::lock_guard<std::mutex> hold(all.lock);
    all.event.erase(event);
}

void record_host(const char *name, const void *at, size_t bytes, bool writes)
{
    if (!records()) return;
    std::lock_guard<std::mutex> hold(all.lock);
    if (is_recorded((uintptr_t)at, bytes)) add_all(here(), name, {{at, bytes, writes}});
}

bool record_is_pinned(uintptr_t at)
{
    return at >= pinned_begin.load(std::memory_order_relaxed) && at < pinned_end.load(std::memory_order_relaxed);
}

recorded_clock record_release()
{
    if (!records()) return {};
    std::lock_guard<std::mutex> hold(all.lock);
    const int h = here();
    recorded_clock clock = all.chains[(size_t)h].clock;
    time_of(h)++;
    return clock;
}

void record_acquire(const recorded_clock &clock)
{
    if (!records()) return;
    std::lock_guard<std::mutex> hold(all.lock);
    join(all.chains[(size_t)here()].clock, clock);
}

recorded_clock &record_last_event()
{
    return last_event_here;
}

void record_fault(const std::string &text)
{
    if (!records()) return;
    std::lock_guard<std::mutex> hold(all.lock);
    fault(text);
}

record_op::record_op(const char *name_, std::vector<recorded_range> ranges_)
    : name(name_), ranges(std::move(ranges_)), outer(op_here)
{
    op_here = this;
}

record_op::~record_op()
{
    op_here = outer;
}

const char *record_name(const std::string &name)
{
    std::lock_guard<std::mutex> hold(all.lock);
    return all.names.insert(name).first->c_str();
}

void record_step(uint64_t number)
{
    step_here = number;
}

extern "C" {

void zr_stand_in_count(zr_stand_in_counts *counts)
{
#define COPY(kind) counts->kind = count[(int)recorded::kind].load();
    ZR_RECORDED_KINDS(COPY)
#undef COPY
}

void zr_stand_in_collect(int collect)
{
    std::lock_guard<std::mutex> hold(all.lock);
    all.collect = collect;
}

const char *zr_stand_in_fault(void)
{
    static thread_local std::string text;
    std::lock_guard<std::mutex> hold(all.lock);
    text = std::exchange(all.fault, "");
    return text.empty() ? nullptr : text.c_str();
}
}
