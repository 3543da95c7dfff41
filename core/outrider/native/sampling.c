/* From a row of logits to a distribution, and from a distribution to a token. */
#include "internal.h"

static int ascending(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Logit bias and penalties touch few tokens: their ids, ascending, and new logits. Penalties as in
 * llama.cpp (src/llama-sampler.cpp, llama_sampler_penalties_apply), after the bias as there. */
static int32_t edit(workspace *w, const float *row, const sampling_options *o, row_context c) {
    int32_t n = 0;
    int penalised = o->repetition_penalty != 1.0f || o->presence_penalty != 0.0f ||
                    o->frequency_penalty != 0.0f;
    if (penalised) {
        int32_t window = o->penalty_last_n < 0 || o->penalty_last_n > c.n_history
                             ? c.n_history
                             : o->penalty_last_n;
        for (int32_t i = c.n_history - window; i < c.n_history; i++) {
            int32_t token = c.history[i];
            if (token < 0 || token >= w->n_vocab) continue;
            if (w->counts[token]++ == 0) w->edit_ids[n++] = token;
        }
    }
    for (int32_t i = 0; i < o->n_bias; i++)
        if (w->counts[o->bias_ids[i]] == 0) w->edit_ids[n++] = o->bias_ids[i];
    qsort(w->edit_ids, (size_t)n, sizeof *w->edit_ids, ascending);
    for (int32_t i = 0, b = 0; i < n; i++) {
        int32_t id = w->edit_ids[i], count = w->counts[id];
        float logit = row[id];
        while (b < o->n_bias && o->bias_ids[b] < id) b++;
        if (b < o->n_bias && o->bias_ids[b] == id) logit += o->bias[b];
        if (count > 0) {
            logit = logit <= 0.0f ? logit * o->repetition_penalty : logit / o->repetition_penalty;
            logit -= (float)count * o->frequency_penalty + o->presence_penalty;
            w->counts[id] = 0;
        }
        w->edit_values[i] = logit;
    }
    return n;
}

/* All tokens, in the order of their ids. */
static int32_t weigh_all(workspace *w, row_scan *s, double temperature) {
    s->top_k = 1;
    int32_t found = scan(s, w->keys);
    if (found < 0) return found;
    w->total = weigh(s, temperature, w->probs);
    for (int32_t i = 0; i < s->n; i++) w->ids[i] = i;
    return w->count = s->n;
}

/* Candidates that were ranked elsewhere (on the device). Answers how many have a probability. */
static int32_t take_candidates(row_scan *s, const int32_t *ids, int32_t n, uint64_t *keys) {
    int32_t found = 0;
    s->max = -INFINITY;
    for (int32_t i = 0; i < n; i++) {
        float logit = s->row[i];
        if (isnan(logit)) return ROW_NAN;
        if (logit == INFINITY) return ROW_INFINITE;
        if (logit == -INFINITY) continue;
        if (logit > s->max) s->max = logit;
        keys[found++] = candidate(logit, ids[i]);
    }
    return found > 0 ? found : ROW_EMPTY;
}

/* The tokens that may be drawn, with weights that sum to w->total. Answers their count. */
static int32_t weigh_kept(workspace *w, const float *row, const sampling_options *o,
                          row_context c) {
    int greedy = o->temperature <= 0.0f;
    float t = greedy ? 1.0f : o->temperature;
    float stage = o->temperature_first ? t : 1.0f; /* the temperature that truncations see */
    int32_t k = greedy ? 1 : o->top_k > 0 && o->top_k < w->n_vocab ? o->top_k : 0;
    int nucleus = o->top_p < 1.0f;
    float depth = o->min_p > 0.0f ? -logf(o->min_p) * stage : INFINITY;

    row_scan s = {.row = row, .n = w->n_vocab, .edit_ids = w->edit_ids,
                  .edit_values = w->edit_values, .mask = c.mask, .depth = INFINITY};
    w->count = 0;
    if (c.candidates == NULL) s.n_edits = edit(w, row, o, c);
    if (k == 0 && !nucleus && o->min_p <= 0.0f) return weigh_all(w, &s, t);

    s.top_k = k;
    if (k == 0) {
        s.depth = depth;
        if (nucleus) {
            /* Everything rarer than this together weighs less than 1 - top_p. */
            s.scale = 1.0f / stage;
            s.tail = 0.5 * (1.0 - (double)o->top_p) / w->n_vocab;
        }
    }
    int32_t found = c.candidates != NULL
                        ? take_candidates(&s, c.candidates, c.n_candidates, w->keys)
                        : scan(&s, w->keys);
    if (found < 0) return found;

    candidate_queue q;
    queue_start(&q, w->keys, found);
    int32_t limit = k > 0 && k < found ? k : found;
    double goal = INFINITY;
    if (nucleus) {
        double sum = s.sum;
        if (k > 0) {
            sum = 0.0;
            for (int32_t i = 0; i < limit; i++)
                sum += exp(candidate_logit(queue_next(&q)) / stage - s.max / stage);
            q.taken = 0;
        }
        goal = sum * o->top_p;
    }

    /* The kept tokens are a prefix of the sorted ones; logits are divided in float32, as
     * llama.cpp does, so that both see the same distribution at low temperatures. */
    float least = s.max - depth;
    double reached = 0.0;
    int32_t count = 0;
    w->total = 0.0;
    while (count < limit && (count == 0 || reached < goal)) {
        uint64_t next = queue_next(&q);
        float logit = candidate_logit(next);
        if (count > 0 && logit < least) break;
        if (nucleus) reached += exp(logit / stage - s.max / stage);
        w->ids[count] = candidate_id(next);
        w->probs[count] = exp(logit / t - s.max / t);
        w->total += w->probs[count++];
    }
    return w->count = count;
}

static void normalise(workspace *w) {
    double factor = 1.0 / w->total;
    for (int32_t i = 0; i < w->count; i++) w->probs[i] *= factor;
    w->total = 1.0;
}

int32_t distribution(workspace *w, const float *row, const sampling_options *o, row_context c) {
    int32_t count = weigh_kept(w, row, o, c);
    if (count >= 0) normalise(w);
    return count;
}

/* The token whose share of the weights holds u in [0, 1); never one of weight 0. Weights are added
 * up in blocks, so that most of a long list is summed in lanes. */
static int32_t pick(const workspace *w, double u) {
    enum { BLOCK = 256 };
    double target = u * w->total, reached = 0.0, before = 0.0;
    int32_t block = 0, token = 0;
    for (int32_t start = 0; start < w->count && target >= reached; start += BLOCK) {
        int32_t end = w->count - start < BLOCK ? w->count : start + BLOCK;
        double sum = 0.0;
#pragma omp simd reduction(+ : sum)
        for (int32_t i = start; i < end; i++) sum += w->probs[i];
        if (sum <= 0.0) continue;
        block = start;
        before = reached;
        reached += sum;
    }
    for (int32_t i = block; i < w->count && i < block + BLOCK && before <= target; i++) {
        if (w->probs[i] <= 0.0) continue;
        token = w->ids[i];
        before += w->probs[i];
    }
    return token;
}

int32_t sample(workspace *w, const float *row, const sampling_options *o, row_context c,
               draw_key key, uint32_t purpose) {
    int32_t count = weigh_kept(w, row, o, c);
    return count < 0 ? count : pick(w, uniform(key, purpose));
}

int32_t sample_legal(workspace *w, const float *row, const sampling_options *o, row_context c,
                     draw_key key, uint32_t purpose) {
    row_context unmasked = c;
    unmasked.mask = NULL;
    int32_t count = weigh_kept(w, row, o, unmasked);
    if (count < 0) return count;
    w->total = 0.0;
    for (int32_t i = 0; i < count; i++) {
        if (!(c.mask[w->ids[i] / 32] >> w->ids[i] % 32 & 1)) w->probs[i] = 0.0;
        w->total += w->probs[i];
    }
    return w->total > 0.0 ? pick(w, uniform(key, purpose)) : sample(w, row, o, c, key, purpose);
}

int32_t draw_draft(workspace *w, const float *row, const sampling_options *o, row_context c,
                   draw_key key) {
    int32_t count = distribution(w, row, o, c);
    return count < 0 ? count : pick(w, uniform(key, FOR_DRAFT));
}

static int sums_to_one(const int32_t *ids, const double *probs, int32_t n, int32_t n_vocab) {
    double sum = 0.0;
    for (int32_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= n_vocab || !(probs[i] >= 0.0)) return 0;
        sum += probs[i];
    }
    return fabs(sum - 1.0) <= 1e-6;
}

/* Writes q where it is 0 everywhere; 0: a token is named twice. */
static int spread(double *dense, const int32_t *ids, const double *probs, int32_t n) {
    int once = 1;
    for (int32_t i = 0; i < n; i++) {
        if (dense[ids[i]] > 0.0) once = 0;
        dense[ids[i]] = probs[i];
    }
    return once;
}

/* The draft, or what stands for it; p lies in w->ids and w->probs, q in w->dense. */
static int32_t held_or_replaced(workspace *w, int32_t count, draw_key key, int32_t draft) {
    double q = w->dense[draft], p = 0.0;
    if (!(q > 0.0)) return DRAFT_IMPOSSIBLE;
    for (int32_t i = 0; i < count && p == 0.0; i++)
        if (w->ids[i] == draft) p = w->probs[i];
    if (uniform(key, FOR_ACCEPTANCE) * q < p) return draft;
    w->total = 0.0;
    for (int32_t i = 0; i < count; i++) {
        double rest = w->probs[i] - w->dense[w->ids[i]];
        w->probs[i] = rest > 0.0 ? rest : 0.0;
        w->total += w->probs[i];
    }
    return pick(w, uniform(key, FOR_RESIDUAL));
}

int32_t verify(workspace *w, const float *row, const sampling_options *o, row_context c,
               draw_key key, int32_t draft, const int32_t *q_ids, const double *q_probs,
               int32_t n_q) {
    if (!sums_to_one(q_ids, q_probs, n_q, w->n_vocab)) return DRAFT_MALFORMED;
    if (draft < 0 || draft >= w->n_vocab) return DRAFT_IMPOSSIBLE;
    int32_t count = distribution(w, row, o, c);
    if (count < 0) return count;
    int32_t token = DRAFT_MALFORMED;
    if (spread(w->dense, q_ids, q_probs, n_q)) token = held_or_replaced(w, count, key, draft);
    for (int32_t i = 0; i < n_q; i++) w->dense[q_ids[i]] = 0.0;
    return token;
}

int32_t log_probs(workspace *w, const float *row, int32_t token, int32_t n_top, float *chosen,
                  int32_t *ids, float *values) {
    row_scan s = {.row = row, .n = w->n_vocab, .top_k = n_top > 0 ? n_top : 1,
                  .depth = INFINITY, .scale = 1.0f};
    int32_t found = scan(&s, w->keys);
    if (found < 0) return found;
    double log_sum = s.max + log(s.sum);
    *chosen = (float)(row[token] - log_sum);
    candidate_queue q;
    queue_start(&q, w->keys, found);
    if (n_top < found) found = n_top;
    for (int32_t i = 0; i < found; i++) {
        uint64_t next = queue_next(&q);
        ids[i] = candidate_id(next);
        values[i] = (float)(candidate_logit(next) - log_sum);
    }
    return found;
}
