/* Incremental quicksort (Paredes and Navarro, "Optimal incremental sorting", 2006): the k largest
 * of n in order for O(n + k log k), without knowing k beforehand. Candidates are distinct
 * integers, so there are no equals to worry about. */
#include "internal.h"

enum { SMALL = 16 };

void queue_start(candidate_queue *q, uint64_t *items, int32_t n) {
    *q = (candidate_queue){.items = items, .depth = 1, .state = 0x9e3779b9u};
    q->ends[0] = n;
}

static int descending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

static void insertion_sort(uint64_t *items, int32_t n) {
    for (int32_t i = 1; i < n; i++) {
        uint64_t item = items[i];
        int32_t j = i;
        for (; j > 0 && items[j - 1] < item; j--) items[j] = items[j - 1];
        items[j] = item;
    }
}

static uint64_t median(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

/* Splits n > SMALL items: those before the answer are larger than those from it on; both sides
 * have some. Pivots are taken at pseudo-random places so that no order of a row is a bad one. */
static int32_t split(uint64_t *items, int32_t n, uint32_t *state) {
    uint64_t pick[3];
    for (int32_t i = 0; i < 3; i++) {
        *state = *state * 1664525u + 1013904223u;
        pick[i] = items[(uint64_t)*state * (uint32_t)n >> 32];
    }
    uint64_t pivot = median(pick[0], pick[1], pick[2]);
    int32_t left = -1, right = n;
    for (;;) {
        do left++; while (items[left] > pivot);
        do right--; while (items[right] < pivot);
        if (left >= right) break;
        uint64_t item = items[left];
        items[left] = items[right];
        items[right] = item;
    }
    return left > 0 ? left : 1; /* left = 0 only when the pivot is the largest and stands first */
}

uint64_t queue_next(candidate_queue *q) {
    while (q->taken == q->sorted) {
        int32_t start = q->sorted, end = q->ends[q->depth - 1];
        if (end - start <= SMALL) {
            insertion_sort(q->items + start, end - start);
        } else if (q->depth == (int32_t)(sizeof q->ends / sizeof *q->ends)) {
            qsort(q->items + start, (size_t)(end - start), sizeof *q->items, descending);
        } else {
            q->ends[q->depth++] = start + split(q->items + start, end - start, &q->state);
            continue;
        }
        q->sorted = end;
        q->depth--;
    }
    return q->items[q->taken++];
}
