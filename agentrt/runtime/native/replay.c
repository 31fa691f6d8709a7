/* A list of kernel calls, made one after the other. */
#include "kernels.h"

typedef union {
    void *p;
    int64_t n;
    double d;
} word;

/* In the order of REPLAYABLE in library.py. */
enum { LINEAR_F32, LINEAR_INT, RMS_NORM, GATE, ROTATE, STORE, ATTENTION };

typedef struct {
    int64_t function;
    word a[11];
} call;

/* Makes the calls in order; arguments are as the functions take them, in 64 bits each. */
void agentrt_replay(const call *calls, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const word *a = calls[i].a;
        switch (calls[i].function) {
        case LINEAR_F32:
            agentrt_linear_f32(a[0].p, a[1].p, a[2].p, a[3].p, a[4].n, a[5].n, a[6].n, (int)a[7].n);
            break;
        case LINEAR_INT:
            agentrt_linear_int(a[0].p, a[1].p, a[2].p, a[3].p, a[4].p, a[5].n, a[6].n, a[7].n,
                               (int)a[8].n, (int)a[9].n);
            break;
        case RMS_NORM:
            agentrt_rms_norm(a[0].p, a[1].p, a[2].p, a[3].p, a[4].p, a[5].n, a[6].n, a[7].n, a[8].n,
                             (float)a[9].d, (int)a[10].n);
            break;
        case GATE:
            agentrt_gate(a[0].p, a[1].p, a[2].n, a[3].n, (int)a[4].n, (int)a[5].n);
            break;
        case ROTATE:
            agentrt_rotate(a[0].p, a[1].p, a[2].p, a[3].n, a[4].n, a[5].n, a[6].n, a[7].n,
                           (int)a[8].n);
            break;
        case STORE:
            agentrt_store(a[0].p, a[1].p, a[2].p, a[3].n, a[4].n, a[5].n, a[6].n, a[7].n);
            break;
        case ATTENTION:
            agentrt_attention(a[0].p, a[1].p, a[2].p, a[3].n, a[4].n, a[5].p, a[6].p, a[7].p,
                              (int)a[8].n);
            break;
        }
    }
}
