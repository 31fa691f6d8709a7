/* A pool of threads that never waits for a thread that has not come.
 *
 * An OpenMP region ends when every thread of the team has arrived. Where something else wants a
 * core (the event loop, a browser) one of them is often asleep, and the others spin for a time
 * slice or more after the work is done: measured on two busy cores, two threads were several times
 * slower than one. Here the caller takes pieces like everyone else and waits only for those already
 * taken, so at worst it does all the work itself. */
#include "parallel.h"

typedef struct {
    range_fn *run;
    void *task;
    int64_t n, grain;
    int32_t pieces, workers; /* the most workers that may help */
} job;

static void run_alone(const job *j) {
    if (j->n > 0) j->run(j->task, 0, 0, j->n);
}

#ifdef _WIN32
static void run_together(const job *j) { run_alone(j); }
#else
#include <pthread.h>
#include <sched.h>

enum { CLOSED = 1 << 30, SPINS = 4000 };

/* `turn` is the generation of the job (upper half) and its next piece (lower half). A piece is
 * taken by compare and swap, which fails if the job has changed since its fields were read; while
 * they are being written the next piece is CLOSED. */
static struct {
    pthread_mutex_t in_use; /* one job at a time; another caller meanwhile works alone */
    pthread_mutex_t bed;
    pthread_cond_t alarm;
    job current;
    uint64_t turn;
    int32_t done, sleepers, started;
} pool = {.in_use = PTHREAD_MUTEX_INITIALIZER,
          .bed = PTHREAD_MUTEX_INITIALIZER,
          .alarm = PTHREAD_COND_INITIALIZER,
          .turn = CLOSED};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static uint64_t turn_now(void) { return __atomic_load_n(&pool.turn, __ATOMIC_ACQUIRE); }

static int piece_of(uint64_t turn) { return (int)(turn & 0xffffffffu); }

/* Takes pieces of the current job until none is left. */
static void take_pieces(int worker) {
    for (;;) {
        uint64_t turn = turn_now();
        if (piece_of(turn) >= CLOSED) return;
        job j = pool.current;
        int64_t from = piece_of(turn) * j.grain;
        if (piece_of(turn) >= j.pieces || worker >= j.workers) return;
        if (!__atomic_compare_exchange_n(&pool.turn, &turn, turn + 1, 0, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        j.run(j.task, worker, from, from + j.grain < j.n ? from + j.grain : j.n);
        __atomic_fetch_add(&pool.done, 1, __ATOMIC_RELEASE);
    }
}

static void sleep_until_not(uint64_t generation) {
    pthread_mutex_lock(&pool.bed);
    __atomic_fetch_add(&pool.sleepers, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&pool.turn, __ATOMIC_SEQ_CST) >> 32 == generation)
        pthread_cond_wait(&pool.alarm, &pool.bed);
    __atomic_fetch_sub(&pool.sleepers, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&pool.bed);
}

static void *work(void *number) {
    int worker = (int)(intptr_t)number;
    uint64_t seen = 0;
    for (;;) {
        /* The next product usually comes within microseconds: look awhile before sleeping. */
        for (int i = 0; i < SPINS && turn_now() >> 32 == seen; i++) relax();
        if (turn_now() >> 32 == seen) sleep_until_not(seen);
        seen = turn_now() >> 32;
        take_pieces(worker);
    }
    return 0;
}

/* A forked child has the pool's memory and none of its threads: it starts its own. */
static void forget_threads(void) {
    pool.started = pool.sleepers = 0;
    pthread_mutex_init(&pool.in_use, 0);
    pthread_mutex_init(&pool.bed, 0);
    pthread_cond_init(&pool.alarm, 0);
}

static void start_workers(int32_t wanted) {
    static int registered;
    if (!registered) registered = pthread_atfork(0, 0, forget_threads) == 0;
    for (; pool.started < wanted; pool.started++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, work, (void *)(intptr_t)(pool.started + 1))) return;
        pthread_detach(thread);
    }
}

static void run_together(const job *j) {
    if (pthread_mutex_trylock(&pool.in_use)) {
        run_alone(j);
        return;
    }
    start_workers(j->workers - 1);
    uint64_t generation = (turn_now() >> 32) + 1;
    __atomic_store_n(&pool.turn, generation << 32 | CLOSED, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* no field may be seen to change before that */
    pool.current = *j;
    __atomic_store_n(&pool.done, 0, __ATOMIC_RELAXED);
    generation++;
    __atomic_store_n(&pool.turn, generation << 32, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool.sleepers, __ATOMIC_SEQ_CST)) {
        pthread_mutex_lock(&pool.bed);
        pthread_cond_broadcast(&pool.alarm);
        pthread_mutex_unlock(&pool.bed);
    }
    take_pieces(0);
    for (int spins = 0; __atomic_load_n(&pool.done, __ATOMIC_ACQUIRE) < j->pieces; spins++) {
        if (spins < SPINS)
            relax();
        else
            sched_yield(); /* whoever holds the last piece may be waiting for this core */
    }
    pthread_mutex_unlock(&pool.in_use);
}
#endif

void parallel_for(int threads, int64_t n, int64_t grain, range_fn *run, void *task) {
    if (grain < 1) grain = 1;
    int64_t pieces = (n + grain - 1) / grain;
    job j = {run, task, n, grain, (int32_t)pieces, threads};
    if (threads > 1 && pieces > 1)
        run_together(&j);
    else
        run_alone(&j);
}

/* Waking a thread costs about as much as this many multiply-adds on one core. */
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
