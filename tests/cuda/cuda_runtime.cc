/* Implements the stand-in of tests/cuda/cuda_runtime.h: devices, memory, streams, events. */
#include "blocks.h"
#include "cuda_runtime.h"
#include "fibres.h"
#include "recorder.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace
{

using clock_type = std::chrono::steady_clock;

/* ---- failures on request ----------------------------------------------------------------------- */

constexpr int devices = 2, everybody = devices;
thread_local int current_device = 0;

struct failure {
    std::string function;
    int skip = 0;
    cudaError_t error = cudaSuccess;
    int given = 0;
} asked;
std::mutex asked_lock;

/* error of a planted fault, which stays; as with CUDA, only calls for that device return it */
std::atomic<cudaError_t> broken[devices] = {};

cudaError_t fail(const char *function)
{
    if (broken[current_device] != cudaSuccess) return broken[current_device];
    std::lock_guard<std::mutex> hold(asked_lock);
    if (asked.error == cudaSuccess || asked.function != function) return cudaSuccess;
    if (asked.skip-- > 0) return cudaSuccess;
    asked.given++;
    return asked.error;
}

/* For larger blocks, changing the protection of all pages takes longer than the work on them: blocks above the first
 * size are closed one time in `closed_every`, blocks above the second never. With a seed, where streams often run a
 * little, no block is. */
constexpr size_t always_protected = (size_t)128 << 10, most_protected = (size_t)4 << 20;
constexpr int closed_every = 8;

/* ---- memory of the device ---------------------------------------------------------------------- */

struct block_of_device {
    size_t bytes;
    int device;
    bool open;   /* whether the block may be touched now */
    int closing; /* number of times the block was due to be closed */

    void protect(void *at, bool to_open)
    {
        if (to_open == open || bytes > most_protected || order_seed()) return;
        if (!to_open && bytes > always_protected && ++closing % closed_every != 0) return;
        open = to_open;
        mprotect(at, bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
    }
};

struct memory_of_devices {
    std::mutex lock;
    std::map<void *, block_of_device> block;
    size_t taken[devices] = {};
    int running[devices + 1] = {}; /* streams of each device that do work; last, holders of all memory */
    bool access[devices][devices] = {{true, false}, {false, true}}; /* access of [device] to [owner] */

    bool is_open(int owner) const
    {
        bool open = running[everybody] > 0;
        for (int d = 0; d < devices; d++) open |= running[d] > 0 && access[d][owner];
        return open;
    }
    /* Add `by` (1 or -1) to the running work of device `who`. */
    void change(int who, int by)
    {
        running[who] += by;
        update();
    }
    /* Give `device` access to the memory of `owner`; return false if it had access already. */
    bool give_access(int device, int owner)
    {
        if (access[device][owner]) return false;
        access[device][owner] = true;
        update();
        return true;
    }
    void update()
    {
        for (auto &b : block) b.second.protect(b.first, is_open(b.second.device));
    }
} memory;

constexpr size_t total_bytes = (size_t)8 << 30;

std::atomic<bool> sparse{false}; /* whether arrays are simulated */

size_t whole_pages(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* A guard during whose life the memory that a device has access to may be touched. */
struct running {
    int who;

    explicit running(int who_) : who(who_)
    {
        std::lock_guard<std::mutex> hold(memory.lock);
        memory.change(who, 1);
    }
    ~running()
    {
        std::lock_guard<std::mutex> hold(memory.lock);
        memory.change(who, -1);
    }
};

} // namespace

/* ---- order ------------------------------------------------------------------------------------- */

/* Read the seed. Under the thread sanitizer there always is one, so that blocks are in flight. */
static uint64_t read_seed()
{
    const char *text = getenv("ZR_STAND_IN_SEED");
    char *end;
    if (!text || !*text) return fibres_watched();
    const unsigned long long seed = strtoull(text, &end, 10);
    if (*end || seed == 0) {
        fprintf(stderr, "ZR_STAND_IN_SEED is \"%s\"; give a number from 1 on\n", text);
        exit(2);
    }
    return seed;
}

uint64_t order_seed()
{
    static const uint64_t seed = read_seed();
    return seed;
}

/* ---- streams and events ------------------------------------------------------------------------ */

enum class pace { late, eager, by_lot };

struct zr_stand_in_stream {
    std::recursive_mutex lock; /* held by the thread that runs the stream's work */
    std::mutex list_lock;
    std::deque<std::function<bool()>> list; /* functions to run in order; false: not finished, call it again */
    long issued = 0;
    std::atomic<long> done{0};
    int device, priority = 0;
    uint64_t number;             /* counted over the streams of its device */
    enum pace pace = pace::late; /* when its work is done */
};

struct zr_stand_in_event {
    zr_stand_in_stream *stream = nullptr;
    long ticket = 0;
    clock_type::time_point at;
    int device;
};

namespace
{

constexpr size_t most_waiting = 8192;

std::atomic<long> ended{0}; /* items that have ended, in all streams */

struct {
    std::mutex lock;
    std::vector<zr_stand_in_stream *> all;
    std::vector<std::unique_ptr<zr_stand_in_stream>> ended; /* kept: waits of other streams may still ask for them */
    uint64_t made[devices];                                 /* streams of each device so far */
} streams;

/* Run the next item of issued work; return false if it has to wait. The caller holds the lock and keeps the memory
 * open. */
bool work_one(zr_stand_in_stream *s)
{
    std::function<bool()> *next;
    {
        std::lock_guard<std::mutex> list(s->list_lock);
        next = &s->list.front(); /* stays at the front while other threads append */
    }
    if (!(*next)()) return false;
    std::lock_guard<std::mutex> list(s->list_lock);
    s->list.pop_front();
    s->done++;
    ended++;
    return true;
}

long issued(zr_stand_in_stream *s)
{
    std::lock_guard<std::mutex> list(s->list_lock);
    return s->issued;
}

/* Run the next items of a stream, `most` at most, unless another thread runs it. */
void work_some(zr_stand_in_stream *s, int most)
{
    std::unique_lock<std::recursive_mutex> hold(s->lock, std::try_to_lock);
    if (!hold.owns_lock()) return;
    running now(s->device);
    for (int i = 0; i < most && s->done < issued(s); i++)
        if (!work_one(s)) return;
}

/* With a seed, let streams do work for which no thread waits yet: an eager stream all that it can, and a stream by lot
 * some. `s` and `ticket` say for which call. */
void run_ahead(const zr_stand_in_stream *s, long ticket)
{
    std::unique_lock<std::mutex> hold(streams.lock, std::defer_lock);
    if (!order_seed() || !hold.try_lock()) return;
    lot order(s->number, (uint64_t)ticket);
    const int n = (int)streams.all.size(), first = order.below(n);
    for (int i = 0; i < n; i++) {
        zr_stand_in_stream *one = streams.all[(size_t)((first + i) % n)];
        const int some = order.below(2) ? 0 : 1 + order.below(4);
        if (one->pace != pace::late) work_some(one, one->pace == pace::eager ? INT_MAX : some);
    }
}

/* While a stream waits for another rank, let the others go on, as they do on a GPU: that rank may wait for their work.
 */
void work_others(const zr_stand_in_stream *s)
{
    std::unique_lock<std::mutex> hold(streams.lock, std::try_to_lock);
    if (!hold.owns_lock()) return;
    for (zr_stand_in_stream *one : streams.all)
        if (one != s) work_some(one, 1);
}

/* Run issued work up to a ticket. */
void work(zr_stand_in_stream *s, long ticket)
{
    run_ahead(s, ticket);
    std::lock_guard<std::recursive_mutex> hold(s->lock);
    if (s->done >= ticket) return;
    running now(s->device);
    for (int polls = 0; s->done < ticket;) {
        if (work_one(s)) continue;
        if (++polls % 16 == 0) work_others(s);
        sched_yield();
    }
}

/* Run issued work up to a ticket, unless another thread is running it; return whether it has finished. */
bool reach(zr_stand_in_stream *s, long ticket)
{
    if (s->done >= ticket) return true;
    std::unique_lock<std::recursive_mutex> hold(s->lock, std::try_to_lock);
    if (!hold.owns_lock()) return false;
    running now(s->device);
    while (s->done < ticket)
        if (!work_one(s)) return false;
    return true;
}

long issue_wait(zr_stand_in_stream *s, std::function<bool()> what)
{
    long ticket;
    bool full;
    {
        std::lock_guard<std::mutex> list(s->list_lock);
        s->list.push_back(std::move(what));
        ticket = ++s->issued;
        full = s->list.size() > most_waiting;
    }
    if (full) work(s, ticket);
    run_ahead(s, ticket);
    return ticket;
}

long issue(zr_stand_in_stream *s, std::function<void()> what)
{
    return issue_wait(s, [=] {
        what();
        return true;
    });
}

/* The runtime keeps the last error until cudaGetLastError. */
thread_local cudaError_t last_error = cudaSuccess;

} // namespace

extern "C" {

cudaError_t zr_stand_in_issue(cudaStream_t stream, void (*run)(void *arg), const void *arg, size_t bytes)
{
    std::vector<unsigned char> copy((const unsigned char *)arg, (const unsigned char *)arg + bytes);
    issue(stream, [=]() mutable { run(copy.data()); });
    return cudaSuccess;
}

cudaError_t zr_stand_in_issue_wait(cudaStream_t stream, int (*run)(void *arg), void *arg)
{
    issue_wait(stream, [=] { return run(arg) != 0; });
    return cudaSuccess;
}

cudaError_t zr_stand_in_failure(const char *function)
{
    return fail(function);
}

static running *anybody;

void zr_stand_in_touchable(int touchable)
{
    delete anybody;
    anybody = touchable ? new running(everybody) : nullptr;
}

void zr_stand_in_fail(const char *function, int skip, cudaError_t error)
{
    std::lock_guard<std::mutex> hold(asked_lock);
    asked = {function ? function : "", skip, function ? error : cudaSuccess, 0};
}

int zr_stand_in_failed(void)
{
    std::lock_guard<std::mutex> hold(asked_lock);
    return asked.given;
}

long zr_stand_in_ended(void)
{
    return ended;
}

int zr_stand_in_late(void)
{
    return !order_seed();
}

void zr_stand_in_sparse(int simulated)
{
    sparse = simulated != 0;
}

int zr_stand_in_current(cudaStream_t stream)
{
    return stream->device == current_device;
}

int zr_stand_in_device(cudaStream_t stream)
{
    return stream->device;
}

bool zr_stand_in_is_touchable(void)
{
    return anybody;
}

size_t zr_stand_in_taken(void)
{
    std::lock_guard<std::mutex> hold(memory.lock);
    return memory.taken[0] + memory.taken[1];
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = devices;
    return fail("cudaGetDeviceCount");
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int number)
{
    *prop = cudaDeviceProp();
    snprintf(prop->name, sizeof prop->name, "stand-in %d", number);
    prop->totalGlobalMem = total_bytes;
    prop->major = 8;
    prop->multiProcessorCount = 4;
    prop->pciBusID = number;
    return fail("cudaGetDeviceProperties");
}

cudaError_t cudaSetDevice(int number)
{
    if (number < 0 || number >= devices) return cudaErrorInvalidDevice;
    current_device = number;
    return fail("cudaSetDevice");
}

cudaError_t cudaGetDevice(int *number)
{
    *number = current_device;
    return fail("cudaGetDevice");
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int number)
{
    snprintf(id, (size_t)bytes, "0000:%02x:00.0", number);
    return fail("cudaDeviceGetPCIBusId");
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes)
{
    *all_bytes = total_bytes;
    std::lock_guard<std::mutex> hold(memory.lock);
    *free_bytes = total_bytes - memory.taken[current_device];
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    const cudaError_t error = fail("cudaMalloc");
    if (error != cudaSuccess) return last_error = error;
    const size_t pages = whole_pages(bytes ? bytes : 1);
    const int own = current_device;
    std::lock_guard<std::mutex> hold(memory.lock);
    if (memory.taken[own] + pages > total_bytes && !sparse) return cudaErrorMemoryAllocation;
    const size_t guard = whole_pages(1); /* a guard page after the block, which no access may touch */
    void *made = mmap(nullptr, pages + guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) return cudaErrorMemoryAllocation;
    mprotect(made, pages, PROT_READ | PROT_WRITE);
    if (pages <= (size_t)64 << 20 && !sparse)
        memset(made, 0xa5, pages); /* filled, because fresh GPU memory is not zero */
    memory.block[made] = {pages, own, true, closed_every - 1};
    memory.block[made].protect(made, memory.is_open(own));
    memory.taken[own] += pages;
    record_memory(made, pages, own);
    *out = made;
    return cudaSuccess;
}

cudaError_t cudaFree(void *x)
{
    if (!x) return cudaSuccess;
    std::lock_guard<std::mutex> hold(memory.lock);
    const auto found = memory.block.find(x);
    if (found == memory.block.end()) return cudaErrorInvalidValue;
    record_freed(x);
    munmap(x, found->second.bytes + whole_pages(1));
    memory.taken[found->second.device] -= found->second.bytes;
    memory.block.erase(found);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned)
{
    const cudaError_t error = fail("cudaHostAlloc");
    if (error != cudaSuccess) return error;
    *out = aligned_alloc(4096, whole_pages(bytes ? bytes : 1));
    if (*out && bytes <= (size_t)64 << 20) memset(*out, 0xa5, bytes); /* filled, because fresh memory is not zero */
    if (*out) record_memory(*out, whole_pages(bytes ? bytes : 1), -1);
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void *x)
{
    record_freed(x);
    free(x);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    zr_stand_in_stream *s = *stream = new zr_stand_in_stream;
    std::lock_guard<std::mutex> hold(streams.lock);
    s->device = current_device;
    s->number = streams.made[current_device]++;
    if (order_seed()) s->pace = (pace)lot(s->number, 0).below(3);
    streams.all.push_back(s);
    return fail("cudaStreamCreateWithFlags");
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    const cudaError_t error = cudaStreamCreateWithFlags(stream, flags);
    (*stream)->priority = priority;
    return error;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    *priority = stream->priority;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    record_gone(stream);
    std::lock_guard<std::mutex> hold(streams.lock);
    streams.all.erase(std::find(streams.all.begin(), streams.all.end(), stream));
    streams.ended.emplace_back(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    record_stream_wait(stream);
    work(stream, issued(stream));
    return fail("cudaStreamSynchronize");
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    const long wanted = issued(stream);
    std::unique_lock<std::recursive_mutex> hold(stream->lock, std::try_to_lock);
    if (hold.owns_lock() && stream->done < wanted) {
        running now(stream->device);
        while (stream->done < wanted && work_one(stream)) continue;
    }
    if (!hold.owns_lock() || stream->done < wanted) return last_error = cudaErrorNotReady;
    record_stream_wait(stream);
    return fail("cudaStreamQuery");
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    *event = new zr_stand_in_event;
    (*event)->device = current_device;
    return fail("cudaEventCreateWithFlags");
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    record_gone(event);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (event->device != stream->device) return last_error = cudaErrorInvalidResourceHandle;
    record_event(event, stream);
    event->stream = stream;
    event->ticket = issue(stream, [=] { event->at = clock_type::now(); });
    return fail("cudaEventRecord");
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    record_event_wait(event);
    if (event->stream) work(event->stream, event->ticket);
    return fail("cudaEventSynchronize");
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    zr_stand_in_stream *of = event->stream;
    const long ticket = event->ticket;
    record_follow(stream, event);
    if (of && of != stream) issue_wait(stream, [=] { return reach(of, ticket); });
    return fail("cudaStreamWaitEvent");
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    if (from->device != to->device) return last_error = cudaErrorInvalidResourceHandle;
    *ms = std::chrono::duration<float, std::milli>(to->at - from->at).count();
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
    std::vector<char> staged;
    record_copy(stream, to, from, bytes, kind == cudaMemcpyHostToDevice);
    if (kind == cudaMemcpyHostToDevice) staged.assign((const char *)from, (const char *)from + bytes);
    issue(stream, [=] { /* works between devices without access to each other, too */
                        running now(everybody);
                        memmove(to, staged.empty() ? from : staged.data(), bytes);
    });
    return fail("cudaMemcpyAsync");
}

cudaError_t cudaMemsetAsync(void *x, int byte, size_t bytes, cudaStream_t stream)
{
    const bool pages = sparse && byte == 0 && (uintptr_t)x % whole_pages(1) == 0 && bytes == whole_pages(bytes);
    record_work(recorded::fills, stream, "a fill", {{x, bytes, true}});
    issue(stream, [=] {
        if (!pages || madvise(x, bytes, MADV_DONTNEED) != 0) memset(x, byte, bytes);
    });
    return fail("cudaMemsetAsync");
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *x)
{
    std::lock_guard<std::mutex> hold(memory.lock);
    auto after = memory.block.upper_bound((void *)x);
    const bool there =
        after != memory.block.begin() && (--after, (const char *)x < (const char *)after->first + after->second.bytes);
    *attributes = {there || anybody ? cudaMemoryTypeDevice : cudaMemoryTypeHost,
                   there ? after->second.device : current_device};
    return fail("cudaPointerGetAttributes");
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int, int)
{
    *can = fail("cudaDeviceCanAccessPeer") == cudaSuccess;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned)
{
    std::lock_guard<std::mutex> hold(memory.lock);
    if (peer == current_device) return last_error = cudaErrorInvalidDevice;
    return memory.give_access(current_device, peer) ? cudaSuccess : last_error = cudaErrorPeerAccessAlreadyEnabled;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t last = last_error;
    last_error = cudaSuccess;
    return last != cudaSuccess ? last : fail("cudaGetLastError");
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorIllegalAddress:
        return "an illegal memory access was encountered";
    case cudaErrorECCUncorrectable:
        return "uncorrectable ECC error encountered";
    default:
        return "an error";
    }
}
}

/* ---- kernels ----------------------------------------------------------------------------------- */

namespace
{

/* The number of launches of each kernel, and the shared memory that it may request on each device. */
struct {
    std::mutex lock;
    std::map<const void *, int> launches;
    std::map<std::pair<const void *, int>, int> shared_bytes;
} kernels;

int shared_allowed(const void *kernel)
{
    const auto found = kernels.shared_bytes.find({kernel, current_device});
    return found == kernels.shared_bytes.end() ? shared_usual : found->second;
}

/* Return what ZR_STAND_IN_FAULT plants in the kernels of a file: "wrong", "fault" or "hang", or "". */
std::string planted_in(const char *file)
{
    const char *asked = getenv("ZR_STAND_IN_FAULT");
    const std::string path = file, faults = "," + std::string(asked ? asked : "") + ",";
    const size_t slash = path.rfind('/') + 1;
    const size_t at = faults.find(":" + path.substr(slash, path.rfind('.') - slash) + ",");
    if (at == std::string::npos) return "";
    const size_t comma = faults.rfind(',', at) + 1;
    return faults.substr(comma, at - comma);
}

/* Issue a planted fault in the place of a kernel. */
void issue_fault(cudaStream_t stream, const std::string &fault)
{
    if (fault == "fault") issue(stream, [stream] { broken[stream->device] = cudaErrorIllegalAddress; });
    if (fault == "hang")
        issue_wait(stream, [] {
            usleep(10000);
            return false;
        });
}

bool possible(dim3 blocks, dim3 threads)
{
    const size_t n = (size_t)threads.x * threads.y * threads.z;
    return n >= 1 && n <= most_threads && blocks.x >= 1 && blocks.y >= 1 && blocks.z >= 1 && blocks.x <= INT32_MAX &&
           blocks.y <= 65535 && blocks.z <= 65535;
}

} // namespace

extern "C" cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute, int value)
{
    std::lock_guard<std::mutex> hold(kernels.lock);
    if (value < 0 || value > shared_most) return last_error = cudaErrorInvalidValue;
    kernels.shared_bytes[{kernel, current_device}] = value;
    return fail("cudaFuncSetAttribute");
}

void zr_stand_in_launch(const char *file, cudaStream_t stream, dim3 blocks, dim3 threads, size_t shared_bytes,
                        const void *kernel, std::function<void()> run)
{
    const cudaError_t asked_for = fail("launch");
    if (asked_for != cudaSuccess || stream->device != current_device) {
        last_error = asked_for != cudaSuccess ? asked_for : cudaErrorInvalidResourceHandle;
        return;
    }
    std::unique_lock<std::mutex> hold(kernels.lock);
    if (!possible(blocks, threads) || shared_bytes > (size_t)shared_allowed(kernel)) {
        fprintf(stderr, "a launch of %u x %u x %u blocks of %u threads with %zu bytes: a GPU would refuse it\n",
                blocks.x, blocks.y, blocks.z, threads.x * threads.y * threads.z, shared_bytes);
        abort();
    }
    const launch l = {blocks,        threads,
                      shared_bytes,  kernels.launches[kernel]++ % 2 != 0,
                      sparse,        lot(stream->number, (uint64_t)issued(stream)),
                      std::move(run)};
    hold.unlock();
    record_launch(recorded::launches, stream);
    const std::string fault = planted_in(file);
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    if (fault.empty())
        issue(stream, [=] { run_blocks(l); });
    else
        issue_fault(stream, fault);
    if (!blocking || strcmp(blocking, "1") != 0) return;
    work(stream, issued(stream));
    last_error = fail("launch");
}
