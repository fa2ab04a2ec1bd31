/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Companions of models: what a right one says, and files that are wrong somewhere, each of which
 * must be refused with a message that names what is wrong. */

#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "model/llm-companion.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"
#include "weights/llm-lora.h"

#define INVALID LLMSVC_ERROR_INVALID_MODEL
#define UNSUPPORTED LLMSVC_ERROR_UNSUPPORTED
#define N_LAYERS 2
#define N_LEVELS 3
#define N_EMBD 64
#define N_FF 192
#define HEADS 4            /* two groups of two heads of 32: 64 inputs each */
#define KV_HEADS 2
#define HEAD_DIM 32
#define VOCAB 384
#define RANK 4


static const LlmTestModel shape = {
  .n_layers = N_LAYERS, .n_embd = N_EMBD, .n_heads = HEADS, .n_kv_heads = KV_HEADS,
  .head_dim = HEAD_DIM, .n_ff = N_FF, .n_vocab = VOCAB, .type = LLK_F16,
};

static const guint percent[N_LEVELS] = { 20, 50, 100 };
static const guint groups[N_LAYERS][N_LEVELS] = { { 1, 2, 2 }, { 1, 1, 2 } };
static const guint channels[N_LAYERS][N_LEVELS] = { { 64, 192, 192 }, { 64, 64, 192 } };

/* Of the level 20, with an adapter of attn_q and of ffn_down in layer 0: its weights, operations
 * and bytes, and the whole model's, by hand. */
#define KV (2 * N_EMBD * KV_HEADS * HEAD_DIM)
#define NORMS (N_LAYERS * 2 * N_EMBD + N_EMBD)
#define EMBEDDING (N_EMBD * VOCAB)
#define ADAPTER (RANK * (N_EMBD + 64) + RANK * (64 + N_EMBD))
#define SMALL_MATRICES (N_LAYERS * (KV + 2 * N_EMBD * 64 + 3 * N_EMBD * 64) + EMBEDDING)
#define WHOLE_MATRICES (N_LAYERS * (KV + 2 * N_EMBD * 128 + 3 * N_EMBD * N_FF) + EMBEDDING)

static LlmModel *
make_model (guint64 seed)
{
  LlmTestModel test = shape;
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(LlmGguf) gguf = NULL;
  g_autoptr(GError) error = NULL;
  LlmModel *model;

  test.seed = seed;
  bytes = llm_test_model_new (&test);
  gguf = llm_gguf_new_for_bytes (bytes, "model.gguf", &error);
  g_assert_no_error (error);
  model = llm_model_new_for_gguf (gguf, &error);
  g_assert_no_error (error);
  return model;
}

static void
add_half (LlmTestGguf *gguf,
          const char  *name,
          guint64      n_in,
          guint64      n_out)
{
  const guint64 dims[] = { n_in, n_out };
  g_autofree float *values = g_new0 (float, n_in * n_out);

  llm_test_gguf_add_tensor (gguf, name, LLK_F16, 2, dims, values);
}

static void
add_table (LlmTestGguf *gguf)
{
  gint64 values[N_LAYERS * N_LEVELS];

  for (guint i = 0; i < N_LEVELS; i++)
    values[i] = percent[i];
  llm_test_gguf_add_ints (gguf, "llmsvc.levels.percent", LLM_GGUF_UINT32, values, N_LEVELS);
  for (guint i = 0; i < N_LAYERS * N_LEVELS; i++)
    values[i] = groups[i / N_LEVELS][i % N_LEVELS];
  llm_test_gguf_add_ints (gguf, "llmsvc.levels.groups", LLM_GGUF_UINT32, values,
                          G_N_ELEMENTS (values));
  for (guint i = 0; i < N_LAYERS * N_LEVELS; i++)
    values[i] = channels[i / N_LEVELS][i % N_LEVELS];
  llm_test_gguf_add_ints (gguf, "llmsvc.levels.channels", LLM_GGUF_UINT32, values,
                          G_N_ELEMENTS (values));
}

/* Level 50 has layer 0 whole, and layer 1 as level 20. */
static void
add_shares (LlmTestGguf *gguf)
{
  const double layer = (WHOLE_MATRICES - SMALL_MATRICES) / N_LAYERS;
  const double attention = 2 * 512 * HEAD_DIM * 2;   /* of a group */
  const double whole[] = {
    WHOLE_MATRICES + NORMS, WHOLE_MATRICES + 4 * attention, 2 * WHOLE_MATRICES + 4 * NORMS,
  };
  const double small[] = {
    SMALL_MATRICES + NORMS, SMALL_MATRICES + 2 * attention, 2 * SMALL_MATRICES + 4 * NORMS,
  };
  const double more[] = { layer, layer + attention, 2 * layer };
  const double adapter[] = { ADAPTER, ADAPTER, 2 * ADAPTER };
  const char *const names[] = { "weights", "operations", "bytes" };

  for (guint i = 0; i < 3; i++)
    {
      g_autofree char *key = g_strconcat ("llmsvc.levels.", names[i], NULL);
      const float shares[N_LEVELS] = {
        (float) ((small[i] + adapter[i]) / whole[i]), (float) ((small[i] + more[i]) / whole[i]), 1,
      };

      llm_test_gguf_add_floats (gguf, key, LLM_GGUF_FLOAT32, shares, N_LEVELS);
    }
}

static void
add_adapters (LlmTestGguf *gguf)
{
  llm_test_gguf_add_string (gguf, "adapter.type", "lora");
  llm_test_gguf_add_double (gguf, "adapter.lora.alpha", LLM_GGUF_FLOAT32, 16);
  add_half (gguf, "level.20.blk.0.attn_q.weight.lora_a", N_EMBD, RANK);
  add_half (gguf, "level.20.blk.0.attn_q.weight.lora_b", RANK, 64);
  add_half (gguf, "level.20.blk.0.ffn_down.weight.lora_a", 64, RANK);
  add_half (gguf, "level.20.blk.0.ffn_down.weight.lora_b", RANK, N_EMBD);
}

/* A right one, but for what @gguf has already and leaves out. */
static GBytes *
finish (LlmTestGguf *gguf,
        LlmModel    *model)
{
  llm_test_gguf_add_string (gguf, "general.type", "companion");
  llm_test_gguf_add_string (gguf, "general.architecture", "llama");
  llm_test_gguf_add_int (gguf, "llmsvc.companion.version", LLM_GGUF_UINT32, 1);
  llm_test_gguf_add_string (gguf, "llmsvc.companion.weights",
                            llm_model_get_weight_identity (model));
  add_table (gguf);
  add_shares (gguf);
  add_adapters (gguf);
  return llm_test_gguf_end (gguf);
}

static LlmCompanion *
open_bytes (GBytes    *bytes,
            LlmModel  *model,
            GError   **error)
{
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (bytes, "bad.gguf", error);

  return gguf != NULL ? llm_companion_new_for_gguf (gguf, model, error) : NULL;
}

static void
test_right (void)
{
  g_autoptr(LlmModel) model = make_model (1);
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = finish (gguf, model);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmCompanion) companion = open_bytes (bytes, model, &error);
  g_autoptr(LlmLora) adapter = NULL;
  const LlmLoraPair *pair;

  g_assert_no_error (error);
  g_assert_cmpuint (companion->sub_models->n_levels, ==, N_LEVELS);
  g_assert_cmpuint (llm_sub_models_get_groups (companion->sub_models, 1, 1), ==, 1);
  g_assert_cmpuint (llm_sub_models_get_channels (companion->sub_models, 0, 1), ==, N_FF);
  g_assert_cmpuint (companion->costs[0].weights, ==, SMALL_MATRICES + NORMS + ADAPTER);
  g_assert_cmpuint (companion->costs[N_LEVELS - 1].bytes, ==, 2 * WHOLE_MATRICES + 4 * NORMS);
  g_assert_true (companion->has_adapters[0]);
  g_assert_false (companion->has_adapters[1]);

  g_assert_null (llm_lora_new_for_level (companion, model, 1, NULL, &error));
  g_assert_no_error (error);
  adapter = llm_lora_new_for_level (companion, model, 0, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (adapter->max_rank, ==, RANK);
  pair = llm_lora_get_pair (adapter, LLM_OP_QUERY, 0);
  g_assert_cmpuint (pair->b.out_count, ==, 64);
  g_assert_cmpfloat (pair->scale, ==, 16.0f / RANK);
  pair = llm_lora_get_pair (adapter, LLM_OP_FFN_DOWN, 0);
  g_assert_cmpuint (pair->a.in_count, ==, 64);
  g_assert_cmpuint (llm_lora_get_pair (adapter, LLM_OP_QUERY, 1)->rank, ==, 0);
}

/* What is not there is told by the shares; what is there is believed if it can be. */
static void
test_losses (void)
{
  static const struct
  {
    float losses[N_LEVELS + 1];
    guint n;
    const char *part;     /* (nullable): of the message */
  } cases[] = {
    { { 0 }, 0, NULL },
    { { 3.5f, 2.25f, 2.5f }, 3, NULL },
    { { 3.5f, 2.25f }, 2, "2 items, 3 are needed" },
    { { 3.5f, 2.25f, 2.5f, 2 }, 4, "4 items, 3 are needed" },
    { { 3.5f, -1, 2.5f }, 3, "is -1" },
    { { 3.5f, 2.25f, NAN }, 3, "is nan" },
    { { INFINITY, 2.25f, 2 }, 3, "is inf" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(LlmModel) model = make_model (1);
      g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
      g_autoptr(GError) error = NULL;
      g_autoptr(GBytes) bytes = NULL;
      g_autoptr(LlmCompanion) companion = NULL;

      if (cases[i].n > 0)
        llm_test_gguf_add_floats (gguf, "llmsvc.levels.losses", LLM_GGUF_FLOAT32, cases[i].losses,
                                  cases[i].n);
      bytes = finish (gguf, model);
      companion = open_bytes (bytes, model, &error);
      if (cases[i].part != NULL)
        {
          g_assert_error (error, LLMSVC_ERROR, INVALID);
          g_assert_nonnull (strstr (error->message, cases[i].part));
          continue;
        }
      g_assert_no_error (error);
      for (guint level = 0; level < N_LEVELS; level++)
        if (cases[i].n > 0)
          g_assert_cmpfloat (companion->losses[level], ==, cases[i].losses[level]);
        else if (level > 0)
          g_assert_cmpfloat (companion->losses[level], <, companion->losses[level - 1]);
    }
}

/* What was measured of the levels, and what follows from it. */
static void
test_quality (void)
{
  static const struct
  {
    float divergences[N_LEVELS + 1];
    float valid_calls[N_LEVELS];
    guint n, n_calls, n_scored;
    double qualities[N_LEVELS];
    const char *part;     /* (nullable): of the message */
  } cases[] = {
    /* 0.1 nats are 5 points, and so are 5 tasks of 100 */
    { { 0.1f, 0.02f, 0 }, { 0 }, 3, 0, 1000, { 95, 99, 100 }, NULL },
    { { 0.1f, 0.02f, 0 }, { 0.7f, 0.8f, 0.85f }, 3, 100, 1000, { 85, 95, 100 }, NULL },
    /* better than the whole model is not better */
    { { 0.1f, 0.02f, 0 }, { 0.9f, 0.9f, 0.85f }, 3, 100, 1000, { 95, 99, 100 }, NULL },
    /* a smaller level is no better than a larger one */
    { { 0.02f, 0.2f, 0 }, { 0 }, 3, 0, 1000, { 90, 90, 100 }, NULL },
    { { 7, 0.2f, 0 }, { 0 }, 3, 0, 1000, { 0, 90, 100 }, NULL },
    { { 0 }, { 0 }, 0, 0, 0, { 0, 0, 100 }, NULL },
    { { 0.1f, 0.02f }, { 0 }, 2, 0, 1000, { 0 }, "2 items, 3 are needed" },
    { { 0.1f, -1, 0 }, { 0 }, 3, 0, 1000, { 0 }, "is -1" },
    { { 0.1f, NAN, 0 }, { 0 }, 3, 0, 1000, { 0 }, "is nan" },
    { { 0.1f, 0, 0 }, { 0.7f, 1.5f, 0.85f }, 3, 100, 1000, { 0 }, "is 1.5" },
    { { 0.1f, 0, 0 }, { 0 }, 3, 0, 0, { 0 }, "llmsvc.quality.scored" },
  };
  static const float ones[N_LEVELS] = { 1, 1, 1 };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(LlmModel) model = make_model (1);
      g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
      g_autoptr(GError) error = NULL;
      g_autoptr(GBytes) bytes = NULL;
      g_autoptr(LlmCompanion) companion = NULL;

      if (cases[i].n > 0)
        {
          llm_test_gguf_add_int (gguf, "llmsvc.quality.scored", LLM_GGUF_UINT32, cases[i].n_scored);
          llm_test_gguf_add_int (gguf, "llmsvc.quality.calls", LLM_GGUF_UINT32, cases[i].n_calls);
          llm_test_gguf_add_int (gguf, "llmsvc.quality.replies", LLM_GGUF_UINT32, 0);
          llm_test_gguf_add_floats (gguf, "llmsvc.quality.divergences", LLM_GGUF_FLOAT32,
                                    cases[i].divergences, cases[i].n);
          llm_test_gguf_add_floats (gguf, "llmsvc.quality.nlls", LLM_GGUF_FLOAT32, ones, N_LEVELS);
        }
      if (cases[i].n_calls > 0)
        {
          llm_test_gguf_add_floats (gguf, "llmsvc.quality.valid_calls", LLM_GGUF_FLOAT32,
                                    cases[i].valid_calls, N_LEVELS);
          llm_test_gguf_add_floats (gguf, "llmsvc.quality.exact_calls", LLM_GGUF_FLOAT32, ones, N_LEVELS);
        }
      bytes = finish (gguf, model);
      companion = open_bytes (bytes, model, &error);
      if (cases[i].part != NULL)
        {
          g_assert_error (error, LLMSVC_ERROR, INVALID);
          g_assert_nonnull (strstr (error->message, cases[i].part));
          continue;
        }
      g_assert_no_error (error);
      for (guint level = 0; level < N_LEVELS; level++)
        {
          double quality = llm_quality_get (companion->quality, N_LEVELS, level);

          g_assert_cmpfloat_with_epsilon (quality, cases[i].qualities[level], 1e-4);
          g_assert_cmpuint (llm_quality_find (companion->quality, N_LEVELS, quality), <=, level);
        }
      g_assert_cmpuint (llm_quality_find (companion->quality, N_LEVELS, 100), ==, N_LEVELS - 1);
    }
}

/* --- wrong ones --- */

typedef struct
{
  const char *key;        /* whose value is another one */
  LlmGgufType type;       /* of single values and of items */
  const char *text;
  gint64 items[N_LAYERS * N_LEVELS + 1];
  guint n_items;          /* 0: a single value */
  int code;
  const char *part;       /* of the message */
} WrongKey;

static const WrongKey wrong_keys[] = {
  { "general.type", LLM_GGUF_STRING, "adapter", { 0 }, 0, INVALID, "companion" },
  { "general.type", LLM_GGUF_UINT32, NULL, { 3 }, 0, INVALID, "general.type" },
  { "llmsvc.companion.version", LLM_GGUF_UINT32, NULL, { 2 }, 0, UNSUPPORTED, "version is 2" },
  { "llmsvc.companion.version", LLM_GGUF_UINT32, NULL, { 0 }, 0, INVALID, "version" },
  { "llmsvc.companion.weights", LLM_GGUF_STRING, "0123456789abcdef", { 0 }, 0, INVALID,
    "0123456789abcdef" },
  { "llmsvc.companion.weights", LLM_GGUF_STRING, "\033[2J", { 0 }, 0, INVALID, "weights" },
  { "llmsvc.levels.percent", LLM_GGUF_UINT32, NULL, { 20, 100, 50 }, 3, INVALID, "rise to 100" },
  { "llmsvc.levels.percent", LLM_GGUF_UINT32, NULL, { 20, 50, 356 }, 3, INVALID, "rise to 100" },
  { "llmsvc.levels.percent", LLM_GGUF_UINT32, NULL, { 50, 100 }, 2, INVALID, "groups" },
  { "llmsvc.levels.percent", LLM_GGUF_STRING, "20", { 0 }, 0, INVALID, "percent" },
  { "llmsvc.levels.groups", LLM_GGUF_UINT32, NULL, { 1, 2, 2, 1, 1 }, 5, INVALID, "5 items" },
  { "llmsvc.levels.groups", LLM_GGUF_UINT32, NULL, { 0, 2, 2, 1, 1, 2 }, 6, INVALID,
    "groups of heads" },
  { "llmsvc.levels.groups", LLM_GGUF_UINT32, NULL, { 1, 3, 2, 1, 1, 2 }, 6, INVALID,
    "groups of heads" },
  { "llmsvc.levels.groups", LLM_GGUF_INT64, NULL, { -1, 2, 2, 1, 1, 2 }, 6, INVALID, "-1" },
  { "llmsvc.levels.groups", LLM_GGUF_INT64, NULL, { G_MAXINT64, 2, 2, 1, 1, 2 }, 6, INVALID,
    "no count" },
  { "llmsvc.levels.channels", LLM_GGUF_UINT32, NULL, { 64, 192, 192, 128, 64, 192 }, 6, INVALID,
    "channels" },
  { "llmsvc.levels.channels", LLM_GGUF_UINT32, NULL, { 32, 192, 192, 64, 64, 192 }, 6, INVALID,
    "multiple of 64" },
  { "llmsvc.levels.channels", LLM_GGUF_UINT32, NULL, { 64, 128, 128, 64, 64, 192 }, 6, INVALID,
    "192" },
  /* a table that is right, with the shares of another one */
  { "llmsvc.levels.channels", LLM_GGUF_UINT32, NULL, { 64, 128, 192, 64, 64, 192 }, 6, INVALID,
    "level 50" },
};

static void
test_wrong_key (gconstpointer data)
{
  const WrongKey *wrong = data;
  g_autoptr(LlmModel) model = make_model (1);
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr(GError) error = NULL;
  g_autoptr(GBytes) bytes = NULL;

  if (wrong->n_items > 0)
    llm_test_gguf_add_ints (gguf, wrong->key, wrong->type, wrong->items, wrong->n_items);
  else if (wrong->text != NULL)
    llm_test_gguf_add_string (gguf, wrong->key, wrong->text);
  else
    llm_test_gguf_add_int (gguf, wrong->key, wrong->type, wrong->items[0]);
  llm_test_gguf_skip (gguf, wrong->key);
  bytes = finish (gguf, model);
  g_assert_null (open_bytes (bytes, model, &error));
  g_assert_error (error, LLMSVC_ERROR, wrong->code);
  if (strstr (error->message, wrong->part) == NULL || strstr (error->message, "bad.gguf") == NULL)
    g_error ("“%s” is not in: %s", wrong->part, error->message);
  g_assert_null (strchr (error->message, '\033'));
  g_test_message ("%s", error->message);
}

static void
test_missing_keys (void)
{
  const char *const keys[] = {
    "general.type", "llmsvc.companion.version", "llmsvc.companion.weights",
    "llmsvc.levels.percent", "llmsvc.levels.groups", "llmsvc.levels.channels",
    "llmsvc.levels.weights", "llmsvc.levels.operations", "llmsvc.levels.bytes",
  };
  g_autoptr(LlmModel) model = make_model (1);

  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
      g_autoptr(GError) error = NULL;
      g_autoptr(GBytes) bytes = NULL;

      llm_test_gguf_skip (gguf, keys[i]);
      bytes = finish (gguf, model);
      g_assert_null (open_bytes (bytes, model, &error));
      g_assert_error (error, LLMSVC_ERROR, INVALID);
      g_assert_nonnull (strstr (error->message, keys[i]));
    }
}

/* Shares that flatter a level; NaN is none. */
static void
test_wrong_shares (void)
{
  static const char *const keys[] = {
    "llmsvc.levels.weights", "llmsvc.levels.operations", "llmsvc.levels.bytes",
  };
  const float values[][N_LEVELS] = { { 0.2f, 0.5f, 1 }, { 0.0f / 0.0f, 0.5f, 1 } };
  g_autoptr(LlmModel) model = make_model (1);

  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    for (guint j = 0; j < G_N_ELEMENTS (values); j++)
      {
        g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
        g_autoptr(GError) error = NULL;
        g_autoptr(GBytes) bytes = NULL;

        llm_test_gguf_add_floats (gguf, keys[i], LLM_GGUF_FLOAT32, values[j], N_LEVELS);
        llm_test_gguf_skip (gguf, keys[i]);
        bytes = finish (gguf, model);
        g_assert_null (open_bytes (bytes, model, &error));
        g_assert_error (error, LLMSVC_ERROR, INVALID);
        g_assert_nonnull (strstr (error->message, keys[i]));
      }
}

/* It is for one file's weights, also where header and size are the same. */
static void
test_other_weights (void)
{
  g_autoptr(LlmModel) model = make_model (1);
  g_autoptr(LlmModel) other = make_model (2);
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = finish (gguf, model);
  g_autoptr(GError) error = NULL;

  g_assert_cmpstr (llm_model_get_identity (model), ==, llm_model_get_identity (other));
  g_assert_null (open_bytes (bytes, other, &error));
  g_assert_error (error, LLMSVC_ERROR, INVALID);
  g_assert_nonnull (strstr (error->message, llm_model_get_weight_identity (model)));
}

typedef struct
{
  const char *skipped;     /* a tensor that is left out */
  const char *name;        /* one that is there instead */
  guint64 n_in, n_out;
  const char *part;
  const char *also_skipped;
} WrongTensor;

#define DOWN_A "level.20.blk.0.ffn_down.weight.lora_a"
#define DOWN_B "level.20.blk.0.ffn_down.weight.lora_b"

/* All as large as what they stand for, as shares are checked first. */
static const WrongTensor wrong_tensors[] = {
  { DOWN_A, "level.30.blk.0.ffn_down.weight.lora_a", 64, RANK, "none of its levels" },
  { DOWN_A, "blk.0.ffn_down.weight.lora_a", 64, RANK, "none of its levels" },
  { DOWN_A, "level.20.blk.0.ffn_up.weight.lora_a", 64, RANK, "missing" },
  { DOWN_A, "level.20.lora_a", 64, 2 * RANK, "level.20.lora_a", DOWN_B },
  { DOWN_A, "level.20..lora_a", 64, 2 * RANK, "does not have", DOWN_B },
  { DOWN_A, "level.20.blk.7.ffn_down.weight.lora_a", 64, 2 * RANK, "does not have", DOWN_B },
  { DOWN_A, "level.20.token_embd.weight.lora_a", 64, 2 * RANK, "can't be adapted", DOWN_B },
  { DOWN_A, DOWN_A, RANK, 64, "4 × 64" },
  { DOWN_A, DOWN_A, 32, RANK * 2, "32 × 8" },
  { DOWN_B, DOWN_B, 64, RANK, "64 × 4" },
  { DOWN_A, DOWN_A, 1, 64 * RANK, "shape" },
};

static void
test_wrong_tensor (gconstpointer data)
{
  const WrongTensor *wrong = data;
  g_autoptr(LlmModel) model = make_model (1);
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr(GError) error = NULL;
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(LlmCompanion) companion = NULL;

  add_half (gguf, wrong->name, wrong->n_in, wrong->n_out);
  llm_test_gguf_skip (gguf, wrong->skipped);
  if (wrong->also_skipped != NULL)
    llm_test_gguf_skip (gguf, wrong->also_skipped);
  bytes = finish (gguf, model);
  companion = open_bytes (bytes, model, &error);
  if (companion != NULL)
    g_assert_null (llm_lora_new_for_level (companion, model, 0, NULL, &error));
  g_assert_true (error->domain == LLMSVC_ERROR
                 && (error->code == INVALID || error->code == UNSUPPORTED));
  if (strstr (error->message, wrong->part) == NULL)
    g_error ("“%s” is not in: %s", wrong->part, error->message);
}

/* Cut off, and with any byte of its keys and its table of tensors another one: refused or whole. */
static void
test_damage (void)
{
  g_autoptr(LlmModel) model = make_model (1);
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = finish (gguf, model);
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);

  for (gsize at = 0; at < MIN (size, 1600); at++)
    for (guint way = 0; way < 3; way++)
      {
        g_autofree guint8 *copy = g_memdup2 (data, size);
        g_autoptr(GBytes) damaged = NULL;
        g_autoptr(GError) error = NULL;
        g_autoptr(LlmCompanion) companion = NULL;

        if (way < 2)
          copy[at] ^= way == 0 ? 0xff : 1;
        damaged = g_bytes_new (copy, way < 2 ? size : at);
        companion = open_bytes (damaged, model, &error);
        g_assert_true ((companion == NULL) == (error != NULL));
        for (guint level = 0; companion != NULL && level < companion->sub_models->n_levels; level++)
          {
            g_autoptr(GError) level_error = NULL;
            g_autoptr(LlmLora) adapter =
              llm_lora_new_for_level (companion, model, level, NULL, &level_error);
          }
      }
}

/* It lies beside the model, and is no model itself. */
static void
test_path (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, "small.gguf", NULL);
  g_autofree char *beside = llm_companion_get_path (path);
  g_autofree char *wanted = g_build_filename (folder, "small.llmsvc.gguf", NULL);
  g_autofree char *bare = llm_companion_get_path ("model");
  g_autoptr(LlmModel) model = NULL;
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr(LlmCompanion) companion = NULL;
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(GError) error = NULL;

  g_assert_cmpstr (beside, ==, wanted);
  g_assert_cmpstr (bare, ==, "model.llmsvc.gguf");
  llm_test_model_write (&shape, path);
  model = llm_model_open (path, &error);
  g_assert_no_error (error);
  g_assert_null (llm_companion_open (model, &error));
  g_assert_no_error (error);

  bytes = finish (gguf, model);
  g_assert_true (g_file_set_contents (beside, g_bytes_get_data (bytes, NULL),
                                      (gssize) g_bytes_get_size (bytes), NULL));
  companion = llm_companion_open (model, &error);
  g_assert_no_error (error);
  g_assert_nonnull (companion);
  llm_test_folder_remove (folder);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model/companion/losses", test_losses);
  g_test_add_func ("/model/companion/quality", test_quality);
  g_test_add_func ("/model/companion/right", test_right);
  for (guint i = 0; i < G_N_ELEMENTS (wrong_keys); i++)
    {
      g_autofree char *path = g_strdup_printf ("/model/companion/wrong-key/%u", i);

      g_test_add_data_func (path, &wrong_keys[i], test_wrong_key);
    }
  for (guint i = 0; i < G_N_ELEMENTS (wrong_tensors); i++)
    {
      g_autofree char *path = g_strdup_printf ("/model/companion/wrong-tensor/%u", i);

      g_test_add_data_func (path, &wrong_tensors[i], test_wrong_tensor);
    }
  g_test_add_func ("/model/companion/missing-keys", test_missing_keys);
  g_test_add_func ("/model/companion/wrong-shares", test_wrong_shares);
  g_test_add_func ("/model/companion/other-weights", test_other_weights);
  g_test_add_func ("/model/companion/damage", test_damage);
  g_test_add_func ("/model/companion/path", test_path);
  return g_test_run ();
}
