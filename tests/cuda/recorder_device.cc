/* Wraps devices, queues and the barriers of ranks for the recorder (recorder.h). Functions are replaced by the linker
 * (--wrap): the Makefile lists them. */
#include "recorder.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <unordered_map>

#include <string.h>

#include "device/cuda/cuda.h"

extern "C" {
#include "comm/comm.h"
#include "engine/engine.h"
#include "tensor/tensor.h"
}

namespace
{

zr_device_ops plain, on_gpu;       /* of GPUs: the device's own operations, and those that record */
zr_device_ops plain_host, on_host; /* of the host's processors, for queues of ZR_QUEUE_HOST */

/* ---- queues with a thread ---------------------------------------------------------------------- */

struct queue_state;
struct point;
using points = std::vector<std::shared_ptr<const point>>;

/* A mark: what has happened when a queue has reached it. */
struct point {
    std::shared_ptr<queue_state> queue; /* a queue with a thread, and the task before the mark; NULL: none */
    long number;
    points waits;         /* what the queue waits for after that task and before the mark */
    recorded_clock event; /* without a thread: what the stream's event lets others know */
};

/* A task of a queue with a thread. */
struct wrapped {
    zr_task task;
    recorded_clock issued;
    points waits; /* what the queue waits for before it */
    std::shared_ptr<queue_state> queue;
    long number;
    std::atomic<bool> done{false};
};

struct queue_state {
    std::mutex lock;
    bool threaded;
    long tasks = 0;                                         /* number of tasks issued */
    std::map<int64_t, std::shared_ptr<const point>> marked; /* by ticket */
    std::deque<std::unique_ptr<wrapped>> list;
    std::deque<std::pair<long, recorded_clock>> ended; /* what the ends of the last tasks let others know */
    points waits;                                      /* since the last task */
};

std::mutex queues_lock;
std::unordered_map<zr_queue *, std::shared_ptr<queue_state>> queues;
thread_local std::pair<std::shared_ptr<queue_state>, long> task_here; /* the task that this thread ran last */

constexpr size_t most_kept = 4096;

std::shared_ptr<queue_state> state_of(zr_queue *queue)
{
    std::lock_guard<std::mutex> hold(queues_lock);
    const auto found = queues.find(queue);
    return found == queues.end() ? nullptr : found->second;
}

/* Note what this thread knows as the end of its task; a wait for the device within the queue adds to it. */
void note_end()
{
    const auto &[queue, number] = task_here;
    if (!queue) return;
    recorded_clock clock = record_release();
    std::lock_guard<std::mutex> hold(queue->lock);
    if (!queue->ended.empty() && queue->ended.back().first == number)
        queue->ended.back().second = std::move(clock);
    else
        queue->ended.emplace_back(number, std::move(clock));
    if (queue->ended.size() > most_kept) queue->ended.pop_front();
}

/* Take over the end of a task. */
void acquire_end(queue_state *q, long number)
{
    recorded_clock clock;
    bool has_ended = number == 0;
    {
        std::lock_guard<std::mutex> hold(q->lock);
        for (const auto &e : q->ended) {
            if (e.first <= number) clock = e.second;
            has_ended = has_ended || e.first >= number;
            if (e.first >= number) break;
        }
    }
    if (!has_ended) record_fault("a task began before a task of another queue ended, for which it waits");
    record_acquire(clock);
}

/* Take over what a mark lets others know. */
void acquire_point(const point &p)
{
    if (p.queue) acquire_end(p.queue.get(), p.number);
    record_acquire(p.event);
    for (const auto &w : p.waits) acquire_point(*w);
}

zr_status run_wrapped(void *arg, zr_device *device, int64_t index)
{
    wrapped *w = (wrapped *)arg;
    const zr_task task = w->task;
    task_here = {};
    record_acquire(w->issued);
    /* The thread itself waits for events of streams, which is recorded then. */
    for (const auto &p : w->waits)
        if (p->queue) acquire_point(*p);
    const zr_status st = task.run(task.arg, device, index);
    task_here = {w->queue, w->number};
    note_end();
    if (st != ZR_OK || !task.ended) w->done = true; /* from here on the issuing thread may free it */
    return st;
}

void ended_wrapped(void *arg, int64_t index, double free_sec, double begin_sec, double end_sec)
{
    wrapped *w = (wrapped *)arg;
    const zr_task task = w->task;
    w->done = true;
    task.ended(task.arg, index, free_sec, begin_sec, end_sec);
}

void learn_host(zr_device *device);

zr_status recorded_queue_create(zr_device *device, const zr_queue_config *config, zr_queue **queue)
{
    const zr_status st = plain.queue_create(device, config, queue);
    if (st != ZR_OK) return st;
    auto made = std::make_shared<queue_state>();
    made->threaded = config->runs == ZR_QUEUE_THREAD || config->runs == ZR_QUEUE_ISSUE || config->runs == ZR_QUEUE_HOST;
    std::lock_guard<std::mutex> hold(queues_lock);
    if (config->runs == ZR_QUEUE_HOST) {
        if (!plain_host.copy) learn_host((*queue)->device);
        (*queue)->device->ops = &on_host;
    }
    queues[*queue] = made;
    return ZR_OK;
}

void recorded_queue_destroy(zr_queue *queue)
{
    plain.queue_destroy(queue);
    std::lock_guard<std::mutex> hold(queues_lock);
    const auto found = queues.find(queue);
    if (found == queues.end()) return;
    found->second->list.clear(); /* they refer to each other */
    found->second->marked.clear();
    found->second->waits.clear();
    queues.erase(found);
}

zr_status recorded_issue(zr_queue *queue, const zr_task *task)
{
    const std::shared_ptr<queue_state> q = state_of(queue);
    if (!q || !q->threaded) return plain.issue(queue, task);
    std::unique_lock<std::mutex> hold(q->lock);
    while (!q->list.empty() && q->list.front()->done) q->list.pop_front();
    wrapped *w = new wrapped{*task, record_release(), std::exchange(q->waits, {}), q, ++q->tasks};
    q->list.emplace_back(w);
    hold.unlock();
    const zr_task recorded = {run_wrapped, task->ended ? ended_wrapped : nullptr, w, task->index};
    return plain.issue(queue, &recorded);
}

zr_mark recorded_mark(zr_queue *queue)
{
    const std::shared_ptr<queue_state> q = state_of(queue);
    record_last_event() = {};
    const zr_mark mark = plain.mark(queue);
    if (!q) return mark;
    std::lock_guard<std::mutex> hold(q->lock);
    q->marked[mark.ticket] = std::make_shared<point>(q->threaded ? point{q, q->tasks, q->waits, {}}
                                                                 : point{nullptr, 0, {}, record_last_event()});
    if (q->marked.size() > most_kept) q->marked.erase(q->marked.begin());
    return mark;
}

zr_status recorded_await(zr_queue *queue, zr_mark mark)
{
    const zr_status st = plain.await(queue, mark);
    const std::shared_ptr<queue_state> q = state_of(queue), other = mark.queue ? state_of(mark.queue) : nullptr;
    if (!q || !other || q == other || st != ZR_OK) return st;
    std::unique_lock<std::mutex> hold(other->lock);
    const auto found = other->marked.find(mark.ticket);
    const std::shared_ptr<const point> p = found == other->marked.end() ? nullptr : found->second;
    hold.unlock();
    if (!p) return st;
    if (!q->threaded) {
        if (p->queue) acquire_point(*p);
        return st;
    }
    std::lock_guard<std::mutex> hold_own(q->lock);
    q->waits.push_back(p);
    return st;
}

zr_status recorded_sync(zr_queue *queue)
{
    const zr_status st = plain.sync(queue);
    const std::shared_ptr<queue_state> q = state_of(queue);
    if (!q || !q->threaded) return st;
    std::lock_guard<std::mutex> hold(q->lock);
    if (!q->ended.empty()) record_acquire(q->ended.back().second);
    return st;
}

zr_status recorded_finish(zr_device *device)
{
    const zr_status st = plain.finish(device);
    if (st == ZR_OK) note_end();
    return st;
}

zr_status host_finish(zr_device *device)
{
    const zr_status st = plain_host.finish(device);
    if (st == ZR_OK) note_end();
    return st;
}

/* ---- operations -------------------------------------------------------------------------------- */

using ranges = std::vector<recorded_range>;

size_t span(zr_dtype dtype, int64_t n)
{
    return (size_t)zr_dtype_span(dtype, n);
}

/* The memory through which kernels of a device pass results. */
recorded_range room_of(zr_device *device)
{
    return {zr__cuda(device)->room, sizeof(zr__cuda_room), true};
}

ranges of_sum(void *out, zr_dtype out_dtype, const void *const *pieces, int n_pieces, zr_dtype dtype, int64_t n)
{
    ranges all;
    for (int i = 0; i < n_pieces; i++) all.push_back({pieces[i], span(dtype, n), false});
    all.push_back({out, span(out_dtype, n), true});
    return all;
}

ranges of_update(const zr_optimizer *optimizer, const zr_update_args *args, bool writes)
{
    ranges all = {{args->grad, span(args->grad_dtype, args->n), false}, {args->weight, span(ZR_F32, args->n), writes}};
    if (args->param16 && writes) all.push_back({args->param16, span(args->param_dtype, args->n), true});
    for (int s = 0; s < optimizer->n_slots; s++)
        all.push_back({args->slot[s], span(args->slot_dtype[s], args->n), writes});
    return all;
}

zr_status recorded_sum(zr_device *device, void *out, zr_dtype out_dtype, bool accumulate, const void *const *pieces,
                       int n_pieces, zr_dtype dtype, int64_t n)
{
    ranges all = of_sum(out, out_dtype, pieces, n_pieces, dtype, n);
    all.push_back({zr__cuda(device)->room->piece, sizeof(zr__cuda_room::piece), false});
    record_op op("a sum", std::move(all));
    return plain.sum(device, out, out_dtype, accumulate, pieces, n_pieces, dtype, n);
}

zr_status recorded_square(zr_device *device, const void *x, zr_dtype dtype, int64_t n, bool exact, int64_t first,
                          zr_square *square)
{
    record_op op("a square", {{x, span(dtype, n), false}, {square, sizeof *square, true}, room_of(device)});
    return plain.square(device, x, dtype, n, exact, first, square);
}

zr_status recorded_square_update(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args,
                                 bool exact, int64_t first, zr_trust *trust)
{
    ranges all = of_update(optimizer, args, false);
    all.push_back({trust, sizeof *trust, true});
    all.push_back(room_of(device));
    record_op op("a square of an update", std::move(all));
    return plain.square_update(device, optimizer, args, exact, first, trust);
}

zr_status recorded_update(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args)
{
    record_op op("an update", of_update(optimizer, args, true));
    return plain.update(device, optimizer, args);
}

ranges of_cast(const void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n,
               const zr_casting *casting)
{
    ranges all = {{in, span(dtype, n), false}, {out, span(out_dtype, n), true}};
    if (casting && casting->added) all.push_back({casting->added, span(casting->added_dtype, n), false});
    if (casting && casting->feedback)
        all.push_back({casting->feedback->error, span(zr__error_dtype(out_dtype), n), true});
    return all;
}

zr_status recorded_cast(zr_device *device, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n,
                        const zr_casting *casting)
{
    record_op op("a cast", of_cast(out, out_dtype, in, dtype, n, casting));
    return plain.cast(device, out, out_dtype, in, dtype, n, casting);
}

zr_status recorded_total(zr_device *device, const float *x, int64_t n, zr_exact *sum)
{
    record_op op("a total", {{x, span(ZR_F32, n), false}, {sum, sizeof *sum, true}, room_of(device)});
    return plain.total(device, x, n, sum);
}

void recorded_normal(zr_device *device, const zr_rng *rng, uint64_t first, int64_t n, float std, float *out)
{
    record_op op("normal numbers", {{out, span(ZR_F32, n), true}});
    plain.normal(device, rng, first, n, std, out);
}

/* ---- operations of the host's processors ------------------------------------------------------- */

void record_hosts(const char *name, const ranges &all)
{
    for (const recorded_range &r : all) record_host(name, r.at, r.bytes, r.writes);
}

zr_status host_sum(zr_device *device, void *out, zr_dtype out_dtype, bool accumulate, const void *const *pieces,
                   int n_pieces, zr_dtype dtype, int64_t n)
{
    record_hosts("a sum", of_sum(out, out_dtype, pieces, n_pieces, dtype, n));
    return plain_host.sum(device, out, out_dtype, accumulate, pieces, n_pieces, dtype, n);
}

zr_status host_square(zr_device *device, const void *x, zr_dtype dtype, int64_t n, bool exact, int64_t first,
                      zr_square *square)
{
    record_hosts("a square", {{x, span(dtype, n), false}, {square, sizeof *square, true}});
    return plain_host.square(device, x, dtype, n, exact, first, square);
}

zr_status host_square_update(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args, bool exact,
                             int64_t first, zr_trust *trust)
{
    record_hosts("a square of an update", of_update(optimizer, args, false));
    record_hosts("a square of an update", {{trust, sizeof *trust, true}});
    return plain_host.square_update(device, optimizer, args, exact, first, trust);
}

zr_status host_update(zr_device *device, const zr_optimizer *optimizer, const zr_update_args *args)
{
    record_hosts("an update", of_update(optimizer, args, true));
    return plain_host.update(device, optimizer, args);
}

zr_status host_cast(zr_device *device, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n,
                    const zr_casting *casting)
{
    record_hosts("a cast", of_cast(out, out_dtype, in, dtype, n, casting));
    return plain_host.cast(device, out, out_dtype, in, dtype, n, casting);
}

zr_status host_copy(zr_device *device, void *to, const void *from, int64_t bytes)
{
    record_hosts("a copy", {{from, (size_t)bytes, false}, {to, (size_t)bytes, true}});
    return plain_host.copy(device, to, from, bytes);
}

zr_status host_fill(zr_device *device, void *x, int byte, int64_t bytes)
{
    record_hosts("a fill", {{x, (size_t)bytes, true}});
    return plain_host.fill(device, x, byte, bytes);
}

/* ---- kernels ----------------------------------------------------------------------------------- */

/* Each kernel that records is a function of its own, because a kernel's arguments do not say which kernel runs. */
constexpr int most_kernels = 256;
struct {
    std::mutex lock;
    int n = 0;
    const zr_kernel *kernel[most_kernels];
    zr_kernel recorded[most_kernels];
} kernels;

zr_status run_kernel(const zr_kernel *kernel, const zr_kernel_args *args)
{
    ranges all;
    for (int i = 0; i < args->n_in + args->n_out; i++) {
        const zr_tensor &x = i < args->n_in ? args->in[i] : args->out[i - args->n_in];
        if (x.data) all.push_back({x.data, span(x.dtype, zr_shape_elems(&x.shape)), i >= args->n_in});
    }
    if (args->scratch) all.push_back({args->scratch, 64, true}); /* at least; the arguments lack its size */
    all.push_back({zr__cuda(args->device)->outside, sizeof(zr__cuda_outside), true});
    record_op op(kernel->op, std::move(all));
    return kernel->run(args);
}

template <int N> zr_status run_numbered(const zr_kernel_args *args)
{
    return run_kernel(kernels.kernel[N], args);
}

template <int... N> constexpr auto make_runs(std::integer_sequence<int, N...>)
{
    return std::array<zr_status (*)(const zr_kernel_args *), sizeof...(N)>{run_numbered<N>...};
}
constexpr auto runs = make_runs(std::make_integer_sequence<int, most_kernels>());

const zr_kernel *recorded_kernel(zr_device *device, const char *op)
{
    const zr_kernel *kernel = plain.kernel(device, op);
    if (!kernel) return nullptr;
    std::lock_guard<std::mutex> hold(kernels.lock);
    int i = 0;
    while (i < kernels.n && kernels.kernel[i] != kernel) i++;
    if (i == most_kernels) return kernel;
    if (i == kernels.n) { /* others may run those that are there */
        kernels.kernel[kernels.n++] = kernel;
        kernels.recorded[i] = *kernel;
        kernels.recorded[i].run = runs[(size_t)i];
    }
    return &kernels.recorded[i];
}

/* ---- tables ------------------------------------------------------------------------------------ */

/* Fill the table of the host's processors, from a device of that kind. */
void learn_host(zr_device *device)
{
    plain_host = on_host = *device->ops;
    on_host.finish = host_finish;
    on_host.copy = host_copy;
    on_host.sum = host_sum;
    on_host.square = host_square;
    on_host.square_update = host_square_update;
    on_host.update = host_update;
    on_host.fill = host_fill;
    on_host.cast = host_cast;
}

void learn_gpu(zr_device *device)
{
    plain = on_gpu = *device->ops;
    on_gpu.queue_create = recorded_queue_create;
    on_gpu.queue_destroy = recorded_queue_destroy;
    on_gpu.issue = recorded_issue;
    on_gpu.mark = recorded_mark;
    on_gpu.await = recorded_await;
    on_gpu.sync = recorded_sync;
    on_gpu.finish = recorded_finish;
    on_gpu.kernel = recorded_kernel;
    on_gpu.sum = recorded_sum;
    on_gpu.square = recorded_square;
    on_gpu.square_update = recorded_square_update;
    on_gpu.update = recorded_update;
    on_gpu.cast = recorded_cast;
    on_gpu.total = recorded_total;
    on_gpu.normal = recorded_normal;
}

/* ---- barriers of ranks that are threads --------------------------------------------------------- */

/* A barrier's clocks: of the ranks that have arrived at the current barrier and the one before. */
struct barrier {
    int size = 0, arrived = 0;
    long passed = 0;
    recorded_clock clock[2];
};
std::mutex barriers_lock;
std::unordered_map<void *, barrier> barriers;

void merge(recorded_clock &into, const recorded_clock &from)
{
    if (into.size() < from.size()) into.resize(from.size());
    for (size_t i = 0; i < from.size(); i++) into[i] = std::max(into[i], from[i]);
}

} // namespace

extern "C" {

zr_status __real_zr_device_create_cuda(const zr_device_config *config, zr_device **device);
zr_status __wrap_zr_device_create_cuda(const zr_device_config *config, zr_device **device)
{
    static std::once_flag once;
    const zr_status st = __real_zr_device_create_cuda(config, device);
    if (st != ZR_OK) return st;
    std::call_once(once, [&] { learn_gpu(*device); });
    (*device)->ops = &on_gpu;
    return ZR_OK;
}

void __real_zr__barrier_init(void *b, int size, int host_ranks);
void __wrap_zr__barrier_init(void *b, int size, int host_ranks)
{
    {
        std::lock_guard<std::mutex> hold(barriers_lock);
        barriers[b] = {size, 0, 0, {}};
    }
    __real_zr__barrier_init(b, size, host_ranks);
}

/* All ranks come after what each did before the barrier. */
int __real_zr__barrier_wait(void *b, void (*late)(void *arg), void *arg);
int __wrap_zr__barrier_wait(void *b, void (*late)(void *arg), void *arg)
{
    recorded_clock mine = record_release();
    long turn;
    {
        std::lock_guard<std::mutex> hold(barriers_lock);
        barrier &its = barriers[b];
        turn = its.passed;
        if (its.arrived == 0) its.clock[turn & 1].clear();
        merge(its.clock[turn & 1], mine);
        if (++its.arrived >= its.size) {
            its.arrived = 0;
            its.passed++;
        }
    }
    const int gone = __real_zr__barrier_wait(b, late, arg);
    if (gone != 0) return gone;
    {
        std::lock_guard<std::mutex> hold(barriers_lock);
        mine = barriers[b].clock[turn & 1];
    }
    record_acquire(mine);
    return 0;
}

/* Messages between ranks that are threads: what the sender knows when it begins one, and what the receiver knows when
 * it has copied it. */
struct recorded_line {
    std::deque<recorded_clock> sent, taken;
    int ends = 0;
};

struct recorded_end {
    std::tuple<int, int, uint64_t> route;
    bool sends;
    zr_comm_copier copier;
};

static std::mutex lines_lock;
static std::map<std::tuple<int, int, uint64_t>, recorded_line> lines;
static std::map<zr__channel *, recorded_end *> ends;

static recorded_end *end_of(zr__channel *channel)
{
    std::lock_guard<std::mutex> hold(lines_lock);
    const auto found = ends.find(channel);
    return found == ends.end() ? nullptr : found->second;
}

static void pass_on(const recorded_end *e, std::deque<recorded_clock> recorded_line::*list)
{
    recorded_clock clock = record_release();
    std::lock_guard<std::mutex> hold(lines_lock);
    (lines[e->route].*list).push_back(std::move(clock));
}

static void take_over(const recorded_end *e, std::deque<recorded_clock> recorded_line::*list)
{
    recorded_clock clock;
    {
        std::lock_guard<std::mutex> hold(lines_lock);
        auto &its = lines[e->route].*list;
        if (its.empty()) return;
        clock = std::move(its.front());
        its.pop_front();
    }
    record_acquire(clock);
}

static zr_status copy_message(void *arg, void *to, const void *from, int64_t bytes)
{
    const recorded_end *e = (const recorded_end *)arg;
    take_over(e, &recorded_line::sent);
    return e->copier.copy(e->copier.arg, to, from, bytes);
}

static zr_status finish_message(void *arg)
{
    const recorded_end *e = (const recorded_end *)arg;
    const zr_status st = e->copier.finish(e->copier.arg);
    pass_on(e, &recorded_line::taken);
    return st;
}

zr_status __real_zr__comm_channel(zr_comm *comm, zr__mail *mail, const zr__route *route, const zr_comm_copier *copier,
                                  zr__channel **channel);
zr_status __wrap_zr__comm_channel(zr_comm *comm, zr__mail *mail, const zr__route *route, const zr_comm_copier *copier,
                                  zr__channel **channel)
{
    if (!copier || strcmp(comm->transport, "threads") != 0)
        return __real_zr__comm_channel(comm, mail, route, copier, channel);
    auto *e = new recorded_end{
        {comm->world_ranks[route->from], comm->world_ranks[route->to], route->id}, route->from == comm->rank, *copier};
    zr_comm_copier recorded = *copier;
    recorded.copy = copy_message;
    recorded.finish = finish_message;
    recorded.arg = e;
    const zr_status st = __real_zr__comm_channel(comm, mail, route, &recorded, channel);
    std::lock_guard<std::mutex> hold(lines_lock);
    if (st == ZR_OK) {
        lines[e->route].ends++;
        ends[*channel] = e;
    } else
        delete e;
    return st;
}

zr_status __real_zr__channel_begin(zr__channel *channel, void *memory);
zr_status __wrap_zr__channel_begin(zr__channel *channel, void *memory)
{
    const recorded_end *e = end_of(channel);
    if (e && e->sends) pass_on(e, &recorded_line::sent);
    return __real_zr__channel_begin(channel, memory);
}

zr_status __real_zr__channel_end(zr__channel *channel);
zr_status __wrap_zr__channel_end(zr__channel *channel)
{
    const zr_status st = __real_zr__channel_end(channel);
    const recorded_end *e = end_of(channel);
    if (e && e->sends && st == ZR_OK) take_over(e, &recorded_line::taken);
    return st;
}

void __real_zr__channel_close(zr__channel *channel);
void __wrap_zr__channel_close(zr__channel *channel)
{
    recorded_end *e = end_of(channel);
    __real_zr__channel_close(channel);
    if (!e) return;
    std::lock_guard<std::mutex> hold(lines_lock);
    if (--lines[e->route].ends == 0) lines.erase(e->route);
    ends.erase(channel);
    delete e;
}

/* The engine shows the steps of most streams. */
void __real_zr__comm_show(void *comm, int slot, uint64_t number);
void __wrap_zr__comm_show(void *comm, int slot, uint64_t number)
{
    if (slot < ZR_ENGINE_SHOWN + 2 * ZR_SHOWN_THREADS && slot % 2 == ZR_ENGINE_SHOWN % 2) record_step(number);
    __real_zr__comm_show(comm, slot, number);
}

/* Files with states read and write pinned memory. */
zr_status __real_zr__store_read(void *store, int64_t offset, void *to, int64_t bytes, const char *what);
zr_status __wrap_zr__store_read(void *store, int64_t offset, void *to, int64_t bytes, const char *what)
{
    record_host("a read of a file", to, (size_t)bytes, true);
    return __real_zr__store_read(store, offset, to, bytes, what);
}

zr_status __real_zr__store_write(void *store, int64_t offset, const void *from, int64_t bytes, const char *what);
zr_status __wrap_zr__store_write(void *store, int64_t offset, const void *from, int64_t bytes, const char *what)
{
    record_host("a write of a file", from, (size_t)bytes, false);
    return __real_zr__store_write(store, offset, from, bytes, what);
}
}
