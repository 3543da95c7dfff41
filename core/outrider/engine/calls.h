/* Sequences of libllama calls that a step makes without returning to the interpreter in between.
 * Read by the C compiler and, as it stands, by cffi: no directives here.
 *
 * A decode call streams the weights through the caches, so the interpreter runs cold after it: a
 * return to it costs tens of microseconds however little it does. Nothing here links to libllama;
 * its functions are handed in by whoever loaded it. */

/* `llama_batch` of llama.h, passed by value. */
typedef struct {
    int32_t n_tokens;
    int32_t *token;
    float *embd;
    int32_t *pos;
    int32_t *n_seq_id;
    int32_t **seq_id;
    int8_t *logits;
} call_batch;

/* Functions of llama.h and llama-ext.h by their names there, and the kernel of a host row. */
typedef struct {
    int32_t (*decode)(void *ctx, call_batch batch);
    void (*synchronize)(void *ctx);
    float *(*get_logits_ith)(void *ctx, int32_t row);
    int32_t (*get_sampled_token_ith)(void *ctx, int32_t row);
    uint32_t (*get_sampled_candidates_count_ith)(void *ctx, int32_t row);
    int32_t *(*get_sampled_candidates_ith)(void *ctx, int32_t row);
    float *(*get_sampled_logits_ith)(void *ctx, int32_t row);
    float *(*get_embeddings_nextn)(void *ctx);
    float *(*get_embeddings_layer_inp)(void *ctx, uint32_t layer);
    bool (*memory_seq_rm)(void *memory, int32_t sequence, int32_t from, int32_t to);
    int32_t (*argmax)(const float *row, int32_t n);
} library_calls;

/* Where the most likely token of a row comes from. */
enum {
    FROM_LOGITS = 0,     /* the host's kernel reads the row */
    FROM_CANDIDATES = 1, /* the device left the best token alone, with its logit */
    FROM_TOKEN = 2,      /* the device named the token */
};

/* Answers below 0, beside those of the kernel for rows without a most likely token. */
enum { ROW_UNRANKED = -100, ROW_MISSING = -101, CALL_FAILED = -102, TOO_MANY_OUTPUTS = -103 };

typedef struct {
    const library_calls *lib;
    void *ctx;
    void *memory;
    int32_t n_vocab;
    int32_t n_embd;
    int32_t n_embd_inp;
    int32_t most_outputs; /* output rows that are reserved; more of them end the process */
    int32_t n_seq_max;
    int32_t *rows_of;     /* [n_seq_max], zeros between calls */
    int32_t ring_depth;
    uint32_t *planes;     /* how many planes of the ring a decode writes, see ring.py; or NULL */
    int32_t ranking;
    int32_t cpu_time;  /* count processor time instead of real time */
    int32_t status;    /* what the last llama_decode answered */
    int32_t decodes;   /* calls of llama_decode so far */
    int64_t inside_ns; /* time inside libllama so far */
    int64_t submit_ns; /* of it in llama_decode, which an accelerator leaves before it is done */
    int64_t wait_ns;   /* of it waiting for results */
} context_calls;

/* Decodes a batch without waiting for the results. Answers like `decode`. */
int32_t submit(context_calls *c, const call_batch *batch);

/* Waits for what was submitted. */
void finish(context_calls *c);

/* Decodes a batch and waits for the results. Answers what llama_decode did, or TOO_MANY_OUTPUTS. */
int32_t decode(context_calls *c, const call_batch *batch);

/* The most likely token after an output row of the last batch. Counts as inside: a device would
 * have found it while decoding. */
int32_t best(context_calls *c, int32_t row);

/* How many of n tokens are the most likely ones, one after the other, when output row `row`
 * predicts the first and the rows after it the others. *next: the most likely token after those,
 * or an answer below 0 for the row where it stopped. */
int32_t match(context_calls *c, int32_t row, const int32_t *tokens, int32_t n, int32_t *next);

/* Decodes a batch of tokens with hidden rows, and goes on from n of its output rows, by row
 * lengths[i] >= 1 most likely tokens: each is fed with the exported hidden row that predicted it,
 * at the next position. `rows` is used up. tokens[i * stride + j] is the j-th token of row i.
 * `steady`: a batch of one sequence keeps its number of rows, and each token is decoded together
 * with the rows before it once more, so that every decode has the shape of the first. `begun`: the
 * first decode was submitted.
 * Answers 0, CALL_FAILED, TOO_MANY_OUTPUTS, or why a row has no most likely token. */
int32_t chain(context_calls *c, call_batch *batch, int32_t n, int32_t *rows,
              const int32_t *lengths, int32_t *tokens, int32_t stride, bool steady,
              bool begun);

/* Removes positions >= length of a sequence. Answers whether the memory did. */
int32_t cut(context_calls *c, int32_t sequence, int32_t length);

/* The address of an exported hidden row of the last batch, 0 when there are none. */
intptr_t hidden_row(context_calls *c, int32_t row);

/* Copies `count` exported hidden rows from `row` to an address. Answers 0 or ROW_MISSING. */
int32_t keep_hidden(context_calls *c, int32_t row, int32_t count, intptr_t to);

/* Copies the exported inputs of n layers, `count` batch rows from `row` with n_embd_inp values a
 * layer, side by side to an address. Answers 0, or ROW_MISSING when a layer is not exported. */
int32_t gather(context_calls *c, const int32_t *layers, int32_t n, int32_t row, int32_t count,
               intptr_t to);

/* Writes n rows at consecutive positions into a batch, from row `at`; their tokens where the batch
 * has any. `positions` is what batch->pos points to, or what `spread` reads. */
void append(call_batch *batch, int32_t *positions, int32_t at, const int32_t *tokens, int32_t n,
            int32_t position, int32_t sequence, bool output, bool last_output);

/* Text positions of n rows, for models with several axes: the first three advance together, the
 * last stays 0. */
void spread(call_batch *batch, const int32_t *positions, int32_t n);

/* How many rows of a batch are output rows. */
int32_t count_outputs(const call_batch *batch);

/* memmove between addresses. */
void copy(intptr_t to, intptr_t from, size_t size);
