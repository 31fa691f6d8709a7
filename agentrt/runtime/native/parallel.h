/* Work shared among threads. */
#ifndef AGENTRT_PARALLEL_H
#define AGENTRT_PARALLEL_H

#include <stdint.h>

typedef void range_fn(void *task, int worker, int64_t from, int64_t to);

/* Calls run(task, worker, from, to) over disjoint pieces of [0, n), `grain` or fewer items each, on
 * up to `threads` threads, and returns when all are done. `worker` < threads tells the threads
 * apart, for their scratch memory. Which one takes which piece varies, so no piece may depend on
 * another. */
void parallel_for(int threads, int64_t n, int64_t grain, range_fn *run, void *task);

/* The number of threads worth waking for `work` fused multiply-adds (or as many bytes read). */
int threads_for(double work, int threads);

/* Pieces small enough that `threads` finish together, large enough to stream. */
int64_t grain_for(int64_t n, int threads, int64_t least);

#endif
