"""C declarations of the part of llama.cpp that Outrider uses.

They describe commit 0c1e57098 (llama.cpp 0.5.0, ggml 0.25.3), the one that llama-cpp-python
0.3.36 vendors: `include/llama.h`, `src/llama-ext.h` (exported C++ symbols, hence the mangled
names), `ggml/include/{gguf,ggml-backend}.h`. `library.py` refuses any other version.
"""

LLAMA_VERSION = "0.5.0"
GGML_VERSION = "0.25.3"
BINDING = "llama-cpp-python 0.3.36"

CDEF = """
typedef int32_t llama_pos;
typedef int32_t llama_token;
typedef int32_t llama_seq_id;
typedef struct llama_model llama_model;
typedef struct llama_context llama_context;
typedef struct llama_vocab llama_vocab;
typedef struct llama_memory_i * llama_memory_t;
typedef struct ggml_backend_device * ggml_backend_dev_t;
typedef struct llama_sampler llama_sampler;
typedef bool (*llama_progress_callback)(float progress, void * user_data);
typedef void (*ggml_log_callback)(int level, const char * text, void * user_data);

typedef struct {
    int32_t n_tokens;
    llama_token * token;
    float * embd;
    llama_pos * pos;
    int32_t * n_seq_id;
    llama_seq_id ** seq_id;
    int8_t * logits;
} llama_batch;

typedef struct {
    ggml_backend_dev_t * devices;
    const void * tensor_buft_overrides;
    int32_t n_gpu_layers;
    int split_mode;
    int load_mode;
    int lazy_mode;
    int32_t main_gpu;
    const float * tensor_split;
    llama_progress_callback progress_callback;
    void * progress_callback_user_data;
    const void * kv_overrides;
    bool vocab_only;
    bool check_tensors;
    bool use_extra_bufts;
    bool no_host;
    bool no_alloc;
    bool load_mtp;
} llama_model_params;

typedef struct {
    llama_seq_id seq_id;
    llama_sampler * sampler;
} llama_sampler_seq_config;

typedef struct {
    uint32_t n_ctx;
    uint32_t n_batch;
    uint32_t n_ubatch;
    uint32_t n_seq_max;
    uint32_t n_rs_seq;
    uint32_t n_outputs_max;
    uint32_t n_outputs_max_per_seq;
    int32_t n_threads;
    int32_t n_threads_batch;
    int ctx_type;
    int rope_scaling_type;
    int pooling_type;
    int attention_type;
    int flash_attn_type;
    float rope_freq_base;
    float rope_freq_scale;
    float yarn_ext_factor;
    float yarn_attn_factor;
    float yarn_beta_fast;
    float yarn_beta_slow;
    uint32_t yarn_orig_ctx;
    float defrag_thold;
    void * cb_eval;
    void * cb_eval_user_data;
    int type_k;
    int type_v;
    void * abort_callback;
    void * abort_callback_data;
    bool embeddings;
    bool offload_kqv;
    bool no_perf;
    bool op_offload;
    bool swa_full;
    bool kv_unified;
    llama_sampler_seq_config * samplers;
    size_t n_samplers;
    llama_context * ctx_other;
} llama_context_params;

typedef struct { llama_token id; float logit; float p; } llama_token_data;
typedef struct {
    llama_token_data * data;
    size_t size;
    int64_t selected;
    bool sorted;
} llama_token_data_array;
typedef struct { llama_token token; float bias; } llama_logit_bias;
typedef struct { bool no_perf; } llama_sampler_chain_params;

const char * llama_version(void);
const char * ggml_version(void);
const char * ggml_commit(void);
const char * llama_print_system_info(void);
void llama_backend_init(void);
void llama_log_set(ggml_log_callback callback, void * user_data);
llama_model_params llama_model_default_params(void);
llama_context_params llama_context_default_params(void);
llama_sampler_chain_params llama_sampler_chain_default_params(void);
size_t llama_max_devices(void);
bool llama_supports_gpu_offload(void);

void ggml_backend_load_all(void);
size_t ggml_backend_dev_count(void);
ggml_backend_dev_t ggml_backend_dev_get(size_t index);
ggml_backend_dev_t ggml_backend_dev_by_name(const char * name);
const char * ggml_backend_dev_name(ggml_backend_dev_t device);
const char * ggml_backend_dev_description(ggml_backend_dev_t device);
int ggml_backend_dev_type(ggml_backend_dev_t device);

llama_model * llama_model_load_from_file(const char * path, llama_model_params params);
void llama_model_free(llama_model * model);
llama_context * llama_init_from_model(llama_model * model, llama_context_params params);
void llama_free(llama_context * ctx);

const llama_vocab * llama_model_get_vocab(const llama_model * model);
int32_t llama_model_n_embd(const llama_model * model);
int32_t llama_model_n_embd_inp(const llama_model * model);
int32_t llama_model_n_embd_out(const llama_model * model);
int32_t llama_model_n_layer(const llama_model * model);
int32_t llama_model_n_layer_nextn(const llama_model * model);
int llama_model_rope_type(const llama_model * model);
bool llama_model_is_recurrent(const llama_model * model);
bool llama_model_is_hybrid(const llama_model * model);
uint64_t llama_model_size(const llama_model * model);

int32_t llama_vocab_n_tokens(const llama_vocab * vocab);
bool llama_vocab_is_eog(const llama_vocab * vocab, llama_token token);
bool llama_vocab_is_control(const llama_vocab * vocab, llama_token token);
llama_token llama_vocab_bos(const llama_vocab * vocab);
llama_token llama_vocab_eos(const llama_vocab * vocab);
llama_token llama_vocab_mask(const llama_vocab * vocab);
bool llama_vocab_get_add_bos(const llama_vocab * vocab);
int32_t llama_tokenize(const llama_vocab * vocab, const char * text, int32_t text_len,
    llama_token * tokens, int32_t n_tokens_max, bool add_special, bool parse_special);
int32_t llama_token_to_piece(const llama_vocab * vocab, llama_token token, char * buf,
    int32_t length, int32_t lstrip, bool special);

uint32_t llama_n_ctx(const llama_context * ctx);
uint32_t llama_n_ctx_seq(const llama_context * ctx);
uint32_t llama_n_batch(const llama_context * ctx);
uint32_t llama_n_ubatch(const llama_context * ctx);
uint32_t llama_n_seq_max(const llama_context * ctx);
uint32_t llama_n_rs_seq(const llama_context * ctx);
llama_memory_t llama_get_memory(const llama_context * ctx);
void llama_set_causal_attn(llama_context * ctx, bool causal_attn);
void llama_synchronize(llama_context * ctx);
int32_t llama_decode(llama_context * ctx, llama_batch batch);
float * llama_get_logits_ith(llama_context * ctx, int32_t i);

void llama_memory_clear(llama_memory_t mem, bool data);
bool llama_memory_seq_rm(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1);
void llama_memory_seq_cp(llama_memory_t mem, llama_seq_id src, llama_seq_id dst,
    llama_pos p0, llama_pos p1);
llama_pos llama_memory_seq_pos_max(llama_memory_t mem, llama_seq_id seq_id);

size_t llama_state_seq_get_size_ext(llama_context * ctx, llama_seq_id seq_id, uint32_t flags);
size_t llama_state_seq_get_data_ext(llama_context * ctx, uint8_t * dst, size_t size,
    llama_seq_id seq_id, uint32_t flags);
size_t llama_state_seq_set_data_ext(llama_context * ctx, const uint8_t * src, size_t size,
    llama_seq_id dest_seq_id, uint32_t flags);

llama_sampler * llama_sampler_chain_init(llama_sampler_chain_params params);
void llama_sampler_chain_add(llama_sampler * chain, llama_sampler * smpl);
void llama_sampler_apply(llama_sampler * smpl, llama_token_data_array * cur_p);
void llama_sampler_accept(llama_sampler * smpl, llama_token token);
void llama_sampler_reset(llama_sampler * smpl);
void llama_sampler_free(llama_sampler * smpl);
llama_sampler * llama_sampler_init_greedy(void);
llama_sampler * llama_sampler_init_dist(uint32_t seed);
llama_sampler * llama_sampler_init_top_k(int32_t k);
llama_sampler * llama_sampler_init_top_p(float p, size_t min_keep);
llama_sampler * llama_sampler_init_min_p(float p, size_t min_keep);
llama_sampler * llama_sampler_init_temp(float t);
llama_sampler * llama_sampler_init_top_n_sigma(float n);
llama_sampler * llama_sampler_init_penalties(int32_t n_vocab, int32_t last_n, float repeat,
    float freq, float present);
llama_sampler * llama_sampler_init_logit_bias(int32_t n_vocab, int32_t n_logit_bias,
    const llama_logit_bias * logit_bias);
bool llama_set_sampler(llama_context * ctx, llama_seq_id seq_id, llama_sampler * smpl);
llama_token llama_get_sampled_token_ith(llama_context * ctx, int32_t i);
float * llama_get_sampled_logits_ith(llama_context * ctx, int32_t i);
uint32_t llama_get_sampled_logits_count_ith(llama_context * ctx, int32_t i);
llama_token * llama_get_sampled_candidates_ith(llama_context * ctx, int32_t i);
uint32_t llama_get_sampled_candidates_count_ith(llama_context * ctx, int32_t i);

void _Z26llama_set_embeddings_nextnP13llama_contextbb(llama_context * ctx, bool value,
    bool masked);
float * _Z26llama_get_embeddings_nextnP13llama_context(llama_context * ctx);
void _Z28llama_set_nextn_layer_offsetP13llama_contexti(llama_context * ctx, int32_t offset);
void _Z30llama_set_embeddings_layer_inpP13llama_contextjb(llama_context * ctx, uint32_t lid,
    bool value);
float * _Z30llama_get_embeddings_layer_inpP13llama_contextj(llama_context * ctx, uint32_t lid);
int32_t _Z33llama_model_dflash_selector_top_kPK11llama_model(const llama_model * model);
const int32_t * _Z28llama_model_target_layer_idsPK11llama_model(const llama_model * model);
uint32_t _Z30llama_model_target_layer_ids_nPK11llama_model(const llama_model * model);

struct gguf_context;
struct gguf_init_params { bool no_alloc; void ** ctx; };
struct gguf_context * gguf_init_from_file(const char * fname, struct gguf_init_params params);
void gguf_free(struct gguf_context * ctx);
size_t gguf_get_data_offset(const struct gguf_context * ctx);
int64_t gguf_get_n_kv(const struct gguf_context * ctx);
const char * gguf_get_key(const struct gguf_context * ctx, int64_t key_id);
int gguf_get_kv_type(const struct gguf_context * ctx, int64_t key_id);
int gguf_get_arr_type(const struct gguf_context * ctx, int64_t key_id);
const char * gguf_get_val_str(const struct gguf_context * ctx, int64_t key_id);
const void * gguf_get_val_data(const struct gguf_context * ctx, int64_t key_id);
size_t gguf_get_arr_n(const struct gguf_context * ctx, int64_t key_id);
const void * gguf_get_arr_data(const struct gguf_context * ctx, int64_t key_id);
int64_t gguf_get_n_tensors(const struct gguf_context * ctx);
const char * gguf_get_tensor_name(const struct gguf_context * ctx, int64_t tensor_id);
size_t gguf_get_tensor_offset(const struct gguf_context * ctx, int64_t tensor_id);
size_t gguf_get_tensor_size(const struct gguf_context * ctx, int64_t tensor_id);
"""

MANGLED = {
    "set_embeddings_nextn": "_Z26llama_set_embeddings_nextnP13llama_contextbb",
    "get_embeddings_nextn": "_Z26llama_get_embeddings_nextnP13llama_context",
    "set_nextn_layer_offset": "_Z28llama_set_nextn_layer_offsetP13llama_contexti",
    "set_embeddings_layer_inp": "_Z30llama_set_embeddings_layer_inpP13llama_contextjb",
    "get_embeddings_layer_inp": "_Z30llama_get_embeddings_layer_inpP13llama_contextj",
    "dflash_selector_top_k": "_Z33llama_model_dflash_selector_top_kPK11llama_model",
    "target_layer_ids": "_Z28llama_model_target_layer_idsPK11llama_model",
    "target_layer_ids_n": "_Z30llama_model_target_layer_ids_nPK11llama_model",
}
"""Functions of `src/llama-ext.h` by their plain name (Itanium C++ mangling)."""

IN_CALLS = (
    *("decode", "synchronize", "get_logits_ith", "get_sampled_token_ith"),
    *("get_sampled_candidates_count_ith", "get_sampled_candidates_ith"),
    *(
        "get_sampled_logits_ith",
        "get_embeddings_nextn",
        "get_embeddings_layer_inp",
        "memory_seq_rm",
    ),
)
"""Functions that calls.c is given, by their names there."""

SPLIT_MODES = {"none": 0, "layer": 1, "row": 2, "tensor": 3}
FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}
CONTEXT_DEFAULT, CONTEXT_MTP = 0, 1
DEVICE_GPU = 1
ROPE_MROPE, ROPE_IMROPE = 8, 40
KV_TYPES = {
    "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "bf16": 30,
}  # fmt: skip
STATE_PARTIAL, STATE_ON_DEVICE = 1, 2
