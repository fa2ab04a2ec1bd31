/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Products in W8A8 and their shadows, by the backend alone and in a model; what is noted of
 * activations. */

#include <math.h>
#include <string.h>

#include "w8/llm-backend-q8.h"
#include "backends/llm-backend-w8.h"
#include "backends/llm-backend-watch.h"
#include "forward-rig.h"
#include "support/llm-test-gguf.h"

#define N_IN 96
#define N_OUT 40
#define N_ROWS 9
#define LAYER 1

/* A matrix with rows that have an outlier each. */
typedef struct
{
  LlmHparams hparams;
  LlmWorkerPool *pool;
  LlmHost host;
  float w[N_OUT * N_IN], x[N_ROWS * N_IN], y[N_ROWS * N_OUT];
  LlmWeightView view;
  guint n_rows;
  LlmW8Site sites[2 * LLM_W8_N_KINDS];
  LlmW8Method methods[2 * LLM_W8_N_KINDS];
} Case;

/* Channels with outliers. */
static const guint16 hot_channels[N_IN] = { [17] = 1, [60] = 2 };

static void
init_case (Case *c)
{
  g_autoptr(GRand) random = g_rand_new_with_seed (5);

  memset (c, 0, sizeof *c);
  c->hparams.n_layers = 2;
  c->pool = llm_worker_pool_new (2);
  c->host = (LlmHost) { .pool = c->pool };
  for (guint i = 0; i < N_OUT * N_IN; i++)
    c->w[i] = (float) g_rand_double_range (random, -1, 1);
  for (guint i = 0; i < N_ROWS * N_IN; i++)
    c->x[i] = (float) g_rand_double_range (random, -1, 1);
  for (guint r = 0; r < N_ROWS; r++)
    c->x[r * N_IN + (r % 2 == 0 ? 17 : 60)] = r % 3 == 0 ? 90 : -70;
  c->view = (LlmWeightView) {
    .data = c->w, .type = LLK_F32, .layout = LLM_LAYOUT_ROWS, .row_bytes = N_IN * sizeof (float),
    .in_count = N_IN, .out_count = N_OUT,
  };
  c->n_rows = N_ROWS;
  c->sites[llm_w8_site_at (LAYER, LLM_W8_FFN_INPUT)] = (LlmW8Site) {
    1 / 127.0f, TRUE, hot_channels,
  };
}

static LlmOp
make_op (Case *c)
{
  LlmOp op = {
    .shape = { LLM_BACKEND_PRODUCT, LLK_F32, LLM_LAYOUT_ROWS, N_IN, N_OUT, N_ROWS, LLM_OP_FFN_UP,
               LAYER },
    .rows = { c->x, N_IN },
    .product = { .pieces = &c->view, .n_rows = &c->n_rows, .n_pieces = 1, .y = c->y, .y_stride = N_OUT },
    .host = &c->host,
  };

  return op;
}

static LlmBackend *
new_backend (Case *c)
{
  LlmW8Config config = {
    .hparams = &c->hparams, .sites = c->sites, .methods = c->methods,
    .min_rows = N_ROWS,
  };

  return llm_backend_w8_new (llk_ops_best (), &config);
}

/* The largest error of c->y beside arithmetic in double. */
static double
get_error (const Case *c)
{
  double largest = 0;

  for (guint r = 0; r < N_ROWS; r++)
    for (guint o = 0; o < N_OUT; o++)
      {
        double sum = 0;

        for (guint i = 0; i < N_IN; i++)
          sum += (double) c->x[r * N_IN + i] * (double) c->w[o * N_IN + i];
        largest = MAX (largest, fabs (sum - (double) c->y[r * N_OUT + o]));
      }
  return largest;
}

static double
run_case (Case       *c,
          LlmBackend *backend)
{
  LlmOp op = make_op (c), *ops[] = { &op };

  g_assert_true (backend->class->can_run (backend, &op.shape));
  g_assert_true (backend->class->submit (backend, ops, 1, NULL));
  g_assert_cmpint (op.status, ==, LLM_READY);
  return get_error (c);
}

/* What is beyond the scale is not lost, and costs what it must. */
static void
test_shadow (void)
{
  g_autoptr(LlmBackend) backend = NULL;
  LlmW8Site *site;
  LlmW8Counts counts;
  double error;
  Case c;

  init_case (&c);
  site = &c.sites[llm_w8_site_at (LAYER, LLM_W8_FFN_INPUT)];
  backend = new_backend (&c);
  g_assert_cmpfloat (run_case (&c, backend), <, 0.15);
  counts = llm_backend_w8_get_counts (backend);
  g_assert_cmpuint (counts.n_beyond, ==, N_ROWS);
  g_assert_cmpuint (counts.n_values, ==, N_ROWS * N_IN);
  g_assert_cmpuint (counts.n_products, ==, N_ROWS * N_IN * N_OUT);
  /* hot channels of each row */
  g_assert_cmpuint (counts.n_shadow_products, ==, 2 * N_ROWS * N_OUT);
  g_assert_cmpuint (backend->class->bytes (backend), >=, N_OUT * N_IN);

  /* int8 weights of what is so large are off by more */
  site->hot_of = NULL;
  llm_backend_free (g_steal_pointer (&backend));
  backend = new_backend (&c);
  error = run_case (&c, backend);
  g_assert_cmpfloat (error, >, 0.15);
  g_assert_cmpfloat (error, <, 0.5);

  site->has_shadow = FALSE;
  g_assert_cmpfloat (run_case (&c, backend), >, 20);
  /* a scale up to the largest leaves nothing out, and next to nothing of the others */
  site->scale = 90 / 127.0f;
  g_assert_cmpfloat (run_case (&c, backend), >, 1);
  llm_worker_pool_free (c.pool);
}

/* The ways of others, which are compared with. */
static void
test_methods (void)
{
  static const guint8 is_float[N_IN] = { [17] = 1, [60] = 1 };
  float factors[N_IN];
  Case c;

  init_case (&c);
  for (guint i = 0; i < N_IN; i++)
    factors[i] = is_float[i] != 0 ? 9.5f : 1;
  for (guint i = 0; i < 2; i++)
    {
      LlmW8Method *method = &c.methods[llm_w8_site_at (LAYER, LLM_W8_FFN_INPUT)];
      LlmW8Site *site = &c.sites[llm_w8_site_at (LAYER, LLM_W8_FFN_INPUT)];
      g_autoptr(LlmBackend) backend = new_backend (&c);
      double naive;

      *site = (LlmW8Site) { 90 / 127.0f, FALSE, hot_channels };
      *method = (LlmW8Method) { 0 };
      naive = run_case (&c, backend);
      llm_backend_free (g_steal_pointer (&backend));
      if (i == 0)
        *method = (LlmW8Method) { TRUE, NULL };
      else
        {
          *method = (LlmW8Method) { FALSE, factors };
          site->scale = 90 / 9.5f / 127;
        }
      backend = new_backend (&c);
      g_assert_cmpfloat (run_case (&c, backend), <, i == 0 ? naive / 10 : naive / 2);
    }
  llm_worker_pool_free (c.pool);
}

/* Adds where it must, and packed weights are the same weights. */
static void
test_added (void)
{
  static const float ones[N_ROWS * N_OUT] = { [0 ... N_ROWS * N_OUT - 1] = 1 };
  g_autoptr(LlmBackend) backend = NULL;
  g_autofree float *plain = NULL;
  LlmOp op, *ops[] = { &op };
  Case c;

  init_case (&c);
  backend = new_backend (&c);
  run_case (&c, backend);
  plain = g_memdup2 (c.y, sizeof c.y);
  op = make_op (&c);
  op.product.is_added = TRUE;
  memcpy (c.y, ones, sizeof ones);
  g_assert_true (backend->class->submit (backend, ops, 1, NULL));
  for (guint i = 0; i < N_ROWS * N_OUT; i++)
    g_assert_cmpfloat_with_epsilon (c.y[i], plain[i] + 1, 1e-4);
  llm_worker_pool_free (c.pool);
}

/* After the longest step nothing is allocated any more, whatever the lengths of a thousand prompts and
 * their outliers; and a row's bits are the same among others as alone. */
static void
test_prompts (void)
{
  g_autoptr(GRand) random = g_rand_new_with_seed (9);
  g_autoptr(LlmBackend) backend = NULL;
  guint64 bytes = 0;
  Case c;

  init_case (&c);
  backend = llm_backend_w8_new (llk_ops_best (), &(LlmW8Config) {
    .hparams = &c.hparams, .sites = c.sites,
  });
  for (guint i = 0; i < 1000; i++)
    {
      LlmOp op = make_op (&c), *ops[] = { &op };
      float last[N_OUT];

      for (guint k = 0; k < N_ROWS * N_IN; k++)
        c.x[k] = (float) g_rand_double_range (random, -1, 1);
      for (guint r = 0; r < N_ROWS; r++)
        for (gint k = g_rand_int_range (random, i == 0, N_IN / 16); k > 0; k--)
          c.x[r * N_IN + (guint) g_rand_int_range (random, 0, N_IN)] = 5;
      c.n_rows = op.shape.n_rows = i == 0 ? N_ROWS : (guint) g_rand_int_range (random, 1, N_ROWS + 1);
      g_assert_true (backend->class->submit (backend, ops, 1, NULL));
      if (i == 0)
        bytes = backend->class->bytes (backend);
      g_assert_cmpuint (backend->class->bytes (backend), ==, bytes);
      memcpy (last, c.y + (c.n_rows - 1) * N_OUT, sizeof last);
      op.rows.values += (c.n_rows - 1) * N_IN;
      c.n_rows = op.shape.n_rows = 1;
      g_assert_true (backend->class->submit (backend, ops, 1, NULL));
      g_assert_cmpmem (c.y, sizeof last, last, sizeof last);
      if (i == 500)
        {
          /* given back, it is made again */
          llm_backend_w8_trim (backend);
          g_assert_cmpuint (backend->class->bytes (backend), <, bytes);
          op = make_op (&c);
          c.n_rows = N_ROWS;
          g_assert_true (backend->class->submit (backend, ops, 1, NULL));
          bytes = backend->class->bytes (backend);
        }
    }
  llm_worker_pool_free (c.pool);
}

/* Few rows, other operators, and sites without a scale are the CPU's. */
static void
test_refused (void)
{
  g_autoptr(LlmBackend) backend = NULL;
  LlmOp op;
  Case c;

  init_case (&c);
  backend = new_backend (&c);
  op = make_op (&c);
  g_assert_true (backend->class->can_run (backend, &op.shape));
  op.shape.n_rows--;
  g_assert_false (backend->class->can_run (backend, &op.shape));
  op.shape.n_rows++;
  op.shape.op = LLM_OP_FFN_DOWN;
  g_assert_false (backend->class->can_run (backend, &op.shape));
  op.shape.op = LLM_N_OPS;
  g_assert_false (backend->class->can_run (backend, &op.shape));
  op.shape.op = LLM_OP_FFN_GATE;
  op.shape.layer = 0;
  g_assert_false (backend->class->can_run (backend, &op.shape));
  op.shape.layer = LAYER;
  op.shape.n_in = LLK_W8_MAX_INPUTS + 1;
  g_assert_false (backend->class->can_run (backend, &op.shape));
  op.shape.n_in = N_IN;
  op.shape.kind = LLM_BACKEND_ATTENTION;
  g_assert_false (backend->class->can_run (backend, &op.shape));
  llm_worker_pool_free (c.pool);
}

static void
test_watch (void)
{
  g_autoptr(LlmBackend) backend = NULL;
  const float *maxima;
  Case c;
  LlmOp op, *ops[] = { &op };

  init_case (&c);
  /* as a product of floats has it */
  c.host.scratch_bytes = llm_matmul_get_scratch (llk_ops_best (), N_IN, G_MAXUINT);
  c.host.row_bytes = llm_matmul_get_row_bytes (N_IN);
  c.host.scratch = g_aligned_alloc (2, c.host.scratch_bytes, 64);
  c.host.prepared = g_aligned_alloc (N_ROWS, c.host.row_bytes, 64);
  backend = llm_backend_watch_new (llk_ops_best (), &c.hparams, NULL);
  op = make_op (&c);
  g_assert_true (backend->class->submit (backend, ops, 1, NULL));
  g_assert_cmpfloat (get_error (&c), <, 1e-3);
  maxima = llm_backend_watch_get_maxima (backend, LAYER, LLM_W8_FFN_INPUT);
  g_assert_cmpfloat (maxima[17], ==, 90);
  g_assert_cmpfloat (maxima[60], ==, 90);
  g_assert_cmpfloat (maxima[18], <=, 1);
  g_assert_cmpfloat (
    llm_backend_watch_get_quantile (backend, LAYER, LLM_W8_FFN_INPUT, 1), ==, 90);
  /* one value of 96 is an outlier */
  g_assert_cmpfloat (
    llm_backend_watch_get_quantile (backend, LAYER, LLM_W8_FFN_INPUT, 0.98), <=, 1.04);
  g_assert_cmpfloat (
    llm_backend_watch_get_quantile (backend, LAYER, LLM_W8_FFN_INPUT, 0.98), >=, 0.9);
  g_assert_null (llm_backend_watch_get_maxima (backend, 0, LLM_W8_FFN_INPUT));
  g_assert_cmpfloat (llm_backend_watch_get_quantile (backend, 0, LLM_W8_FFN_INPUT, 1), ==, 0);
  g_aligned_free (c.host.scratch);
  g_aligned_free (c.host.prepared);
  llm_worker_pool_free (c.pool);
}

/* --- in a model --- */

#define N_TOKENS 24

static float *
run_model (LlmBackend *device,
           LlkType     type)
{
  const LlmTestModel shape = { .type = type, .n_heads = 4, .n_kv_heads = 2, .seed = 7 };
  const ExecRigConfig config = { .n_threads = 2, .device = device };
  g_autoptr(GBytes) model = llm_test_model_new (&shape);
  ExecRig *rig = exec_rig_new (model, &config);
  LlmKvSeq *seq = llm_kv_seq_new (rig->store, NULL, NULL);
  float *logits = g_new (float, (gsize) N_TOKENS * rig->hparams.n_vocab);
  gint32 tokens[N_TOKENS];

  for (guint i = 0; i < N_TOKENS; i++)
    tokens[i] = (gint32) (i * 101 % rig->hparams.n_vocab);
  exec_rig_prompt (rig, seq, tokens, N_TOKENS, 12, logits);
  llm_kv_seq_free (seq);
  exec_rig_free (rig);
  return logits;
}

/* Scales from a run of the model itself: near to it, and other than it. Of Q8_0 as of F32, since
 * forms are made of any type. */
static void
test_model (gconstpointer data)
{
  LlkType type = GPOINTER_TO_UINT (data);
  const LlmTestModel shape = { .type = type, .n_heads = 4, .n_kv_heads = 2, .seed = 7 };
  const ExecRigConfig plain = { .n_threads = 1 };
  g_autoptr(GBytes) model = llm_test_model_new (&shape);
  ExecRig *rig = exec_rig_new (model, &plain);
  LlmHparams *hparams = &rig->hparams;
  g_autoptr(LlmBackend) watcher = llm_backend_watch_new (llk_ops_best (), hparams, NULL);
  g_autofree LlmW8Site *sites = g_new0 (LlmW8Site, hparams->n_layers * LLM_W8_N_KINDS);
  LlmW8Config config = { .hparams = hparams, .sites = sites, .min_rows = 12 };
  g_autofree float *exact = run_model (watcher, type), *found = NULL, *q8_logits = NULL;
  g_autoptr(LlmBackend) q8 = llm_backend_q8_new (llk_ops_best (), hparams);
  g_autoptr(LlmBackend) backend = llm_backend_w8_new (llk_ops_best (), &config);
  guint n = N_TOKENS * hparams->n_vocab;
  double distance;

  for (guint at = 0; at < hparams->n_layers * LLM_W8_N_KINDS; at++)
    sites[at] = (LlmW8Site) {
      llm_backend_watch_get_quantile (watcher, at / LLM_W8_N_KINDS, at % LLM_W8_N_KINDS, 0.99) / 127,
      TRUE,
    };
  found = run_model (backend, type);
  g_assert_cmpuint (llm_backend_w8_get_counts (backend).n_beyond, >, 0);
  distance = exec_rig_get_distance (found, exact, n);
  g_test_message ("distance %g", distance);
  g_assert_cmpfloat (distance, >, 0);
  g_assert_cmpfloat (distance, <, 0.05);
  q8_logits = run_model (q8, type);
  g_assert_cmpfloat (exec_rig_get_distance (q8_logits, exact, n), <, 0.05);
  exec_rig_free (rig);
}

/* A gated network whose inner values are never floats in memory has the bits and the counts of one
 * that goes through memory, with hot channels and shadows in it, whatever the processors. */
static void
test_gated (void)
{
  const LlmTestModel shape = { .type = LLK_F32, .n_heads = 4, .n_kv_heads = 2, .seed = 7 };
  const ExecRigConfig plain = { .n_threads = 1 };
  g_autoptr(GBytes) model = llm_test_model_new (&shape);
  ExecRig *rig = exec_rig_new (model, &plain);
  guint n_sites = rig->hparams.n_layers * LLM_W8_N_KINDS;
  g_autoptr(LlmBackend) watcher = llm_backend_watch_new (llk_ops_best (), &rig->hparams, NULL);
  g_autofree LlmW8Site *sites = g_new0 (LlmW8Site, n_sites);
  g_autofree LlmW8Method *methods = g_new0 (LlmW8Method, n_sites);
  g_autofree guint16 *hot_of = g_new0 (guint16, rig->hparams.n_ff);
  g_autofree float *exact = run_model (watcher, LLK_F32);
  guint n = N_TOKENS * rig->hparams.n_vocab;

  for (guint i = 0; i < rig->hparams.n_ff; i++)
    hot_of[i] = i % 13 == 5 ? (guint16) (1 + i / 13) : 0;
  for (guint turn = 0; turn < 3; turn++)
    {
      LlmW8Config config = { .hparams = &rig->hparams, .sites = sites, .min_rows = 12 };
      g_autoptr(LlmBackend) gated = llm_backend_w8_new (llk_ops_best (), &config);
      g_autoptr(LlmBackend) through = NULL;
      g_autofree float *found = NULL, *expected = NULL;
      LlmW8Counts counts, expected_counts;

      for (guint at = 0; at < n_sites; at++)
        sites[at] = (LlmW8Site) {
          llm_backend_watch_get_quantile (watcher, at / LLM_W8_N_KINDS, at % LLM_W8_N_KINDS, 0.97)
            / 127,
          turn < 2, turn == 0 && at % LLM_W8_N_KINDS == LLM_W8_FFN_OUTPUT ? hot_of : NULL,
        };
      config.methods = methods;
      through = llm_backend_w8_new (llk_ops_best (), &config);
      found = run_model (gated, LLK_F32);
      expected = run_model (through, LLK_F32);
      g_assert_cmpmem (found, n * sizeof *found, expected, n * sizeof *expected);
      counts = llm_backend_w8_get_counts (gated);
      expected_counts = llm_backend_w8_get_counts (through);
      g_assert_cmpmem (&counts, sizeof counts, &expected_counts, sizeof expected_counts);
      g_assert_cmpuint (counts.n_beyond, >, 0);
      g_assert_true ((counts.n_shadow_products > 0) == (turn < 2));
    }
  exec_rig_free (rig);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/w8/shadow", test_shadow);
  g_test_add_func ("/w8/methods", test_methods);
  g_test_add_func ("/w8/added", test_added);
  g_test_add_func ("/w8/refused", test_refused);
  g_test_add_func ("/w8/prompts", test_prompts);
  g_test_add_func ("/w8/watch", test_watch);
  g_test_add_func ("/w8/gated", test_gated);
  g_test_add_data_func ("/w8/model/f32", GUINT_TO_POINTER (LLK_F32), test_model);
  g_test_add_data_func ("/w8/model/q8", GUINT_TO_POINTER (LLK_Q8_0), test_model);
  return g_test_run ();
}
