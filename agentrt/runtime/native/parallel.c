#include "parallel.h"

/* void GOMP_parallel(fn, data, threads, flags), as GCC's libgomp and LLVM's libomp export it. Its
 * address is handed in at load time: sharing the pool that torch has already started means that
 * the two never compete for the cores. Without it everything runs on the calling thread. */
typedef void gomp_parallel_fn(void (*)(void *), void *, unsigned, unsigned);
static gomp_parallel_fn *gomp_parallel;

void agentrt_use_openmp(void *address) { gomp_parallel = (gomp_parallel_fn *)address; }

typedef struct {
    range_fn *run;
    void *task;
    int64_t n, grain, next;
    int workers;
} shared_work;

static void take_pieces(void *shared) {
    shared_work *w = shared;
    int worker = __atomic_fetch_add(&w->workers, 1, __ATOMIC_RELAXED);
    for (;;) {
        int64_t from = __atomic_fetch_add(&w->next, w->grain, __ATOMIC_RELAXED);
        if (from >= w->n) return;
        int64_t to = from + w->grain < w->n ? from + w->grain : w->n;
        w->run(w->task, worker, from, to);
    }
}

void parallel_for(int threads, int64_t n, int64_t grain, range_fn *run, void *task) {
    shared_work work = {run, task, n, grain < 1 ? 1 : grain, 0, 0};
    int64_t pieces = (n + work.grain - 1) / work.grain;
    if (threads > pieces) threads = (int)pieces;
    if (threads > 1 && gomp_parallel)
        gomp_parallel(take_pieces, &work, (unsigned)threads, 0);
    else if (n > 0)
        run(task, 0, 0, n);
}

/* Waking a pool costs a few microseconds, in which one core does about this much. */
#define WORK_PER_THREAD 60000.0

int threads_for(double work, int threads) {
    double useful = work / WORK_PER_THREAD;
    return useful < 1 ? 1 : useful < threads ? (int)useful : threads;
}

int64_t grain_for(int64_t n, int threads, int64_t least) {
    if (threads <= 1) return n;
    int64_t grain = n / (threads * 8);
    return grain < least ? least : grain;
}
