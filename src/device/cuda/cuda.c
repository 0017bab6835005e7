/* NVIDIA GPUs. A device is a stream of a GPU, to which the device's operations are issued. In a task, operations return
 * before they have completed. Kernels and the computations of ZeRO's steps are in kernels/, one file for each family.
 */
#include "device/cuda/cuda.h"
#include "device/cuda/products.h"

#include <stdio.h>
#include <string.h>

#include "cuda_kernel_list.h"
#include "device/device.h"
#include "device/queue.h"

#define DECLARE_FAMILY(family) extern const zr_kernel zr__cuda_kernels_##family[];
ZR_CUDA_FAMILIES(DECLARE_FAMILY)
#define FAMILY_ENTRY(family) zr__cuda_kernels_##family,
static const zr_kernel *const families[] = {ZR_CUDA_FAMILIES(FAMILY_ENTRY) NULL};

/* Minimum major compute capability that the kernels support. */
enum { MAJOR_LEAST = 8 };

/* ---- failures ---------------------------------------------------------------------------------- */

static zr_status no_memory(const char *what)
{
    size_t free_bytes = 0, total_bytes = 0;
    (void)cudaMemGetInfo(&free_bytes, &total_bytes);
    return ZR_FAIL(ZR_ERR_MEMORY,
                   "no memory on the GPU for %s: %.2f of %.2f GB are free; other processes may use the rest", what,
                   (double)free_bytes / 1e9, (double)total_bytes / 1e9);
}

zr_status zr__cuda_failed(cudaError_t error, const char *what)
{
    (void)cudaGetLastError(); /* clear the error, since it would look like the failure of a later launch */
    if (error == cudaErrorMemoryAllocation) return no_memory(what);
    bool here = error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver || error == cudaErrorInvalidDevice;
    return ZR_FAIL(here ? ZR_ERR_UNSUPPORTED : ZR_ERR_IO, "the GPU: %s (in %.40s)", cudaGetErrorString(error), what);
}

void zr__cuda_lose(zr__cuda_device *cuda, zr_status status)
{
    zr__cuda_lost *lost = &cuda->lost;
    if (status == ZR_OK) return;
    pthread_mutex_lock(&lost->lock);
    if (lost->status == ZR_OK) snprintf(lost->text, sizeof lost->text, "%s", zr_error_message());
    if (lost->status == ZR_OK) lost->status = status;
    pthread_mutex_unlock(&lost->lock);
}

zr_status zr__cuda_lost_failure(zr__cuda_device *cuda, bool forget)
{
    zr__cuda_lost *lost = &cuda->lost;
    pthread_mutex_lock(&lost->lock);
    const zr_status status = lost->status == ZR_OK ? ZR_OK : ZR_FAIL(lost->status, "%s", lost->text);
    if (forget) lost->status = ZR_OK;
    pthread_mutex_unlock(&lost->lock);
    return status;
}

/* ---- what is there ----------------------------------------------------------------------------- */

const char *zr__device_cuda_built(void)
{
    return ZR_CUDA_BUILT;
}

const char *zr__device_cuda_trouble(void)
{
    int n = 0, driver = 0;
    const cudaError_t error = cudaGetDeviceCount(&n);
    if (error == cudaSuccess) return "";
    (void)cudaGetLastError();
    if (error == cudaErrorNoDevice || cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return "";
    return error == cudaErrorInsufficientDriver ? "the driver is older than the CUDA that zr was built with"
                                                : cudaGetErrorString(error);
}

int zr_device_cuda_count(const char **why)
{
    int n = 0, driver = 0;
    const cudaError_t error = cudaGetDeviceCount(&n);
    const char *text = zr__device_cuda_trouble();
    if (error != cudaSuccess) {
        n = 0;
        (void)cudaGetLastError();
    }
    if (n == 0 && !text[0])
        text = cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0 ? "there is no NVIDIA driver on this machine"
                                                                           : "no GPU is visible to this process";
    if (why) *why = text;
    return n;
}

zr_status zr__device_cuda_gpu(int gpu, zr__gpu *found)
{
    const char *why;
    const int n = zr_device_cuda_count(&why);
    ZR_CHECK(n > 0, ZR_ERR_UNSUPPORTED, "no GPU: %s", why);
    ZR_CHECK(gpu >= 0 && gpu < n, ZR_ERR_UNSUPPORTED, "there is no GPU %d; there are %d, numbered from 0", gpu, n);
    struct cudaDeviceProp prop;
    ZR_CUDA(cudaGetDeviceProperties(&prop, gpu));
    *found = (zr__gpu){.memory_bytes = (int64_t)prop.totalGlobalMem, .major = prop.major, .minor = prop.minor};
    snprintf(found->name, sizeof found->name, "%.63s", prop.name);
    return ZR_OK;
}

zr_status zr__device_cuda_free(int gpu, int64_t *bytes)
{
    int current;
    size_t free_bytes = 0, total_bytes;
    ZR_CUDA(cudaGetDevice(&current));
    ZR_CUDA(cudaSetDevice(gpu));
    const cudaError_t error = cudaMemGetInfo(&free_bytes, &total_bytes);
    ZR_CUDA(cudaSetDevice(current));
    ZR_CUDA(error);
    *bytes = (int64_t)free_bytes;
    return ZR_OK;
}

/* ---- the device of the calling thread ---------------------------------------------------------- */

/* Make the device's GPU current on the calling thread. CUDA has one current GPU for each host thread, and launches
 * kernels only to streams of that GPU. */
zr_status zr__cuda_enter(zr_device *device)
{
    ZR_CUDA(cudaSetDevice(zr__cuda(device)->ordinal));
    return ZR_OK;
}

zr_status zr__cuda_begin(zr_device *device)
{
    return zr__cuda(device)->in_task ? ZR_OK : zr__cuda_enter(device);
}

/* ---- memory ------------------------------------------------------------------------------------ */

zr_status zr__cuda_end(zr_device *device, zr_status status)
{
    zr__cuda_device *cuda = zr__cuda(device);
    if (status == ZR_OK && !cuda->in_task) ZR_CUDA(cudaStreamSynchronize(cuda->stream));
    return status;
}

static zr_status set_bytes(zr_device *device, void *x, int byte, int64_t bytes)
{
    if (bytes > 0) ZR_CUDA(cudaMemsetAsync(x, byte, (size_t)bytes, zr__cuda(device)->stream));
    return ZR_OK;
}

static zr_status cuda_alloc(zr_device *device, int64_t bytes, void **memory)
{
    char what[64];
    ZR_CHECK(bytes >= 0, ZR_ERR_ARG, "cannot allocate %lld bytes: the size must be 0 or more", (long long)bytes);
    ZR_TRY(zr__cuda_enter(device));
    const cudaError_t error = cudaMalloc(memory, bytes > 0 ? (size_t)bytes : 1);
    snprintf(what, sizeof what, "%lld bytes", (long long)bytes);
    if (error != cudaSuccess) return zr__cuda_failed(error, what);
    zr_status st = set_bytes(device, *memory, 0, bytes);
    if (st == ZR_OK && cudaStreamSynchronize(zr__cuda(device)->stream) != cudaSuccess) st = ZR_ERR_IO;
    if (st == ZR_OK) return ZR_OK;
    (void)cudaFree(*memory);
    return ZR_FAIL(st, "the GPU failed to clear %s", what);
}

static void cuda_free(zr_device *device, void *memory)
{
    (void)device;
    (void)cudaFree(memory);
}

/* Clear memory of the host. It may be most of the host's memory, for which one thread takes minutes. */
static void clear_host(char *memory, int64_t bytes, int threads)
{
    const int64_t part = (int64_t)4 << 20;
#pragma omp parallel for num_threads(threads > 1 && bytes > part ? threads : 1) schedule(static)
    for (int64_t at = 0; at < bytes; at += part)
        memset(memory + at, 0, (size_t)(bytes - at < part ? bytes - at : part));
}

static zr_status cuda_alloc_host(zr_device *device, int64_t bytes, void **memory)
{
    ZR_CHECK(bytes >= 0, ZR_ERR_ARG, "cannot allocate %lld bytes: the size must be 0 or more", (long long)bytes);
    ZR_TRY(zr__cuda_enter(device));
    const cudaError_t error = cudaHostAlloc(memory, bytes > 0 ? (size_t)bytes : 1, cudaHostAllocMapped);
    if (error != cudaSuccess) (void)cudaGetLastError();
    ZR_CHECK(error != cudaErrorMemoryAllocation, ZR_ERR_MEMORY,
             "no memory of the host for %lld bytes that the GPU is to read", (long long)bytes);
    ZR_CUDA(error);
    clear_host(*memory, bytes > 0 ? bytes : 1, zr__cuda(device)->host_threads);
    return ZR_OK;
}

static void cuda_free_host(zr_device *device, void *memory)
{
    (void)device;
    (void)cudaFreeHost(memory);
}

static void cuda_populate(zr_device *device, void *memory, int64_t bytes)
{
    /* Do nothing, because GPU memory and pinned host memory have their pages from the start. */
    (void)device, (void)memory, (void)bytes;
}

/* ---- the table --------------------------------------------------------------------------------- */

/* Fail if a kernel has found an index outside its table. The stream must have completed all work. */
static zr_status outside_failure(zr__cuda_device *cuda)
{
    const zr__cuda_outside found = *cuda->outside;
    *cuda->outside = (zr__cuda_outside){.what = NULL};
    ZR_CHECK(!found.what, ZR_ERR_DATA, "%s %d at row %lld, position %lld is outside the %s of %lld%s", found.what,
             found.index, (long long)(found.at / found.cols), (long long)(found.at % found.cols),
             found.in_row ? "row" : "vocabulary", (long long)found.end,
             found.in_row ? "" : ": check the data's tokenizer");
    return ZR_OK;
}

/* Wait until the stream has completed all work. The computing thread spins while it waits, as CUDA does by default if
 * there are enough cores, because the GPU is idle until this thread goes on. A queue's thread sleeps, because it waits
 * for copies and other ranks for most of a step, and ranks and loaders need its core. A sleeping thread wakes about 20
 * us late, but this delays only work that overlaps with computation. */
static zr_status await_stream(zr__cuda_device *cuda)
{
    if (cuda->ended) ZR_CUDA(cudaEventRecord(cuda->ended, cuda->stream));
    ZR_CUDA(cuda->ended ? cudaEventSynchronize(cuda->ended) : cudaStreamSynchronize(cuda->stream));
    return ZR_OK;
}

static zr_status cuda_finish(zr_device *device)
{
    zr__cuda_device *cuda = zr__cuda(device);
    ZR_TRY(zr__cuda_begin(device));
    const zr_status lost = zr__cuda_lost_failure(cuda, true), waited = await_stream(cuda);
    /* Discard the times, whose receiver may no longer exist when the next `finish` reports times. */
    if (lost != ZR_OK || waited != ZR_OK) zr__cuda_forget_times(cuda);
    ZR_TRY(waited);
    ZR_TRY(lost);
    if (cuda->times) ZR_TRY(zr__cuda_tell_times(cuda));
    return outside_failure(cuda);
}

static zr_status cuda_note(zr_device *device)
{
    zr__cuda_device *cuda = zr__cuda(device);
    ZR_TRY(zr__cuda_begin(device));
    ZR_CUDA(cudaEventRecord(cuda->noted, cuda->stream));
    return ZR_OK;
}

static zr_status cuda_reach(zr_device *device)
{
    ZR_TRY(zr__cuda_begin(device));
    ZR_CUDA(cudaEventSynchronize(zr__cuda(device)->noted)); /* no wait if it was never recorded */
    return ZR_OK;
}

static zr_status cuda_copy(zr_device *device, void *to, const void *from, int64_t bytes)
{
    ZR_TRY(zr__cuda_begin(device));
    if (bytes > 0) ZR_CUDA(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, zr__cuda(device)->stream));
    return zr__cuda_end(device, ZR_OK);
}

static zr_status cuda_fill(zr_device *device, void *x, int byte, int64_t bytes)
{
    ZR_TRY(zr__cuda_begin(device));
    return zr__cuda_end(device, set_bytes(device, x, byte, bytes));
}

static zr_status cuda_cast(zr_device *device, void *out, zr_dtype out_dtype, const void *in, zr_dtype dtype, int64_t n,
                           const zr_casting *casting)
{
    ZR_TRY(zr__check_cast(out_dtype, dtype, casting));
    if (out_dtype == dtype) return cuda_copy(device, out, in, zr_dtype_span(dtype, n));
    ZR_TRY(zr__cuda_begin(device));
    return zr__cuda_end(device, zr__cuda_cast(device, out, out_dtype, in, dtype, n, casting));
}

static void cuda_normal(zr_device *device, const zr_rng *rng, uint64_t first, int64_t n, float std, float *out)
{
    zr_status st = zr__cuda_begin(device);
    if (st == ZR_OK) st = zr__cuda_end(device, zr__cuda_normal(device, rng, first, n, std, out));
    zr__cuda_lose(zr__cuda(device), st);
}

/* Find a kernel. Make the device's GPU current, because the caller then prepares the kernel on the current GPU. */
static const zr_kernel *cuda_kernel(zr_device *device, const char *op)
{
    (void)!zr__cuda_begin(device); /* a failure is ignored here, because the kernel's own calls will fail then */
    return zr__kernel_first(device->profile.facts.kernels, families, op);
}

/* ---- creation ---------------------------------------------------------------------------------- */

static void cuda_destroy(zr_device *device)
{
    zr__cuda_device *cuda = zr__cuda(device);
    (void)cudaSetDevice(cuda->ordinal); /* a failure is ignored, to keep the message of an earlier failure */
    zr__cuda_marks_destroy(cuda);
    zr__cuda_products_close(cuda);
    if (cuda->outside) (void)cudaFreeHost(cuda->outside);
    if (cuda->room) (void)cudaFree(cuda->room);
    if (cuda->ended) (void)cudaEventDestroy(cuda->ended);
    if (cuda->noted) (void)cudaEventDestroy(cuda->noted);
    if (cuda->stream) (void)cudaStreamDestroy(cuda->stream);
    pthread_mutex_destroy(&cuda->lost.lock);
    zr_free(cuda);
}

/* Create the device's own stream, and the memory through which the kernels of ZeRO's steps pass results. A GPU starts
 * the blocks of an urgent stream's kernels before the blocks of other kernels that wait for a place. */
static zr_status take_own(zr__cuda_device *cuda, bool urgent)
{
    int least = 0, greatest = 0;
    pthread_mutex_init(&cuda->lost.lock, NULL);
    ZR_TRY(zr__cuda_enter(&cuda->base));
    ZR_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    ZR_CUDA(cudaStreamCreateWithPriority(&cuda->stream, cudaStreamNonBlocking, urgent ? greatest : least));
    ZR_CUDA(cudaEventCreateWithFlags(&cuda->noted, cudaEventDisableTiming));
    cuda->base.stream = cuda->stream;
    void *room, *outside;
    ZR_TRY(cuda_alloc(&cuda->base, sizeof *cuda->room, &room));
    cuda->room = room;
    ZR_TRY(cuda_alloc_host(&cuda->base, sizeof *cuda->outside, &outside));
    cuda->outside = outside;
    return ZR_OK;
}

static zr_status create_ended(zr__cuda_device *cuda)
{
    ZR_CUDA(cudaEventCreateWithFlags(&cuda->ended, cudaEventDisableTiming | cudaEventBlockingSync));
    return ZR_OK;
}

/* Complete a device: create its stream and memory. If the device's queue has a thread, also create the event that the
 * thread waits for. Unless the thread waits for the work of each task, create events by which other queues wait for the
 * stream. */
static zr_status complete_device(zr__cuda_device *cuda, const zr_queue_config *queue, zr_device **device)
{
    zr_status st = take_own(cuda, queue->urgent);
    if (st == ZR_OK && queue->runs >= ZR_QUEUE_THREAD) st = create_ended(cuda);
    if (st == ZR_OK && queue->runs != ZR_QUEUE_THREAD) st = zr__cuda_marks_create(cuda);
    if (st != ZR_OK) {
        cuda_destroy(&cuda->base);
        return zr_error_frame(st, __func__, __FILE__, __LINE__);
    }
    *device = &cuda->base;
    return ZR_OK;
}

zr_status zr__cuda_side(zr_device *device, const zr_queue_config *config, zr_device **side)
{
    zr__cuda_device *cuda = zr_alloc(sizeof *cuda);
    ZR_CHECK(cuda, ZR_ERR_MEMORY, "no memory for a device's %zu bytes", sizeof *cuda);
    cuda->base = *device;
    cuda->ordinal = zr__cuda(device)->ordinal;
    cuda->host_threads = zr__cuda(device)->host_threads;
    cuda->in_task =
        config->runs == ZR_QUEUE_THREAD; /* all operations on the thread of a ZR_QUEUE_THREAD belong to tasks */
    return complete_device(cuda, config, side);
}

zr_status zr__cuda_host(zr_device *device, const zr_queue_config *config, zr_device **host)
{
    (void)config;
    return zr_device_create_cpu(&(zr_device_config){.threads = zr__cuda(device)->host_threads}, host);
}

static const zr_device_ops cuda_ops = {
    .destroy = cuda_destroy,
    .queue_create = zr__cuda_queue_create,
    .queue_destroy = zr__queue_destroy,
    .issue = zr__queue_issue,
    .mark = zr__queue_mark,
    .await = zr__queue_await,
    .sync = zr__queue_sync,
    .cancel = zr__queue_cancel,
    .finish = cuda_finish,
    .note = cuda_note,
    .reach = cuda_reach,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .alloc_host = cuda_alloc_host,
    .free_host = cuda_free_host,
    .copy = cuda_copy,
    .kernel = cuda_kernel,
    .sum = zr__cuda_sum,
    .square = zr__cuda_square,
    .update = zr__cuda_update,
    .square_update = zr__cuda_square_update,
    .fill = cuda_fill,
    .populate = cuda_populate,
    .cast = cuda_cast,
    .total = zr__cuda_total,
    .normal = cuda_normal,
    .measure = zr__cuda_measure,
    .bench = zr__cuda_bench,
};

zr_status zr_device_create_cuda(const zr_device_config *config, zr_device **device)
{
    zr__gpu gpu;
    ZR_TRY(zr__device_cuda_gpu(config->gpu, &gpu));
    ZR_CHECK(gpu.major >= MAJOR_LEAST, ZR_ERR_UNSUPPORTED,
             "GPU %d (%s) has compute capability %d.%d; at least %d.0 is needed", config->gpu, gpu.name, gpu.major,
             gpu.minor, MAJOR_LEAST);
    zr__cuda_device *cuda = zr_alloc(sizeof *cuda);
    ZR_CHECK(cuda, ZR_ERR_MEMORY, "no memory for a device's %zu bytes", sizeof *cuda);
    cuda->ordinal = config->gpu;
    cuda->host_threads = config->threads;
    cuda->base.ops = &cuda_ops;
    zr_device_facts *facts = &cuda->base.profile.facts;
    snprintf(facts->name, sizeof facts->name, "this machine (%.31s)", gpu.name);
    facts->threads = 1;
    facts->own_memory = true;
    facts->bf16_products = true;
    facts->narrow_attention = true;
    facts->kernels = config->kernels;
    facts->scratch_bytes = zr_device_cuda_scratch;
    cuda->base.profile.machine.memory_bytes = gpu.memory_bytes;
    return complete_device(cuda, &(zr_queue_config){.runs = ZR_QUEUE_AT_ONCE}, device);
}
