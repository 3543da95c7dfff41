/* What the kernels offer. Read by the C compiler and, as it stands, by cffi: no directives here.
 *
 * A row is n_vocab float32 logits. Functions answer a count or an index >= 0, or one of these. */
enum {
    ROW_NAN = -1,      /* an entry is not a number */
    ROW_EMPTY = -2,    /* every entry is -infinity (after bias and mask) */
    ROW_INFINITE = -3, /* an entry is +infinity */
    DRAFT_IMPOSSIBLE = -4, /* a draft that its own distribution q gives no probability */
    DRAFT_MALFORMED = -5,  /* a q that names unknown tokens or does not sum to 1 */
};

/* Index of the largest of n >= 1 logits, the lowest one of equals. */
int32_t argmax(const float *row, int32_t n);

/* The two largest entries, best first, into ids[2]; ids[1] = -1 when there is no second.
 * Answers argmax's answer. */
int32_t top2(const float *row, int32_t n, int32_t *ids);

/* The best path through a lattice of n positions: each row holds k token ids (as floats), then for
 * each of the k candidates before it the k scores of what may follow. The path starts after
 * candidate 0; of equal scores the first one is taken. Rows are `stride` floats apart. */
void best_path(const float *lattice, int32_t n, int32_t stride, int32_t k, int32_t *tokens);

/* How logits become a distribution. Order: bias, penalties, [temperature], top_k, top_p, min_p,
 * [temperature]; the temperature comes first or last. */
typedef struct {
    float temperature;         /* 0: the most likely token, whatever follows */
    int32_t temperature_first; /* 0: after the truncations, as llama.cpp's default chain */
    int32_t top_k;             /* 0: off */
    float top_p;               /* 1: off */
    float min_p;               /* 0: off */
    float repetition_penalty;  /* 1: off */
    float presence_penalty;    /* 0: off */
    float frequency_penalty;   /* 0: off */
    int32_t penalty_last_n;    /* tokens of history that penalties see; -1: all */
    int32_t n_bias;
    const int32_t *bias_ids;   /* ascending, without repeats */
    const float *bias;
} sampling_options;

/* Buffers of one thread, and the weighted tokens that the last call left in them. */
typedef struct {
    int32_t n_vocab;
    int32_t count;      /* tokens in ids and probs */
    int32_t *ids;       /* [n_vocab] best first when truncated, else ascending */
    double *probs;      /* [n_vocab] */
    double total;       /* what probs sum to: 1 after distribution and draw_draft */
    uint64_t *keys;     /* [n_vocab + 1] */
    int32_t *counts;    /* [n_vocab] zeros between calls */
    int32_t *edit_ids;  /* [n_vocab] */
    float *edit_values; /* [n_vocab] */
    double *dense;      /* [n_vocab] zeros between calls */
} workspace;

/* What belongs to a row besides its logits. */
typedef struct {
    const int32_t *history;    /* the tokens before the row's own, the prompt's included */
    int32_t n_history;
    const uint32_t *mask;      /* legal tokens: bit t%32 of word t/32; NULL: all */
    const int32_t *candidates; /* the row is n_candidates logits of these tokens, the best of their */
    int32_t n_candidates;      /* row, no fewer than top_k; NULL: a whole row. Nothing edits it */
} row_context;

/* Random numbers are a function of these and of the purpose they are drawn for. */
typedef struct {
    uint64_t seed;
    uint64_t position;
} draw_key;

enum { FOR_TOKEN = 0, FOR_ACCEPTANCE = 1, FOR_DRAFT = 2, FOR_REDRAW = 3, FOR_RESIDUAL = 4 };

/* Philox4x32-10: the four words of a counter under a key. */
void philox(const uint32_t *counter, const uint32_t *key, uint32_t *words);

/* Uniform in [0, 1), 53 bits. */
double uniform(draw_key key, uint32_t purpose);

/* The row's distribution into w->ids, w->probs, w->count. Answers the count. */
int32_t distribution(workspace *w, const float *row, const sampling_options *o, row_context c);

/* A token of the row's distribution. */
int32_t sample(workspace *w, const float *row, const sampling_options *o, row_context c,
               draw_key key, uint32_t purpose);

/* A token of the row's distribution p conditioned on c.mask: p(x) / P(legal), or, when p leaves no
 * legal token, the distribution of the masked row. */
int32_t sample_legal(workspace *w, const float *row, const sampling_options *o, row_context c,
                     draw_key key, uint32_t purpose);

/* A draft: a token, and in w the very distribution that it was drawn from. */
int32_t draw_draft(workspace *w, const float *row, const sampling_options *o, row_context c,
                   draw_key key);

/* Verifies a token drawn from q: the token itself with probability min(1, p/q), else one of the
 * normalised max(p - q, 0), which is never the draft. */
int32_t verify(workspace *w, const float *row, const sampling_options *o, row_context c,
               draw_key key, int32_t draft, const int32_t *q_ids, const double *q_probs,
               int32_t n_q);

/* Log-probabilities of the row as it is: of `token` into *chosen, of the n_top <= n_vocab most
 * likely into ids and values, best first. Answers how many of those there are. */
int32_t log_probs(workspace *w, const float *row, int32_t token, int32_t n_top, float *chosen,
                  int32_t *ids, float *values);
