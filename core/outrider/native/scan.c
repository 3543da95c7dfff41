/* Passes over a row: maxima, sums, and gathering the candidates that matter.
 *
 * The row is read in blocks that stay in the first-level cache while several short loops, each of
 * a form that vectorises, look at them. Blocks without anything of interest, nearly all of them,
 * cost one comparison more. The row is never written to: a block with edited or masked entries
 * is copied first. */
#include "internal.h"

enum { BLOCK = 256, STRETCH = 32 }; /* BLOCK is a multiple of a mask word, 32 bits */

/* Asks for a block some way ahead. A row has usually just been copied from elsewhere, and hardware
 * that fetches ahead stops at page borders. Asking beyond the end of a row does no harm. */
static inline void fetch_ahead(const float *x) {
#if defined(__GNUC__)
    for (int32_t i = 0; i < BLOCK; i += 16) __builtin_prefetch(x + 4 * BLOCK + i);
#else
    (void)x;
#endif
}

static inline void key_range(const float *x, int32_t n, int32_t *low, int32_t *high) {
    int32_t lo = INT32_MAX, hi = INT32_MIN;
    for (int32_t i = 0; i < n; i++) {
        int32_t key = order_key(x[i]);
        lo = key < lo ? key : lo;
        hi = key > hi ? key : hi;
    }
    *low = lo;
    *high = hi;
}

HOT int32_t argmax(const float *row, int32_t n) {
    int32_t low = INT32_MAX, high = INT32_MIN, where = 0;
    for (int32_t start = 0; start < n; start += BLOCK) {
        int32_t lo, hi;
        fetch_ahead(row + start);
        key_range(row + start, n - start < BLOCK ? n - start : BLOCK, &lo, &hi);
        low = lo < low ? lo : low;
        if (hi > high) {
            high = hi;
            where = start;
        }
    }
    if (low < KEY_MINUS_INF || high > KEY_PLUS_INF) return ROW_NAN;
    if (high == KEY_MINUS_INF) return ROW_EMPTY;
    while (order_key(row[where]) != high) where++;
    return where;
}

int32_t top2(const float *row, int32_t n, int32_t *ids) {
    int32_t first = argmax(row, n);
    ids[0] = first;
    ids[1] = -1;
    if (first < 0) return first;
    int32_t before = first > 0 ? argmax(row, first) : ROW_EMPTY;
    int32_t after = first + 1 < n ? argmax(row + first + 1, n - first - 1) : ROW_EMPTY;
    if (after >= 0) after += first + 1;
    if (before >= 0 && (after < 0 || row[before] >= row[after]))
        ids[1] = before;
    else
        ids[1] = after >= 0 ? after : -1;
    return first;
}

/* exp for x <= 0, to about 1e-7 of the value; 0 below the smallest normal float. The argument is
 * split into n ln 2 + r with |r| <= ln 2 / 2; exp(r) is its Taylor polynomial, 2^n is put into
 * the exponent bits. Adding 1.5 * 2^23 rounds to an integer without leaving float registers. */
static inline float exp_negative(float x) {
    const float shift = 12582912.0f;
    float biased = x * 1.44269504f + shift;
    float n = biased - shift;
    float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    float y = 1.0f / 5040;
    y = y * r + 1.0f / 720;
    y = y * r + 1.0f / 120;
    y = y * r + 1.0f / 24;
    y = y * r + 1.0f / 6;
    y = y * r + 0.5f;
    y = y * r + 1.0f;
    y = y * r + 1.0f;
    uint32_t exponent;
    memcpy(&exponent, &biased, sizeof exponent);
    exponent = (exponent + 127u) << 23; /* the low bits of `biased` are n */
    float power;
    memcpy(&power, &exponent, sizeof power);
    return x < -87.0f ? 0.0f : y * power;
}

static inline float block_sum(const float *x, int32_t n, float max, float scale) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int32_t i = 0; i < n; i++) sum += exp_negative(scale * (x[i] - max));
    return sum;
}

/* The block at `start` as it counts: in place, or copied with edits and mask applied. */
static inline const float *block_at(const row_scan *s, int32_t start, int32_t n, int32_t *edit,
                                    float *copy) {
    int32_t first = *edit, last = first;
    while (last < s->n_edits && s->edit_ids[last] < start + n) last++;
    *edit = last;
    if (first == last && !s->mask) return s->row + start;
    memcpy(copy, s->row + start, (size_t)n * sizeof *copy);
    for (int32_t e = first; e < last; e++) copy[s->edit_ids[e] - start] = s->edit_values[e];
    if (s->mask) {
        for (int32_t i = 0; i < n; i += 32) {
            uint32_t word = s->mask[(start + i) / 32];
            int32_t bits = n - i < 32 ? n - i : 32;
            for (int32_t b = 0; b < bits; b++)
                copy[i + b] = word >> b & 1 ? copy[i + b] : -INFINITY;
        }
    }
    return copy;
}

/* Entries above the bound, as candidates. Few blocks have more than one or two of them, so most
 * stretches are dismissed by a comparison in lanes. */
static inline int32_t gather(const float *x, int32_t n, float bound, int32_t id, uint64_t *keys) {
    int32_t count = 0;
    for (int32_t start = 0; start < n; start += STRETCH) {
        int32_t end = n - start < STRETCH ? n : start + STRETCH, above = 0;
        for (int32_t i = start; i < end; i++) above |= x[i] > bound;
        if (!above) continue;
        for (int32_t i = start; i < end; i++) {
            keys[count] = candidate(x[i], id + i);
            count += x[i] > bound;
        }
    }
    return count;
}

/* Entries at or below this cannot matter any more, given what was seen so far. The sum only
 * grows, so an entry's share of it only shrinks. */
static inline float floor_of(const row_scan *s) {
    float bound = -INFINITY;
    if (s->depth < INFINITY) bound = nextafterf(s->max - s->depth, -INFINITY);
    if (s->tail > 0.0 && s->sum > 0.0) {
        float share = s->max + (float)(log(s->sum * s->tail) / s->scale);
        if (share > bound) bound = share;
    }
    return bound;
}

HOT int32_t scan(row_scan *s, uint64_t *keys) {
    float copy[BLOCK];
    float bound = -INFINITY;
    int32_t count = 0, edit = 0, high = KEY_MINUS_INF;
    int64_t crowded = 2 * (int64_t)s->top_k + 32;
    s->max = -INFINITY;
    s->sum = 0.0;
    for (int32_t start = 0; start < s->n; start += BLOCK) {
        int32_t n = s->n - start < BLOCK ? s->n - start : BLOCK, lo, hi;
        const float *x = block_at(s, start, n, &edit, copy);
        fetch_ahead(s->row + start);
        key_range(x, n, &lo, &hi);
        if (lo < KEY_MINUS_INF || hi > KEY_PLUS_INF) return ROW_NAN;
        if (hi == KEY_PLUS_INF) return ROW_INFINITE;
        if (hi == KEY_MINUS_INF) continue;
        if (hi > high) {
            float max = order_value(hi);
            if (s->sum > 0.0) s->sum *= exp(s->scale * ((double)s->max - max));
            s->max = max;
            high = hi;
        }
        if (s->scale > 0.0f) s->sum += block_sum(x, n, s->max, s->scale);
        float best = order_value(hi);
        if (best <= bound) continue;
        if (s->top_k == 0 && best <= (bound = floor_of(s))) continue;
        count += gather(x, n, bound, start, keys + count);
        if (s->top_k > 0 && count >= crowded) {
            candidate_queue q;
            queue_start(&q, keys, count);
            while (q.taken < s->top_k) queue_next(&q);
            count = s->top_k;
            bound = candidate_logit(keys[count - 1]);
        }
    }
    return high == KEY_MINUS_INF ? ROW_EMPTY : count;
}

HOT double weigh(const row_scan *s, double temperature, double *weights) {
    float copy[BLOCK], block[BLOCK];
    float t = (float)temperature, max = s->max / t;
    int32_t edit = 0;
    double total = 0.0;
    for (int32_t start = 0; start < s->n; start += BLOCK) {
        int32_t n = s->n - start < BLOCK ? s->n - start : BLOCK;
        const float *x = block_at(s, start, n, &edit, copy);
        for (int32_t i = 0; i < n; i++) block[i] = exp_negative(x[i] / t - max);
#pragma omp simd reduction(+ : total)
        for (int32_t i = 0; i < n; i++) total += weights[start + i] = block[i];
    }
    return total;
}

void best_path(const float *lattice, int32_t n, int32_t stride, int32_t k, int32_t *tokens) {
    int32_t previous = 0;
    for (int32_t i = 0; i < n; i++) {
        const float *row = lattice + (size_t)i * (size_t)stride;
        const float *scores = row + k + (size_t)previous * (size_t)k;
        int32_t best = 0;
        for (int32_t j = 1; j < k; j++)
            if (scores[j] > scores[best]) best = j;
        tokens[i] = (int32_t)row[best];
        previous = best;
    }
}
