/* Work over the vocabulary, one row of float32 logits at a time.
 *
 * Plain C11: loops are written so that a compiler's vectoriser takes them. Reductions over floats
 * would have to keep their order, so maxima are taken over integers instead (order_key), where
 * order does not matter. On x86-64 the hot functions are compiled for several instruction sets
 * and chosen when the library is loaded (HOT), so one build runs, and runs well, everywhere.
 */
#include <stdint.h>
#include <string.h>

#include "kernels.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && \
    (defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12)
#define HOT __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define HOT
#endif

#define BLOCK 1024 /* floats scanned before looking up: 4 KiB, well inside the first-level cache */

#define KEY_MINUS_INF ((int32_t)0x807fffff)
#define KEY_PLUS_INF ((int32_t)0x7f800000)

/* Floats as integers of the same order. -0 and +0 are one value; NaNs lie outside both
 * infinities, so a minimum and a maximum find them. */
static inline int32_t order_key(float x) {
    int32_t bits;
    x += 0.0f;
    memcpy(&bits, &x, sizeof bits);
    return bits ^ ((bits >> 31) & 0x7fffffff);
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
