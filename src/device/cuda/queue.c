/* Queues of a GPU, as an extension of src/device/queue.c. Tasks only launch work. Therefore marks are events in the
 * stream, and a task's times are the times when the stream passed the events before and after the task's work. */
#include "device/queue.h"

#include "device/cuda/cuda.h"

/* Number of marks that have their own event. An older mark shares the event of a later mark: when the stream has passed
 * the later mark, it has also passed the older mark. */
enum { MARKS = 1024 };
/* Maximum number of tasks whose times are not reported yet. */
enum { TASKS = 1024 };

struct zr__cuda_marks {
    pthread_mutex_t lock; /* needed since a thread may mark the stream while another thread waits */
    cudaEvent_t event[MARKS];
};

struct zr__cuda_times {
    cudaEvent_t zero; /* event that the stream passed at zero_sec */
    double zero_sec, free_sec;
    int32_t n;
    struct {
        zr_task task;
        cudaEvent_t begin, end;
    } task[TASKS];
};

/* ---- marks ------------------------------------------------------------------------------------- */

static void destroy_event(cudaEvent_t event)
{
    if (event) (void)cudaEventDestroy(event);
}

zr_status zr__cuda_marks_create(zr__cuda_device *cuda)
{
    cuda->marks = zr_alloc(sizeof *cuda->marks);
    ZR_CHECK(cuda->marks, ZR_ERR_MEMORY, "no memory for a device's marks");
    pthread_mutex_init(&cuda->marks->lock, NULL);
    /* Let threads that wait for a mark sleep and not spin, as queues' threads do when they wait for their own stream
     * (cuda_finish). Queues' threads wait for marks, mostly while the GPU computes. */
    const unsigned flags = cudaEventDisableTiming | cudaEventBlockingSync;
    for (int i = 0; i < MARKS; i++) ZR_CUDA(cudaEventCreateWithFlags(&cuda->marks->event[i], flags));
    return ZR_OK;
}

static void times_destroy(zr__cuda_times *t)
{
    if (!t) return;
    for (int i = 0; i < TASKS; i++) {
        destroy_event(t->task[i].begin);
        destroy_event(t->task[i].end);
    }
    destroy_event(t->zero);
    zr_free(t);
}

void zr__cuda_marks_destroy(zr__cuda_device *cuda)
{
    times_destroy(cuda->times);
    if (!cuda->marks) return;
    for (int i = 0; i < MARKS; i++) destroy_event(cuda->marks->event[i]);
    pthread_mutex_destroy(&cuda->marks->lock);
    zr_free(cuda->marks);
}

/* Mark the stream. If marking fails, the thread that waits for the mark and the next `finish` both report the
 * failure. */
static void mark_stream(zr_device *device, int64_t ticket)
{
    zr__cuda_device *cuda = zr__cuda(device);
    pthread_mutex_lock(&cuda->marks->lock);
    const cudaError_t error = cudaEventRecord(cuda->marks->event[ticket % MARKS], cuda->stream);
    pthread_mutex_unlock(&cuda->marks->lock);
    if (error != cudaSuccess) zr__cuda_lose(cuda, zr__cuda_failed(error, "cudaEventRecord"));
}

static zr_status reach_mark(zr_device *device, int64_t ticket)
{
    zr__cuda_device *cuda = zr__cuda(device);
    pthread_mutex_lock(&cuda->marks->lock);
    cudaEvent_t event = cuda->marks->event[ticket % MARKS];
    pthread_mutex_unlock(&cuda->marks->lock);
    ZR_TRY(zr__cuda_lost_failure(cuda, false));
    ZR_CUDA(cudaEventSynchronize(event));
    return ZR_OK;
}

/* Let the stream wait for the event of the mark, which may belong to a later mark by now. */
static zr_status follow_mark(zr_device *device, zr_device *other, int64_t ticket)
{
    zr__cuda_device *marked = zr__cuda(other);
    ZR_TRY(zr__cuda_lost_failure(marked, false));
    pthread_mutex_lock(&marked->marks->lock);
    const cudaError_t error = cudaStreamWaitEvent(zr__cuda(device)->stream, marked->marks->event[ticket % MARKS], 0);
    pthread_mutex_unlock(&marked->marks->lock);
    ZR_CUDA(error);
    return ZR_OK;
}

/* ---- times ------------------------------------------------------------------------------------- */

/* Let task times count from now on. First wait until the stream has completed its work, so that the event at time zero
 * is passed at once. */
static zr_status set_zero(zr__cuda_device *cuda)
{
    ZR_CUDA(cudaStreamSynchronize(cuda->stream));
    cuda->times->zero_sec = zr_clock_sec();
    ZR_CUDA(cudaEventRecord(cuda->times->zero, cuda->stream));
    ZR_CUDA(cudaStreamSynchronize(cuda->stream));
    return ZR_OK;
}

static zr_status times_create(zr__cuda_device *cuda)
{
    zr__cuda_times *t = cuda->times = zr_alloc(sizeof *t);
    ZR_CHECK(t, ZR_ERR_MEMORY, "no memory for the times of tasks");
    ZR_CUDA(cudaEventCreateWithFlags(&t->zero, cudaEventDefault));
    for (int i = 0; i < TASKS; i++) {
        ZR_CUDA(cudaEventCreateWithFlags(&t->task[i].begin, cudaEventDefault));
        ZR_CUDA(cudaEventCreateWithFlags(&t->task[i].end, cudaEventDefault));
    }
    return set_zero(cuda);
}

static zr_status sec_of(const zr__cuda_times *t, cudaEvent_t event, double *sec)
{
    float ms;
    ZR_CUDA(cudaEventElapsedTime(&ms, t->zero, event));
    *sec = t->zero_sec + ms * 1e-3;
    return ZR_OK;
}

zr_status zr__cuda_tell_times(zr__cuda_device *cuda)
{
    zr__cuda_times *t = cuda->times;
    if (t->n == 0) return ZR_OK;
    for (int32_t i = 0; i < t->n; i++) {
        double begin, end;
        const zr_task *task = &t->task[i].task;
        ZR_TRY(sec_of(t, t->task[i].begin, &begin));
        ZR_TRY(sec_of(t, t->task[i].end, &end));
        task->ended(task->arg, task->index, t->free_sec < begin ? t->free_sec : begin, begin, end);
        t->free_sec = end;
    }
    t->n = 0;
    return cuda->in_task ? ZR_OK : set_zero(cuda);
}

void zr__cuda_forget_times(zr__cuda_device *cuda)
{
    if (cuda->times) cuda->times->n = 0;
}

static zr_status run_timed(zr__cuda_device *cuda, const zr_task *task)
{
    if (!cuda->times) ZR_TRY(times_create(cuda));
    zr__cuda_times *t = cuda->times;
    if (t->n == TASKS) ZR_TRY(cuda->base.ops->finish(&cuda->base));
    const int32_t i = t->n;
    if (i == 0) t->free_sec = zr_clock_sec();
    cudaEvent_t begin = t->task[i].begin;
    ZR_CUDA(cudaEventRecord(begin, cuda->stream));
    ZR_TRY(task->run(task->arg, &cuda->base, task->index));
    /* If the task itself waited for the stream, the wait reported all earlier times, so the task's entry is now entry 0
     * and not i. The task's begin event moves with it. */
    const int32_t own = t->n;
    t->task[i].begin = t->task[own].begin;
    t->task[own].begin = begin;
    ZR_CUDA(cudaEventRecord(t->task[own].end, cuda->stream));
    t->task[own].task = *task;
    t->n = own + 1;
    return ZR_OK;
}

static zr_status run_task(zr_device *device, const zr_task *task)
{
    zr__cuda_device *cuda = zr__cuda(device);
    ZR_TRY(zr__cuda_enter(device));
    cuda->in_task = true;
    zr_status st = task->ended ? run_timed(cuda, task) : task->run(task->arg, device, task->index);
    cuda->in_task = false;
    return st;
}

/* ---- the table --------------------------------------------------------------------------------- */

zr_status zr__cuda_queue_create(zr_device *device, const zr_queue_config *config, zr_queue **queue)
{
    static const zr__queue_kind kind = {zr__cuda_side, zr__cuda_enter, run_task, mark_stream, reach_mark, follow_mark},
                                host = {.side = zr__cuda_host};
    return zr__queue_create(config->runs == ZR_QUEUE_HOST ? &host : &kind, device, config, queue);
}
