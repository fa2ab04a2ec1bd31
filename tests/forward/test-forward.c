/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The forward pass against a naive one in double, and against itself: what a row
 * gets does not depend on threads, on steps or on what runs beside it. */

#include <math.h>
#include <string.h>

#include "forward-rig.h"
#include "kv/llm-kv-private.h"
#include "naive-model.h"
#include "support/llm-test-gguf.h"

/* Logits of these models lie within about ±10. */
#define TOLERANCE 1e-4
/* Halves have 11 bits, and there are some hundred of them in a logit; by chance of the seed errors
 * reach 3.5e-2. */
#define HALF_TOLERANCE 6e-2

#define N_TOKENS 45

static gint32 *
random_tokens (guint n,
               guint n_vocab)
{
  gint32 *tokens = g_new (gint32, n);

  for (guint i = 0; i < n; i++)
    tokens[i] = g_test_rand_int_range (0, (gint) n_vocab);
  return tokens;
}

static guint *
rising_positions (guint n)
{
  guint *positions = g_new (guint, n);

  for (guint i = 0; i < n; i++)
    positions[i] = i;
  return positions;
}

/* Returns the largest error. */
static double
assert_near (const float  *found,
             const double *expected,
             gsize         n,
             double        tolerance)
{
  double worst = 0;

  for (gsize i = 0; i < n; i++)
    {
      if (!(fabs (found[i] - expected[i]) <= tolerance))
        g_error ("Logit %" G_GSIZE_FORMAT " is %.7g instead of %.7g", i, (double) found[i],
                 expected[i]);
      worst = MAX (worst, fabs (found[i] - expected[i]));
    }
  return worst;
}

static void
assert_same (const float *found,
             const float *expected,
             gsize        n)
{
  for (gsize i = 0; i < n; i++)
    if (memcmp (&found[i], &expected[i], sizeof *found) != 0)
      g_error ("Value %" G_GSIZE_FORMAT " is %.9g instead of %.9g", i, (double) found[i],
               (double) expected[i]);
}

/* --- against the naive model --- */

typedef struct
{
  const char *name;
  LlmTestModel model;
  LlmRopeKind rope_kind;
  float rope_scale;
  LlkKvFormat format;
} Variant;

static const Variant variants[] = {
  { "f32", { .type = LLK_F32 }, LLM_ROPE_NORM, 1, LLK_KV_F32 },
  { "f16", { .type = LLK_F16 }, LLM_ROPE_NORM, 1, LLK_KV_F32 },
  { "bf16", { .type = LLK_BF16 }, LLM_ROPE_NORM, 1, LLK_KV_F32 },
  { "q8-0", { .type = LLK_Q8_0 }, LLM_ROPE_NORM, 1, LLK_KV_F32 },
  { "q4-0", { .type = LLK_Q4_0 }, LLM_ROPE_NORM, 1, LLK_KV_F32 },
  { "untied", { .type = LLK_Q8_0, .is_untied = TRUE }, LLM_ROPE_NORM, 1, LLK_KV_F32 },
  { "grouped", { .n_heads = 8, .n_kv_heads = 2 }, LLM_ROPE_NORM, 1, LLK_KV_F32 },
  { "one-kv-head", { .n_heads = 12, .n_kv_heads = 1, .head_dim = 20 }, LLM_ROPE_NORM, 1,
    LLK_KV_F32 },
  { "wide-heads", { .n_heads = 4, .n_kv_heads = 2, .head_dim = 32 }, LLM_ROPE_NORM, 1, LLK_KV_F32 },
  { "neox", { .n_heads = 4, .n_kv_heads = 2 }, LLM_ROPE_NEOX, 1, LLK_KV_F32 },
  { "rope-factors", { .has_rope_factors = TRUE, .rope_base = 500000 }, LLM_ROPE_NORM, 1,
    LLK_KV_F32 },
  { "rope-linear", { .n_layers = 3 }, LLM_ROPE_NEOX, 4, LLK_KV_F32 },
  { "odd-sizes", { .n_embd = 52, .n_heads = 2, .head_dim = 22, .n_ff = 77, .n_vocab = 301 },
    LLM_ROPE_NORM, 1, LLK_KV_F32 },
  { "half-memory", { .n_heads = 8, .n_kv_heads = 4 }, LLM_ROPE_NORM, 1, LLK_KV_F16 },
};

static ExecRig *
new_rig (const Variant *variant,
         const char    *kernels,
         guint          n_threads)
{
  ExecRigConfig config = { .n_threads = n_threads, .kernels = kernels, .format = variant->format };
  g_autoptr (GBytes) model = llm_test_model_new (&variant->model);
  ExecRig *rig = exec_rig_new (model, &config);

  rig->hparams.rope_kind = variant->rope_kind;
  if (variant->rope_scale != 1)
    {
      rig->hparams.ropes[0].scaling = LLM_ROPE_SCALING_LINEAR;
      rig->hparams.ropes[0].scale = variant->rope_scale;
    }
  return rig;
}

static void
test_naive (gconstpointer data)
{
  const Variant *variant = data;

  for (const char *const *kernels = llk_ops_list (); *kernels != NULL; kernels++)
    {
      g_autoptr (ExecRig) rig = new_rig (variant, *kernels, 2);
      g_autoptr (NaiveModel) naive = naive_model_new (rig->gguf, &rig->hparams);
      g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
      gsize n = (gsize) N_TOKENS * rig->hparams.n_vocab;
      g_autofree gint32 *tokens = random_tokens (N_TOKENS, rig->hparams.n_vocab);
      g_autofree guint *positions = rising_positions (N_TOKENS);
      g_autofree float *found = g_new (float, n);
      g_autofree double *expected = g_new (double, n);
      NaiveRun run = { tokens, positions, N_TOKENS, naive_sees_causal, NULL, NULL, 0 };
      double tolerance = HALF_TOLERANCE;

      naive_model_run (naive, &run, expected, NULL);
      if (variant->format != LLK_KV_F16)
        tolerance = naive_model_get_tolerance (naive, &run, llk_ops_find (*kernels), expected);
      exec_rig_prompt (rig, seq, tokens, N_TOKENS, 17, found);
      g_test_message ("%s: largest error %g", *kernels,
                      assert_near (found, expected, n, tolerance));
    }
}

/* --- the same bits --- */

static const Variant bits_variant = {
  "bits", { .type = LLK_Q8_0, .n_heads = 4, .n_kv_heads = 2 }, LLM_ROPE_NORM, 1, LLK_KV_F16
};

/* With company, another sequence in the same steps, ahead of the tested one, with other
 * visibility. */
static void
run_mixed (ExecRig      *rig,
           const gint32 *tokens,
           guint         step,
           gboolean      has_company,
           float        *logits)
{
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  g_autoptr (LlmKvSeq) other = llm_kv_seq_new (rig->store, NULL, NULL);
  LlmKvSeq *sequences[] = { seq, other };
  LlmRow rows[2 * N_TOKENS];
  guint places[N_TOKENS];
  gsize n_vocab = rig->hparams.n_vocab;

  for (guint first = 0; first < N_TOKENS; first += step)
    {
      guint end = MIN (first + step, N_TOKENS);
      guint n = 0;

      g_assert_true (llm_kv_seq_append (seq, end - first, NULL));
      g_assert_true (llm_kv_seq_append (other, end - first, NULL));
      for (guint slot = first; slot < end; slot++)
        {
          if (has_company)
            {
              rows[n] = exec_rig_row (tokens[N_TOKENS - 1 - slot], 1, slot);
              rows[n].visibility = (LlmVisibility) { LLM_VISIBLE_WINDOW, 5, 2, 0, 0 };
              rows[n++].wants_logits = slot % 3 == 0;
            }
          rows[n] = exec_rig_row (tokens[slot], 0, slot);
          places[slot] = n++;
        }
      exec_rig_step (rig, rows, n, sequences, 2);
      for (guint slot = first; slot < end; slot++)
        {
          guint at = places[slot];

          memcpy (logits + slot * n_vocab, llm_forward_get_logits (rig->forward, at),
                  n_vocab * sizeof (float));
          if (has_company)
            g_assert_true ((llm_forward_get_logits (rig->forward, at - 1) != NULL)
                           == (slot % 3 == 0));
        }
    }
}

static void
test_same_bits (gconstpointer data)
{
  const char *kernels = data;
  static const guint steps[] = { 1, 2, 5, 16, 31, N_TOKENS };
  g_autofree gint32 *tokens = NULL;
  g_autofree float *expected = NULL;
  gsize n = 0;

  for (guint n_threads = 1; n_threads <= 3; n_threads++)
    {
      g_autoptr (ExecRig) rig = new_rig (&bits_variant, kernels, n_threads);
      g_autofree float *found = NULL;

      if (expected == NULL)
        {
          n = (gsize) N_TOKENS * rig->hparams.n_vocab;
          tokens = random_tokens (N_TOKENS, rig->hparams.n_vocab);
          expected = g_new (float, n);
          run_mixed (rig, tokens, 1, FALSE, expected);
        }

      found = g_new (float, n);
      for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
        {
          run_mixed (rig, tokens, steps[i], FALSE, found);
          assert_same (found, expected, n);
          run_mixed (rig, tokens, steps[i], TRUE, found);
          assert_same (found, expected, n);
        }
    }
}

/* A fork goes on as its origin would, and the origin as if there were no fork. */
static void
test_fork (void)
{
  g_autoptr (ExecRig) rig = new_rig (&bits_variant, NULL, 2);
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  g_autoptr (LlmKvSeq) fork = NULL;
  gsize n_vocab = rig->hparams.n_vocab;
  g_autofree gint32 *tokens = random_tokens (N_TOKENS, rig->hparams.n_vocab);
  g_autofree float *expected = g_new (float, N_TOKENS * n_vocab);
  g_autofree float *found = g_new (float, N_TOKENS * n_vocab);
  g_autofree float *other = g_new (float, N_TOKENS * n_vocab);

  exec_rig_prompt (rig, seq, tokens, N_TOKENS, N_TOKENS, expected);
  llm_kv_seq_truncate (seq, 21);
  fork = llm_kv_seq_fork (seq, NULL, NULL);
  exec_rig_prompt (rig, fork, tokens, N_TOKENS - 21, N_TOKENS, other);
  exec_rig_prompt (rig, seq, tokens + 21, N_TOKENS - 21, 7, found);
  assert_same (found, expected + 21 * n_vocab, (N_TOKENS - 21) * n_vocab);
  llm_kv_seq_truncate (fork, 21);
  exec_rig_prompt (rig, fork, tokens + 21, N_TOKENS - 21, 5, found);
  assert_same (found, expected + 21 * n_vocab, (N_TOKENS - 21) * n_vocab);
}

/* --- visibility --- */

typedef struct
{
  LlmVisibility visibility;
  const guint64 *ancestors;   /* by node, where it is a tree */
} Sight;

static gboolean
sees (guint    row,
      guint    other,
      gpointer data)
{
  const Sight *sight = data;
  const LlmVisibility *v = &sight->visibility;

  switch (v->kind)
    {
    case LLM_VISIBLE_CAUSAL:
      return other <= row;
    case LLM_VISIBLE_WINDOW:
      return other <= row && (other < v->sinks || other + v->window > row);
    case LLM_VISIBLE_TREE:
      if (row < v->base)
        return other <= row;
      if (other < v->base)
        return TRUE;
      return other - v->base < 64 && (sight->ancestors[row - v->base] >> (other - v->base) & 1);
    case LLM_VISIBLE_SEGMENT:
      return TRUE;
    default:
      g_assert_not_reached ();
    }
}

/* All rows in one step, as encoders and trees need it. */
static void
run_all (ExecRig      *rig,
         LlmKvSeq     *seq,
         const Sight  *sight,
         const gint32 *tokens,
         const guint  *positions,
         guint         n,
         float        *logits)
{
  g_autofree LlmRow *rows = g_new (LlmRow, n);
  gsize n_vocab = rig->hparams.n_vocab;

  g_assert_true (llm_kv_seq_append (seq, n, NULL));
  for (guint i = 0; i < n; i++)
    {
      rows[i] = exec_rig_row (tokens[i], 0, i);
      rows[i].position = positions[i];
      if (sight->visibility.kind != LLM_VISIBLE_TREE || i >= sight->visibility.base)
        rows[i].visibility = sight->visibility;
      if (rows[i].visibility.kind == LLM_VISIBLE_TREE)
        rows[i].visibility.ancestors = sight->ancestors[i - sight->visibility.base];
    }
  exec_rig_step (rig, rows, n, &seq, 1);
  for (guint i = 0; i < n; i++)
    memcpy (logits + i * n_vocab, llm_forward_get_logits (rig->forward, i),
            n_vocab * sizeof (float));
}

static void
check_sight (Sight       *sight,
             const guint *positions,
             guint        chunk_slots)
{
  ExecRigConfig config = { .n_threads = 2, .chunk_slots = chunk_slots };
  LlmTestModel shape = { .n_heads = 4, .n_kv_heads = 2 };
  g_autoptr (GBytes) model = llm_test_model_new (&shape);
  g_autoptr (ExecRig) rig = exec_rig_new (model, &config);
  g_autoptr (NaiveModel) naive = naive_model_new (rig->gguf, &rig->hparams);
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  gsize n = (gsize) N_TOKENS * rig->hparams.n_vocab;
  g_autofree gint32 *tokens = random_tokens (N_TOKENS, rig->hparams.n_vocab);
  g_autofree float *found = g_new (float, n);
  g_autofree double *expected = g_new (double, n);
  NaiveRun run = { tokens, positions, N_TOKENS, sees, sight, NULL, 0 };

  naive_model_run (naive, &run, expected, NULL);
  run_all (rig, seq, sight, tokens, positions, N_TOKENS, found);
  assert_near (found, expected, n,
               naive_model_get_tolerance (naive, &run, llk_ops_best (), expected));
}

static void
test_visibility (void)
{
  static const guint chunk_slots[] = { 16, 48, 64 };
  g_autofree guint *positions = rising_positions (N_TOKENS);

  for (guint i = 0; i < G_N_ELEMENTS (chunk_slots); i++)
    {
      Sight windows[] = {
        { { LLM_VISIBLE_WINDOW, 1, 0, 0, 0 }, NULL },
        { { LLM_VISIBLE_WINDOW, 16, 4, 0, 0 }, NULL },
        { { LLM_VISIBLE_WINDOW, 7, 33, 0, 0 }, NULL },
        { { LLM_VISIBLE_WINDOW, 900, 2, 0, 0 }, NULL },
        { { LLM_VISIBLE_SEGMENT, 0, 0, 0, 0 }, NULL },
        { { LLM_VISIBLE_CAUSAL, 3, 3, 3, 3 }, NULL },
      };

      for (guint w = 0; w < G_N_ELEMENTS (windows); w++)
        check_sight (&windows[w], positions, chunk_slots[i]);
    }
}

/* A random tree behind a prompt: each node's mask is its parent's and itself. */
static void
grow_tree (guint64 *ancestors,
           guint   *positions,
           guint    base,
           guint    n)
{
  for (guint i = 0; i < n; i++)
    {
      gint parent = g_test_rand_int_range (-1, (gint) i);

      ancestors[i] = (parent < 0 ? 0 : ancestors[parent]) | G_GUINT64_CONSTANT (1) << i;
      positions[base + i] = parent < 0 ? base : positions[base + (guint) parent] + 1;
    }
}

static void
test_tree (void)
{
  static const guint bases[] = { 0, 3, 16, 30 };
  static const guint chunk_slots[] = { 16, 32, 64 };

  for (guint b = 0; b < G_N_ELEMENTS (bases); b++)
    for (guint c = 0; c < G_N_ELEMENTS (chunk_slots); c++)
      {
        guint64 ancestors[64];
        g_autofree guint *positions = rising_positions (N_TOKENS);
        Sight sight = { { LLM_VISIBLE_TREE, 0, 0, bases[b], 0 }, ancestors };

        grow_tree (ancestors, positions, bases[b], N_TOKENS - bases[b]);
        check_sight (&sight, positions, chunk_slots[c]);
      }
}

/* --- density --- */

static void
test_density (void)
{
  float first[16];

  for (guint n_threads = 1; n_threads <= 3; n_threads++)
    {
      g_autoptr (ExecRig) rig = new_rig (&variants[7], NULL, n_threads);
      g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
      g_autofree guint *positions = rising_positions (N_TOKENS);
      g_autofree double *logits = g_new (double, (gsize) N_TOKENS * rig->hparams.n_vocab);
      g_autofree float *found = g_new (float, (gsize) N_TOKENS * rig->hparams.n_vocab);
      gint32 tokens[N_TOKENS];
      double received[N_TOKENS];
      double total = 0;
      NaiveRun run = { tokens, positions, N_TOKENS, naive_sees_causal, NULL, NULL, 0 };
      g_autoptr (NaiveModel) model = naive_model_new (rig->gguf, &rig->hparams);

      for (guint i = 0; i < N_TOKENS; i++)
        tokens[i] = (gint32) (i * 37 % rig->hparams.n_vocab);
      naive_model_run (model, &run, logits, received);
      llm_forward_set_density (rig->forward, TRUE);
      exec_rig_prompt (rig, seq, tokens, N_TOKENS, 20, found);
      assert_near (found, logits, (gsize) N_TOKENS * rig->hparams.n_vocab,
                   naive_model_get_tolerance (model, &run, llk_ops_best (), logits));

      for (guint chunk = 0; chunk < seq->holds->len; chunk++)
        {
          double expected = 0, n_rows = 0;
          float density = llm_kv_seq_get_density (seq, chunk);

          for (guint i = chunk * 16; i < MIN (chunk * 16 + 16, N_TOKENS); i++)
            {
              expected += received[i];
              n_rows += (N_TOKENS - i) / 16.0;
            }
          g_assert_cmpfloat_with_epsilon (density, expected / n_rows, 1e-4);
          total += density * n_rows;
          if (n_threads == 1)
            first[chunk] = density;
          g_assert_cmpfloat (density, ==, first[chunk]);
        }
      g_assert_cmpfloat_with_epsilon (total, N_TOKENS, 1e-3);

      llm_forward_set_density (rig->forward, FALSE);
      exec_rig_prompt (rig, seq, tokens, 1, 1, NULL);
      g_assert_cmpfloat (llm_kv_seq_get_density (seq, 0), ==, first[0]);
    }
}

/* A step that is left, however late, and computed again counts once; what other sequences of the same
 * step look at is theirs, also in chunks that they have in common. */
static void
test_density_once (void)
{
  const guint n_common = 32, n_own = N_TOKENS - n_common;
  g_autoptr (ExecRig) rig = new_rig (&variants[7], NULL, 2);
  g_autoptr (LlmKvSeq) alone = llm_kv_seq_new (rig->store, NULL, NULL);
  gint32 tokens[N_TOKENS];
  gboolean has_ended = FALSE;

  for (guint i = 0; i < N_TOKENS; i++)
    tokens[i] = (gint32) (i * 37 % rig->hparams.n_vocab);
  llm_forward_set_density (rig->forward, TRUE);
  exec_rig_prompt (rig, alone, tokens, n_common, n_common, NULL);
  exec_rig_prompt (rig, alone, tokens + n_common, n_own, n_own, NULL);

  for (guint n_stages = 0; !has_ended; n_stages++)
    {
      g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
      g_autoptr (LlmKvSeq) other = NULL;
      LlmKvSeq *sequences[2] = { seq };
      LlmRow rows[2 * N_TOKENS];
      const LlmBatch batch = { rows, 2 * n_own, sequences, 2 };
      gboolean waits;

      exec_rig_prompt (rig, seq, tokens, n_common, n_common, NULL);
      sequences[1] = other = llm_kv_seq_fork (seq, NULL, NULL);
      for (guint i = 0; i < n_own; i++)
        {
          rows[i] = exec_rig_row (tokens[n_common + i], 0, n_common + i);
          rows[n_own + i] = exec_rig_row (tokens[i], 1, n_common + i);
        }
      for (guint i = 0; i < 2; i++)
        g_assert_true (llm_kv_seq_append (sequences[i], n_own, NULL));
      g_assert_true (llm_forward_begin (rig->forward, &batch, NULL));
      for (guint i = 0; i < n_stages && !has_ended; i++)
        has_ended = llm_forward_step (rig->forward, &waits, NULL) == LLM_READY;
      if (!has_ended)
        {
          llm_forward_abandon (rig->forward);
          exec_rig_step (rig, rows, batch.n_rows, sequences, 2);
        }

      for (guint chunk = 0; chunk < alone->holds->len; chunk++)
        {
          float density = llm_kv_seq_get_density (seq, chunk);
          float expected = llm_kv_seq_get_density (alone, chunk);

          g_assert_cmpmem (&density, sizeof density, &expected, sizeof expected);
          g_assert_cmpfloat (llm_kv_seq_count_density_rows (seq, chunk), ==,
                             llm_kv_seq_count_density_rows (alone, chunk));
          g_assert_cmpfloat (density, !=, llm_kv_seq_get_density (other, chunk));
        }
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (variants); i++)
    {
      g_autofree char *path = g_strdup_printf ("/forward/naive/%s", variants[i].name);

      g_test_add_data_func (path, &variants[i], test_naive);
    }
  for (const char *const *kernels = llk_ops_list (); *kernels != NULL; kernels++)
    {
      g_autofree char *path = g_strdup_printf ("/forward/same-bits/%s", *kernels);

      g_test_add_data_func (path, *kernels, test_same_bits);
    }
  g_test_add_func ("/forward/fork", test_fork);
  g_test_add_func ("/forward/visibility", test_visibility);
  g_test_add_func ("/forward/tree", test_tree);
  g_test_add_func ("/forward/density", test_density);
  g_test_add_func ("/forward/density-once", test_density_once);

  return g_test_run ();
}
