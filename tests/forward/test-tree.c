/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Trees of drafted tokens, bit for bit: a row has the logits that decoding its path would have
 * given, whatever else is in the step; a sequence that committed a path is, in K and V and in
 * density, and goes on as, one that decoded it; what was rejected left nothing behind.
 */

#include <string.h>

#include "forward-rig.h"
#include "split-weights.h"
#include "support/llm-test-gguf.h"
#include "tool/llm-measure.h"
#include "weights/llm-repacked-cache.h"

#define N_MORE 4      /* tokens behind a commit */
#define N_PROMPT 21   /* rows of a prompt in the same step */
#define N_SEQUENCES 4

/* --- trees --- */

typedef struct
{
  guint n;
  gint parents[LLM_TREE_MAX_NODES];   /* -1: the base */
  guint64 paths[LLM_TREE_MAX_NODES];
  gint32 tokens[LLM_TREE_MAX_NODES];
} Tree;

typedef enum
{
  CHAIN,
  WIDE,
  COMB,     /* chains side by side, their nodes by turns */
  DEEP,
  BUSHY,
  N_SHAPES,
} Shape;

static gint
choose_parent (Shape shape,
               gint  node)
{
  switch (shape)
    {
    case CHAIN:
      return node - 1;
    case WIDE:
      return node == 0 || g_test_rand_int_range (0, 8) > 0 ? -1 : 0;
    case COMB:
      return MAX (node - 3, -1);
    case DEEP:
      return g_test_rand_int_range (0, 8) > 0 ? node - 1 : g_test_rand_int_range (0, node + 1) - 1;
    default:
      return g_test_rand_int_range (-1, MAX (node, 0));
    }
}

static void
grow (Tree  *tree,
      Shape  shape,
      guint  n,
      guint  n_vocab)
{
  tree->n = n;
  for (guint i = 0; i < n; i++)
    {
      gint parent = choose_parent (shape, (gint) i);

      tree->parents[i] = parent;
      tree->paths[i] = (parent < 0 ? 0 : tree->paths[parent]) | G_GUINT64_CONSTANT (1) << i;
      tree->tokens[i] = g_test_rand_int_range (0, (gint) n_vocab);
    }
}

/* --- rows --- */

typedef struct
{
  const char *name;
  LlkKvFormat format;
  guint chunk_slots;
  guint window;         /* of the first layer */
  guint sinks, recent;  /* that rows see, 0 for all */
  LlkKvFormat packed;   /* of the chunks before the base; F32: as they are */
  guint first_base, end_base;
} Case;

typedef struct
{
  ExecRig *rig;
  LlmKvStore *store;
  const Case *c;
  guint8 sub_model;     /* of the rows of the part at hand */
} World;

static LlmRow
make_row (const World *world,
          gint32       token,
          guint        slot)
{
  LlmRow row = exec_rig_row (token, 0, slot);

  row.sub_model = world->sub_model;
  if (world->c->recent > 0)
    row.visibility = (LlmVisibility) {
      LLM_VISIBLE_WINDOW, world->c->recent, world->c->sinks, 0, 0
    };
  return row;
}

static LlmRow
make_node (const World *world,
           const Tree  *tree,
           guint        base,
           guint        node)
{
  LlmRow row = exec_rig_row (tree->tokens[node], 0, base + node);

  row.position = base + (guint) __builtin_popcountll (tree->paths[node]) - 1;
  row.visibility = (LlmVisibility) {
    LLM_VISIBLE_TREE, world->c->recent, world->c->sinks, base, tree->paths[node]
  };
  row.is_drafted = TRUE;
  row.sub_model = world->sub_model;
  return row;
}

/* One step of one row. */
static void
decode (const World *world,
        LlmKvSeq    *seq,
        gint32       token,
        float       *logits)
{
  LlmRow row = make_row (world, token, seq->length);
  gsize n = world->rig->hparams.n_vocab;

  g_assert_true (llm_kv_seq_append (seq, 1, NULL));
  exec_rig_step (world->rig, &row, 1, &seq, 1);
  if (logits != NULL)
    memcpy (logits, llm_forward_get_logits (world->rig->forward, 0), n * sizeof (float));
}

static void
assert_same (const World *world,
             const float *found,
             const float *expected,
             const char  *what,
             guint        index)
{
  gsize n = world->rig->hparams.n_vocab, n_wrong = 0;

  for (gsize i = 0; i < n; i++)
    n_wrong += memcmp (&found[i], &expected[i], sizeof *found) != 0;
  if (n_wrong > 0)
    g_error ("%s, %s %u: %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " logits have other bits, the "
             "first is %.9g instead of %.9g", world->c->name, what, index, n_wrong, n,
             (double) found[0], (double) expected[0]);
}

/* The logits of all nodes, each path decoded from the base on; @seq has the base. */
static void
walk (const World *world,
      LlmKvSeq    *seq,
      const Tree  *tree,
      gint         parent,
      float       *logits)
{
  guint length = seq->length;

  for (guint i = 0; i < tree->n; i++)
    if (tree->parents[i] == parent)
      {
        llm_kv_seq_truncate (seq, length);
        decode (world, seq, tree->tokens[i], logits + i * world->rig->hparams.n_vocab);
        walk (world, seq, tree, (gint) i, logits);
      }
}

/* --- sequences --- */

static void
assert_same_values (const LlmKvView *a,
                    const LlmKvView *b,
                    guint            n_heads,
                    guint            head_dim)
{
  gsize bytes = llk_kv_bits (a->format) / 8;

  g_assert_cmpint (a->format, ==, b->format);
  g_assert_cmpuint (a->n_slots, ==, b->n_slots);
  for (guint head = 0; head < n_heads; head++)
    {
      const guint8 *ak = (const guint8 *) a->k + head * a->head_bytes;
      const guint8 *bk = (const guint8 *) b->k + head * b->head_bytes;
      gsize v = (gsize) ((const guint8 *) a->v - (const guint8 *) a->k);

      if (llk_kv_is_packed (a->format))
        {
          g_assert_cmpmem (ak, a->head_bytes, bk, b->head_bytes);
          continue;
        }
      for (gsize d = 0; d < head_dim; d++)
        g_assert_cmpmem (ak + d * a->chunk_slots * bytes, a->n_slots * bytes,
                         bk + d * b->chunk_slots * bytes, b->n_slots * bytes);
      g_assert_cmpmem (ak + v, a->n_slots * head_dim * bytes,
                       bk + v, b->n_slots * head_dim * bytes);
    }
}

/* K, V and density. Returns the densities' sum. */
static float
assert_same_sequences (const World *world,
                       LlmKvSeq    *a,
                       LlmKvSeq    *b)
{
  const LlmHparams *h = &world->rig->hparams;
  float sum = 0;

  g_assert_cmpuint (a->length, ==, b->length);
  g_assert_cmpuint (a->holds->len, ==, b->holds->len);
  for (guint chunk = 0; chunk < a->holds->len; chunk++)
    {
      float a_density = llm_kv_seq_get_density (a, chunk);
      float b_density = llm_kv_seq_get_density (b, chunk);

      g_assert_cmpmem (&a_density, sizeof a_density, &b_density, sizeof b_density);
      sum += a_density;
      for (guint layer = 0; layer < h->n_layers; layer++)
        {
          LlmKvView a_view, b_view;

          llm_kv_seq_view (a, layer, chunk, &a_view);
          llm_kv_seq_view (b, layer, chunk, &b_view);
          assert_same_values (&a_view, &b_view, h->n_kv_heads, h->head_dim);
        }
    }
  return sum;
}

/* A sequence of @n random tokens in steps; its whole chunks quantized where the case says so. */
static LlmKvSeq *
make_base (const World *world,
           guint        n)
{
  LlmKvSeq *seq = llm_kv_seq_new (world->store, NULL, NULL);
  g_autofree gint32 *tokens = g_new (gint32, n + 1);
  g_autoptr (GError) error = NULL;
  LlmKvPlan plan;

  for (guint i = 0; i < n; i++)
    tokens[i] = g_test_rand_int_range (0, (gint) world->rig->hparams.n_vocab);
  g_assert_true (llm_kv_seq_begin_call (seq, n, &plan, &error));
  exec_rig_prompt (world->rig, seq, tokens, n, 150, NULL);
  llm_measure_end (world->store, seq, tokens);
  for (guint chunk = 0; llk_kv_is_packed (world->c->packed) && chunk + 1 < seq->holds->len; chunk++)
    {
      LlmKvView view;

      llm_kv_seq_view (seq, 0, chunk, &view);
      g_assert_cmpint (view.format, ==, world->c->packed);
    }
  return seq;
}

/* --- a step --- */

/* What one sequence has in the step. */
typedef struct
{
  LlmKvSeq *seq;
  LlmKvSeq *line;         /* the same, that is decoded */
  guint8 sub_model;
  Tree tree;              /* empty: prompt rows, or one plain row */
  guint base;             /* of the tree */
  guint n_before;         /* plain rows before the tree */
  gint32 before[N_PROMPT];
  guint n_done;
  guint rows[N_PROMPT + LLM_TREE_MAX_NODES];   /* of the batch */
} Part;

static void
make_part (const World *world,
           Part        *part,
           guint        n_base,
           guint        n_before,
           Shape        shape,
           guint        n_nodes)
{
  const LlmSubModels *table = world->rig->weights->sub_models;
  guint n_vocab = world->rig->hparams.n_vocab;
  LlmKvPlan plan;

  part->line = make_base (world, n_base);
  part->seq = llm_kv_seq_fork (part->line, NULL, NULL);
  /* So that nothing of it is quantized. */
  g_assert_true (llm_kv_seq_begin_call (part->seq, n_before + n_nodes, &plan, NULL));
  part->sub_model = table->percent[g_test_rand_int_range (0, (gint) table->n_levels)];
  part->base = n_base + n_before;
  part->n_before = n_before;
  part->n_done = 0;
  for (guint i = 0; i < n_before; i++)
    part->before[i] = g_test_rand_int_range (0, (gint) n_vocab);
  grow (&part->tree, shape, n_nodes, n_vocab);
  g_assert_true (llm_kv_seq_append (part->seq, n_before + n_nodes, NULL));
}

/* Rows of all parts in one step, mixed. */
static void
run_parts (const World *world,
           Part        *parts,
           guint        n_parts)
{
  LlmKvSeq *sequences[N_SEQUENCES];
  LlmRow rows[N_SEQUENCES * (N_PROMPT + LLM_TREE_MAX_NODES)];
  guint n = 0, n_left = 0;

  for (guint p = 0; p < n_parts; p++)
    {
      sequences[p] = parts[p].seq;
      n_left += parts[p].n_before + parts[p].tree.n;
    }
  while (n < n_left)
    {
      guint p = (guint) g_test_rand_int_range (0, (gint) n_parts);
      Part *part = &parts[p];
      const World own = { world->rig, world->store, world->c, part->sub_model };

      if (part->n_done == part->n_before + part->tree.n)
        continue;
      if (part->n_done < part->n_before)
        rows[n] = make_row (&own, part->before[part->n_done],
                            part->base - part->n_before + part->n_done);
      else
        rows[n] = make_node (&own, &part->tree, part->base, part->n_done - part->n_before);
      rows[n].sequence = p;
      part->rows[part->n_done++] = n++;
    }
  exec_rig_step (world->rig, rows, n, sequences, n_parts);
}

/* Its rows against those of each path decoded. */
static void
check_part (const World *world,
            const Part  *part,
            const float *logits)
{
  gsize n_vocab = world->rig->hparams.n_vocab;
  g_autofree float *expected = g_new (float, (LLM_TREE_MAX_NODES + 1) * n_vocab);
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_fork (part->line, NULL, NULL);

  for (guint i = 0; i < part->n_before; i++)
    {
      decode (world, seq, part->before[i], expected);
      assert_same (world, logits + part->rows[i] * n_vocab, expected, "row", i);
    }
  walk (world, seq, &part->tree, -1, expected);
  for (guint i = 0; i < part->tree.n; i++)
    assert_same (world, logits + part->rows[part->n_before + i] * n_vocab, expected + i * n_vocab,
                 "node", i);
}

/* Accepts the path to @node (or -1: nothing), and goes on. */
static void
commit_part (const World *world,
             Part        *part,
             gint         node)
{
  guint path[LLM_TREE_MAX_NODES];
  guint n = 0;

  for (guint64 left = node < 0 ? 0 : part->tree.paths[node]; left != 0; left &= left - 1)
    {
      guint at = (guint) __builtin_ctzll (left);

      path[n++] = part->base + at;
      llm_forward_accept (world->rig->forward, part->seq, part->rows[part->n_before + at]);
    }
  llm_kv_seq_commit (part->seq, part->base, path, n);
}

static void
check_commit (const World *world,
              Part        *part,
              gint         node)
{
  gsize n_vocab = world->rig->hparams.n_vocab;
  g_autofree float *found = g_new (float, n_vocab);
  g_autofree float *expected = g_new (float, n_vocab);

  for (guint i = 0; i < part->n_before; i++)
    decode (world, part->line, part->before[i], NULL);
  for (guint64 left = node < 0 ? 0 : part->tree.paths[node]; left != 0; left &= left - 1)
    decode (world, part->line, part->tree.tokens[__builtin_ctzll (left)], NULL);
  assert_same_sequences (world, part->seq, part->line);

  for (guint i = 0; i < N_MORE; i++)
    {
      gint32 token = g_test_rand_int_range (0, (gint) n_vocab);

      decode (world, part->seq, token, found);
      decode (world, part->line, token, expected);
      assert_same (world, found, expected, "token behind the commit", i);
    }
  g_assert_cmpfloat (assert_same_sequences (world, part->seq, part->line), >, 0);
}

static void
run_round (const World *world,
           guint        round)
{
  const Case *c = world->c;
  gsize n_vocab = world->rig->hparams.n_vocab;
  g_autofree Part *parts = g_new0 (Part, N_SEQUENCES);
  g_autofree float *logits =
    g_new (float, N_SEQUENCES * (N_PROMPT + LLM_TREE_MAX_NODES) * n_vocab);
  guint base = (guint) g_test_rand_int_range ((gint) c->first_base, (gint) c->end_base);
  gint nodes[N_SEQUENCES];

  make_part (world, &parts[0], base, round % 4, round % N_SHAPES,
             round % 3 == 0 ? LLM_TREE_MAX_NODES : (guint) g_test_rand_int_range (1, 65));
  make_part (world, &parts[1], c->first_base, 1, g_test_rand_int_range (0, N_SHAPES),
             (guint) g_test_rand_int_range (1, 30));
  make_part (world, &parts[2], 0, N_PROMPT, CHAIN, 0);
  make_part (world, &parts[3], c->first_base / 2, 1, CHAIN, 0);
  run_parts (world, parts, N_SEQUENCES);
  for (guint p = 0; p < N_SEQUENCES; p++)
    for (guint i = 0; i < parts[p].n_done; i++)
      memcpy (logits + parts[p].rows[i] * n_vocab,
              llm_forward_get_logits (world->rig->forward, parts[p].rows[i]),
              n_vocab * sizeof (float));

  for (guint p = 0; p < N_SEQUENCES; p++)
    {
      guint n = parts[p].tree.n;

      nodes[p] = n > 0 ? g_test_rand_int_range (round % 4 == 3 ? -1 : 0, (gint) n) : -1;
      commit_part (world, &parts[p], nodes[p]);
    }
  for (guint p = 0; p < N_SEQUENCES; p++)
    {
      const World own = { world->rig, world->store, world->c, parts[p].sub_model };

      check_part (&own, &parts[p], logits);
      check_commit (&own, &parts[p], nodes[p]);
    }

  for (guint p = 0; p < N_SEQUENCES; p++)
    {
      llm_kv_seq_preempt (parts[p].seq);
      llm_kv_seq_free (parts[p].seq);
      llm_kv_seq_free (parts[p].line);
    }
}

/* --- tests --- */

#define BORDER LLK_ATTENTION_RUN

static const Case cases[] = {
  { "f16", LLK_KV_F16, 16, 0, 0, 0, LLK_KV_F32, 0, 70 },
  { "f32", LLK_KV_F32, 16, 0, 0, 0, LLK_KV_F32, 0, 70 },
  { "chunks-of-48", LLK_KV_F32, 48, 0, 0, 0, LLK_KV_F32, 30, 120 },
  { "chunks-of-64", LLK_KV_F16, 64, 0, 0, 0, LLK_KV_F32, 30, 140 },
  { "at-a-run", LLK_KV_F16, 16, 0, 0, 0, LLK_KV_F32, BORDER - 2, BORDER + 2 },
  { "over-a-run", LLK_KV_F32, 16, 0, 0, 0, LLK_KV_F32, BORDER - 50, BORDER },
  { "odd-run", LLK_KV_F16, 48, 0, 0, 0, LLK_KV_F32, 10 * 48 - 30, 10 * 48 + 2 },
  { "window", LLK_KV_F16, 16, 9, 0, 0, LLK_KV_F32, 0, 60 },
  { "wide-window", LLK_KV_F32, 16, 50, 0, 0, LLK_KV_F32, 0, 90 },
  { "sinks", LLK_KV_F16, 16, 0, 3, 7, LLK_KV_F32, 0, 60 },
  { "packed-8", LLK_KV_F16, 16, 0, 0, 0, LLK_KV_Q8, 30, 100 },
  { "packed-4", LLK_KV_F16, 16, 30, 0, 0, LLK_KV_Q4, 30, 100 },
  { "packed-2", LLK_KV_F16, 32, 0, 0, 0, LLK_KV_Q2, 70, 130 },
};

static void
run_rounds (ExecRig    *rig,
            const Case *c,
            guint       n_rounds)
{
  LlmKvPolicy policy = llm_kv_policy_keep;
  World world = { .rig = rig, .c = c, .sub_model = 100 };

  if (llk_kv_is_packed (c->packed))
    {
      policy.compression = LLM_KV_UNIFORM;
      policy.uniform = c->packed;
    }
  world.store = llm_kv_store_new (&rig->store->layout, &policy, NULL, NULL);
  g_assert_nonnull (world.store);
  if (c->window > 0)
    rig->hparams.layers[0].window = c->window;
  llm_forward_set_density (rig->forward, TRUE);
  for (guint round = 0; round < n_rounds; round++)
    run_round (&world, round);
  llm_kv_store_free (world.store);
}

static void
test_bits (gconstpointer data)
{
  const Case *c = data;
  guint i = 0;

  for (const char *const *kernels = llk_ops_list (); *kernels != NULL; kernels++, i++)
    {
      const LlmTestModel shape = {
        .type = i % 2 == 0 ? LLK_Q8_0 : LLK_F32, .n_heads = 4, .n_kv_heads = 2, .head_dim = 24,
        .seed = 3, .n_ctx = 1024,
      };
      const ExecRigConfig config = {
        .n_threads = 1 + i % 3, .kernels = *kernels, .format = c->format,
        .chunk_slots = c->chunk_slots,
      };
      g_autoptr (GBytes) model = llm_test_model_new (&shape);
      g_autoptr (ExecRig) rig = exec_rig_new (model, &config);

      run_rounds (rig, c, c->first_base < 200 ? N_SHAPES : 3);
    }
}

static const char *const formats[] = {
  "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "MXFP4",
  "Q2_K", "Q2_K-768", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS",
};

/* Weights as the service has them. */
static void
test_format (gconstpointer data)
{
  const Case c = { data, LLK_KV_F16, 16, 0, 0, 0, LLK_KV_F32, 10, 40 };
  g_autofree char *file = g_strconcat (data, ".gguf", NULL);
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "formats", file, NULL);

  for (const char *const *kernels = llk_ops_list (); *kernels != NULL; kernels++)
    {
      const ExecRigConfig config = { .n_threads = 2, .kernels = *kernels, .format = c.format };
      g_autoptr (ExecRig) rig = exec_rig_open (path, &config);
      g_autoptr (GError) error = NULL;
      LlmWeights *weights = llm_weights_new_repacked (rig->gguf, &rig->hparams, NULL, NULL, 2,
                                                      rig->ledger, &error);

      g_assert_no_error (error);
      llm_weights_free (rig->weights);
      exec_rig_set_weights (rig, weights, &config);
      run_rounds (rig, &c, 1);
    }
}

/* Rows of nine sub-models in a step. */
static void
test_levels (void)
{
  const Case c = { "levels", LLK_KV_F16, 16, 0, 0, 0, LLK_KV_F32, 0, 50 };
  const LlmTestModel shape = {
    .type = LLK_Q8_0, .n_layers = 3, .n_embd = 128, .n_heads = 8, .n_kv_heads = 4, .n_ff = 288,
    .seed = 7,
  };
  const SplitConfig split = { 9, FALSE, FALSE };
  g_autoptr (GBytes) model = llm_test_model_new (&shape);

  for (const char *const *kernels = llk_ops_list (); *kernels != NULL; kernels++)
    {
      const ExecRigConfig config = { .n_threads = 2, .kernels = *kernels, .format = c.format };
      SplitCounts counts = { 0 };
      g_autoptr (ExecRig) rig = exec_rig_new (model, &config);

      exec_rig_set_weights (rig, split_weights_new (rig->weights, &rig->hparams, &split, &counts),
                            &config);
      run_rounds (rig, &c, N_SHAPES);
      g_assert_cmpuint (counts.n_held, ==, 0);
    }
}

static const char *const architectures[] = {
  "llama-experts", "llama-longrope", "gemma2", "gemma3", "qwen3", "phi3", "mistral3", "smollm3",
};

/* The exact path. */
static void
test_architecture (gconstpointer data)
{
  const Case c = { data, LLK_KV_F32, 16, 0, 0, 0, LLK_KV_F32, 10, 40 };
  g_autofree char *file = g_strconcat (data, ".gguf", NULL);
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "architectures", file,
                                            NULL);

  for (const char *const *kernels = llk_ops_list (); *kernels != NULL; kernels++)
    {
      const ExecRigConfig config = { .n_threads = 2, .kernels = *kernels, .format = c.format };
      g_autoptr (ExecRig) rig = exec_rig_open (path, &config);

      run_rounds (rig, &c, 2);
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strdup_printf ("/tree/bits/%s", cases[i].name);

      g_test_add_data_func (path, &cases[i], test_bits);
    }
  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    {
      g_autofree char *path = g_strdup_printf ("/tree/formats/%s", formats[i]);

      g_test_add_data_func (path, formats[i], test_format);
    }
  g_test_add_func ("/tree/levels", test_levels);
  for (guint i = 0; i < G_N_ELEMENTS (architectures); i++)
    {
      g_autofree char *path = g_strdup_printf ("/tree/architectures/%s", architectures[i]);

      g_test_add_data_func (path, architectures[i], test_architecture);
    }
  return g_test_run ();
}
