/* Shared by the translation units of the kernels; not part of what Python sees. */
#ifndef OUTRIDER_INTERNAL_H
#define OUTRIDER_INTERNAL_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

/* On x86-64 the hot functions are compiled for several instruction sets and the best one is taken
 * when the library is loaded, so one build runs, and runs well, everywhere. Elsewhere the
 * baseline (NEON on 64-bit ARM) is what the compiler is given. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && !defined(__clang__) && \
    defined(__GNUC__) && __GNUC__ >= 12
#define HOT __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define HOT
#endif

#define KEY_MINUS_INF ((int32_t)0x807fffff)
#define KEY_PLUS_INF ((int32_t)0x7f800000)

/* Floats as integers of the same order. -0 and +0 are one value; NaNs lie outside both
 * infinities, so a minimum and a maximum find them. Integer maxima may be taken in any order,
 * which is what lets a compiler vectorise them without being allowed to bend float arithmetic. */
static inline int32_t order_key(float x) {
    int32_t bits;
    x += 0.0f;
    memcpy(&bits, &x, sizeof bits);
    return bits ^ ((bits >> 31) & 0x7fffffff);
}

static inline float order_value(int32_t key) {
    float x;
    key ^= (key >> 31) & 0x7fffffff;
    memcpy(&x, &key, sizeof x);
    return x;
}

/* A candidate token as one integer: larger logits first, then lower ids. */
static inline uint64_t candidate(float logit, int32_t id) {
    return (uint64_t)((uint32_t)order_key(logit) ^ 0x80000000u) << 32 | (uint32_t)~id;
}

static inline float candidate_logit(uint64_t c) {
    return order_value((int32_t)((uint32_t)(c >> 32) ^ 0x80000000u));
}

static inline int32_t candidate_id(uint64_t c) { return (int32_t)~(uint32_t)c; }

/* Candidates handed out largest first, sorting no more than is asked for. */
typedef struct {
    uint64_t *items;
    int32_t taken, sorted; /* items[taken .. sorted) are ready */
    int32_t depth;
    int32_t ends[64]; /* every item before ends[i] is larger than every item after it */
    uint32_t state;
} candidate_queue;

void queue_start(candidate_queue *q, uint64_t *items, int32_t n);
uint64_t queue_next(candidate_queue *q);

/* One pass over a row: which entries are looked for, and what is known of the row after it. */
typedef struct {
    const float *row;
    int32_t n;
    int32_t n_edits; /* entries that are replaced, ids ascending */
    const int32_t *edit_ids;
    const float *edit_values;
    const uint32_t *mask; /* NULL, or entries without their bit count as -infinity */

    int32_t top_k; /* > 0: the top_k largest; 0: every entry above the floors */
    float depth;   /* floor: this far below the largest entry (INFINITY: no such floor) */
    float scale;   /* > 0: sum exp(scale * (x - max)) over the row */
    double tail;   /* floor, with scale: entries below this share of the sum (0: no such floor) */

    float max;
    double sum;
} row_scan;

/* Gathers candidates into keys [n + 1], unsorted. Answers how many, or why the row is unusable. */
int32_t scan(row_scan *s, uint64_t *keys);

/* exp(scale * (x - max)) of the whole row into weights [n], exactly 0 for -infinity.
 * `s->max` is known. Answers the sum. */
double weigh(const row_scan *s, double temperature, double *weights);

#endif
