/* Counter-based random numbers: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3" (SC 2011). There is no state to keep, restore or advance: the
 * number for a position is a function of the seed and the position. */
#include "internal.h"

void philox(const uint32_t *counter, const uint32_t *key, uint32_t *words) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xd2511f53u * c0, b = (uint64_t)0xcd9e8d57u * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0, n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

double uniform(draw_key key, uint32_t purpose) {
    uint32_t counter[4] = {(uint32_t)key.position, (uint32_t)(key.position >> 32), purpose, 0};
    uint32_t words[4], k[2] = {(uint32_t)key.seed, (uint32_t)(key.seed >> 32)};
    philox(counter, k, words);
    return (double)(((uint64_t)words[0] << 32 | words[1]) >> 11) * 0x1p-53;
}
