/* What kernels.c offers. Read by the C compiler and, as it stands, by cffi: no directives here. */

/* Why a row cannot be used; every other answer of a kernel is >= 0. */
enum { ROW_NAN = -1, ROW_EMPTY = -2 };

/* Index of the largest of n >= 1 logits, the lowest one of equals.
 * ROW_NAN when any entry is not a number, ROW_EMPTY when all are -infinity. */
int32_t argmax(const float *row, int32_t n);

/* The two largest entries, best first, into ids[2]; ids[1] = -1 when there is no second.
 * Answers argmax's answer. */
int32_t top2(const float *row, int32_t n, int32_t *ids);
