#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "calls.h"

static int64_t now(const context_calls *c) {
    struct timespec t;
#if defined(CLOCK_MONOTONIC) && defined(CLOCK_PROCESS_CPUTIME_ID)
    clock_gettime(c->cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
#else
    (void)c;
    timespec_get(&t, TIME_UTC);
#endif
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A rollback reaches no further than the rows of the last batch, so no more planes are written. */
static void limit_planes(context_calls *c, const call_batch *batch) {
    int32_t most = batch->n_tokens;
    if (c->n_seq_max > 1) {
        most = 0;
        for (int32_t i = 0; i < batch->n_tokens; i++) {
            int32_t sequence = batch->seq_id[i][0];
            /* a sequence that does not exist is llama_decode's to refuse */
            int32_t rows = sequence >= 0 && sequence < c->n_seq_max ? ++c->rows_of[sequence] : 0;
            most = rows > most ? rows : most;
        }
        memset(c->rows_of, 0, (size_t)c->n_seq_max * sizeof *c->rows_of);
    }
    int32_t planes = most - 1 < c->ring_depth ? most - 1 : c->ring_depth;
    *c->planes = planes > 0 ? (uint32_t)planes : 0;
}

int32_t submit(context_calls *c, const call_batch *batch) {
    if (c->planes) limit_planes(c, batch);
    if (batch->n_tokens > c->most_outputs && count_outputs(batch) > c->most_outputs)
        return TOO_MANY_OUTPUTS;
    int64_t start = now(c);
    c->status = c->lib->decode(c->ctx, *batch);
    int64_t spent = now(c) - start;
    c->submit_ns += spent;
    c->inside_ns += spent;
    c->decodes++;
    return c->status;
}

void finish(context_calls *c) {
    int64_t start = now(c);
    c->lib->synchronize(c->ctx);
    int64_t spent = now(c) - start;
    c->wait_ns += spent;
    c->inside_ns += spent;
}

int32_t decode(context_calls *c, const call_batch *batch) {
    int32_t status = submit(c, batch);
    /* every caller reads the results next, so waiting here costs nothing and dates honestly */
    if (status != TOO_MANY_OUTPUTS) finish(c);
    return status;
}

/* The row as it is read, and what is known of its best token already. */
typedef struct {
    const float *logits;
    float logit;
    int32_t token;
} found_row;

static found_row look(context_calls *c, int32_t row) {
    const library_calls *lib = c->lib;
    found_row found = {NULL, 0.0f, ROW_MISSING};
    uint32_t ranked = c->ranking ? lib->get_sampled_candidates_count_ith(c->ctx, row) : 0;
    if (c->ranking == FROM_CANDIDATES && ranked == 1) {
        found.token = lib->get_sampled_candidates_ith(c->ctx, row)[0];
        found.logit = lib->get_sampled_logits_ith(c->ctx, row)[0];
        return found;
    }
    if (c->ranking == FROM_TOKEN) found.token = lib->get_sampled_token_ith(c->ctx, row);
    const float *logits = ranked > 1 ? NULL : lib->get_logits_ith(c->ctx, row);
    if (ranked > 1) found.token = ROW_UNRANKED;
    else if (found.token < 0) found.logits = logits;
    else if (logits) found.logit = logits[found.token];
    return found;
}

int32_t best(context_calls *c, int32_t row) {
    int64_t start = now(c);
    found_row found = look(c, row);
    int32_t token = found.token;
    if (found.logits)
        token = c->lib->argmax(found.logits, c->n_vocab);
    else if (token >= 0 && !(found.logit > -INFINITY))
        /* of a row of NaN or of nothing but -infinity a device names a token all the same */
        token = c->lib->argmax(&found.logit, 1);
    c->inside_ns += now(c) - start;
    return token;
}

int32_t match(context_calls *c, int32_t row, const int32_t *tokens, int32_t n, int32_t *next) {
    int32_t count = 0;
    while ((*next = best(c, row + count)) >= 0 && count < n && *next == tokens[count]) count++;
    return count;
}

intptr_t hidden_row(context_calls *c, int32_t row) {
    int64_t start = now(c);
    const float *rows = c->lib->get_embeddings_nextn(c->ctx);
    c->inside_ns += now(c) - start;
    return rows ? (intptr_t)(rows + (size_t)row * (size_t)c->n_embd) : 0;
}

int32_t keep_hidden(context_calls *c, int32_t row, int32_t count, intptr_t to) {
    intptr_t from = hidden_row(c, row);
    if (!from) return ROW_MISSING;
    copy(to, from, (size_t)count * (size_t)c->n_embd * sizeof(float));
    return 0;
}

/* The batch's one sequence moves on by a row: its oldest row leaves, `token` joins. */
static int32_t slide(context_calls *c, call_batch *batch, int32_t token, const float *hidden) {
    const size_t width = (size_t)c->n_embd, last = (size_t)batch->n_tokens - 1;
    if (!cut(c, batch->seq_id[0][0], batch->pos[0] + 1)) {
        c->status = -1;
        return CALL_FAILED;
    }
    memmove(batch->token, batch->token + 1, last * sizeof *batch->token);
    memmove(batch->embd, batch->embd + width, last * width * sizeof *hidden);
    for (size_t i = 0; i <= last; i++) batch->pos[i]++;
    batch->token[last] = token;
    memcpy(batch->embd + last * width, hidden + last * width, width * sizeof *hidden);
    return 0;
}

int32_t chain(context_calls *c, call_batch *batch, int32_t n, int32_t *rows,
              const int32_t *lengths, int32_t *tokens, int32_t stride, bool steady,
              bool begun) {
    const size_t width = (size_t)c->n_embd;
    steady = steady && n == 1 && rows[0] == batch->n_tokens - 1;
    /* a row's place in the batch, its position and its sequence move together */
    for (int32_t depth = 0;; depth++) {
        int32_t going = 0;
        int32_t status = begun ? 0 : decode(c, batch);
        if (begun) finish(c);
        begun = false;
        if (status) return status == TOO_MANY_OUTPUTS ? status : CALL_FAILED;
        for (int32_t i = 0; i < n; i++) {
            if (depth >= lengths[i]) continue;
            int32_t token = best(c, rows[i]);
            if (token < 0) return token;
            tokens[i * stride + depth] = token;
            going += depth + 1 < lengths[i];
        }
        if (!going) return 0;
        const float *hidden = (const float *)hidden_row(c, 0);
        if (!hidden || !batch->embd) return ROW_MISSING;
        if (steady) {
            status = slide(c, batch, tokens[depth], hidden);
            if (status) return status;
            continue;
        }
        int32_t size = 0;
        for (int32_t i = 0; i < n; i++) {
            if (depth + 1 >= lengths[i]) continue;
            int32_t row = rows[i];
            /* rows only move down, and in order: what is read here was not overwritten yet */
            batch->pos[size] = batch->pos[row] + 1;
            batch->seq_id[size][0] = batch->seq_id[row][0];
            batch->token[size] = tokens[i * stride + depth];
            batch->logits[size] = 1;
            memcpy(batch->embd + (size_t)size * width, hidden + (size_t)row * width,
                   width * sizeof *hidden);
            rows[i] = size++;
        }
        batch->n_tokens = size;
    }
}

int32_t cut(context_calls *c, int32_t sequence, int32_t length) {
    int64_t start = now(c);
    bool removed = c->lib->memory_seq_rm(c->memory, sequence, length, -1);
    c->inside_ns += now(c) - start;
    return removed;
}

int32_t gather(context_calls *c, const int32_t *layers, int32_t n, int32_t row, int32_t count,
               intptr_t to) {
    size_t width = (size_t)c->n_embd_inp;
    for (int32_t i = 0; i < n; i++) {
        const float *from = c->lib->get_embeddings_layer_inp(c->ctx, (uint32_t)layers[i]);
        if (!from) return ROW_MISSING;
        for (int32_t r = 0; r < count; r++)
            memcpy((float *)to + ((size_t)r * (size_t)n + (size_t)i) * width,
                   from + (size_t)(row + r) * width, width * sizeof *from);
    }
    return 0;
}

void append(call_batch *batch, int32_t *positions, int32_t at, const int32_t *tokens, int32_t n,
            int32_t position, int32_t sequence, bool output, bool last_output) {
    for (int32_t i = 0; i < n; i++) {
        if (batch->token) batch->token[at + i] = tokens[i];
        positions[at + i] = position + i;
        batch->seq_id[at + i][0] = sequence;
        batch->logits[at + i] = output;
    }
    if (last_output && n > 0) batch->logits[at + n - 1] = 1;
}

void spread(call_batch *batch, const int32_t *positions, int32_t n) {
    for (int32_t axis = 0; axis < 3; axis++)
        memcpy(batch->pos + (size_t)axis * (size_t)n, positions, (size_t)n * sizeof *positions);
    memset(batch->pos + 3 * (size_t)n, 0, (size_t)n * sizeof *positions);
}

int32_t count_outputs(const call_batch *batch) {
    int32_t count = 0;
    for (int32_t i = 0; i < batch->n_tokens; i++) count += batch->logits[i] != 0;
    return count;
}

void copy(intptr_t to, intptr_t from, size_t size) { memmove((void *)to, (void *)from, size); }
