/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What llmsvc-bench draft reads, and the big–little decoder that it compares with. */

#include <math.h>

#include <gio/gio.h>

#include "draft/bench-big-little.h"
#include "draft/bench-method.h"
#include "support/llm-test-folder.h"

#define N_VOCAB 8

static BenchMethod
parse (const char *name)
{
  BenchMethod method;
  g_autoptr(GError) error = NULL;

  g_assert_true (bench_method_parse (name, &method, &error));
  g_assert_no_error (error);
  return method;
}

static void
test_methods (void)
{
  BenchMethod fixed = parse ("fixed:4,2,1");

  g_assert_cmpint (parse ("plain").kind, ==, BENCH_PLAIN);
  g_assert_cmpint (parse ("lookup").kind, ==, BENCH_LOOKUP);
  g_assert_cmpuint (parse ("active:50").sparsity, ==, 50);
  g_assert_cmpfloat (parse ("target:90").share, ==, 0.9);
  g_assert_cmpuint (parse ("target:90").sparsity, ==, 0);
  g_assert_cmpint (parse ("lookup").growth.by_cost, ==, TRUE);
  g_assert_cmpint (parse ("tree").kind, ==, BENCH_MODEL);
  g_assert_cmpint (parse ("tree").growth.by_cost, ==, TRUE);
  g_assert_cmpuint (parse ("tree").growth.n_nodes, ==, 0);
  g_assert_false (parse ("tree").growth.goes_ahead);
  g_assert_false (parse ("paper").growth.goes_ahead);
  g_assert_true (parse ("pipeline").growth.goes_ahead);
  g_assert_cmpuint (parse ("tree:31").growth.n_nodes, ==, 31);
  g_assert_cmpfloat (parse ("paper").growth.alpha, ==, 0.01);
  g_assert_cmpfloat (parse ("paper").growth.threshold, ==, 0.3);
  g_assert_cmpuint (parse ("chain:32").growth.widths[0], ==, 1);
  g_assert_cmpuint (parse ("chain:32").growth.n_nodes, ==, 32);
  g_assert_cmpuint (fixed.growth.n_depths, ==, 3);
  g_assert_cmpuint (fixed.growth.n_widths, ==, 3);
  g_assert_cmpuint (fixed.growth.widths[0], ==, 4);
  g_assert_cmpuint (fixed.growth.widths[2], ==, 1);
  g_assert_cmpint (parse ("big-little").kind, ==, BENCH_BIG_LITTLE);
  g_assert_cmpuint (parse ("big-little").growth.widths[0], ==, 1);
  g_assert_cmpfloat (parse ("big-little:0.4,3").fallback, ==, 0.4);
  g_assert_cmpfloat (parse ("big-little:0.4,3").rollback, ==, 3);
}

static void
test_no_methods (void)
{
  static const char *const names[] = {
    "", "luck", "plain:1", "chain", "chain:", "chain:0", "chain:64", "chain:1.5", "chain:x",
    "active", "active:0", "active:90", "target:100", "chain:-1", "chain:1,2", "chain:nan", "tree:", "tree:99", "fixed", "fixed:",
    "fixed:9", "fixed:2,0",
    "fixed:1,1,1,1,1,1,1,1,1", "big-little:2,1", "big-little:0.5", "paper:1", ":1",
  };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      BenchMethod method;
      g_autoptr(GError) error = NULL;

      g_assert_false (bench_method_parse (names[i], &method, &error));
      g_assert_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE);
    }
}

static void
test_tasks (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, "tasks.jsonl", NULL);
  static const char text[] = "{\"id\": \"a\", \"prompt\": \"A\\n\", \"answer\": \"x\"}\n"
                             "{\"id\": \"b\", \"prompt\": \"B\"}\n"
                             "{\"id\": \"c\", \"prompt\": \"C\"}\n";
  static const char *const wrong[] = {
    "[1]\n", "{\"id\": \"a\"}\n", "{\"id\": 3, \"prompt\": 4}\n", "x",
  };
  g_autoptr(GPtrArray) all = NULL, middle = NULL;
  g_autoptr(GError) error = NULL;

  g_file_set_contents (path, text, -1, &error);
  g_assert_no_error (error);
  all = bench_tasks_read (path, 0, 99, &error);
  middle = bench_tasks_read (path, 1, 1, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (all->len, ==, 3);
  g_assert_cmpstr (((BenchTask *) all->pdata[0])->prompt, ==, "A\n");
  g_assert_cmpuint (middle->len, ==, 1);
  g_assert_cmpstr (((BenchTask *) middle->pdata[0])->id, ==, "b");
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_autoptr(GError) complaint = NULL;

      g_file_set_contents (path, wrong[i], -1, &error);
      g_assert_no_error (error);
      g_assert_null (bench_tasks_read (path, 0, 9, &complaint));
      g_assert_error (complaint, G_IO_ERROR, G_IO_ERROR_INVALID_DATA);
    }
  llm_test_folder_remove (folder);
}

/* --- big–little --- */

/* Writes 1, 2, 3, … with these confidences. */
static const float confidences[] = { 0.9f, 0.7f, 0.8f, 0.3f, 0.9f };
static guint n_expanded;

static void
source_begin (LlmDraftSource *source,
              const gint32   *prompt,
              guint           n_prompt)
{
}

static void
source_accept (LlmDraftSource *source,
               gint32          token)
{
}

static LlmStatus
source_expand (LlmDraftSource       *source,
               const LlmDraftGrowth *growth,
               guint                 node,
               LlmDraftCandidate    *candidates,
               guint                *n)
{
  guint depth = growth->nodes[node].depth;

  n_expanded++;
  *n = 2;
  candidates[0] = (LlmDraftCandidate) { (gint32) depth + 1, confidences[depth] };
  candidates[1] = (LlmDraftCandidate) { 0, 0.01f };
  return LLM_READY;
}

static void
source_free (LlmDraftSource *source)
{
  g_free (source);
}

/* The probability of @token is so much, that of @best all else. */
static void
fill_logits (float  *logits,
             gint32  token,
             double  probability,
             gint32  best)
{
  for (guint i = 0; i < N_VOCAB; i++)
    logits[i] = -100;
  logits[best] = (float) log (1 - probability);
  logits[token] = (float) log (probability);
}

/* The small model writes 1, 2 and 3, and is not sure of 4. The large one prefers 7 each time, but
 * lets pass what has a probability of e⁻² or more: 1 and 2, not 3. */
static void
test_big_little (void)
{
  static const LlmDraftSourceClass class = {
    .begin = source_begin, .accept = source_accept, .expand = source_expand, .free = source_free,
  };
  const LlmGrowthConfig growth = parse ("big-little").growth;
  LlmDraftSource *source = g_new0 (LlmDraftSource, 1);
  const gint32 prompt[] = { 5, 6 };
  LlmDraftCosts costs = { .read_us = 1 };
  LlmDraftTree tree = { .n_max = LLM_DRAFT_MAX_NODES, .max_depth = LLM_DRAFT_MAX_NODES };
  g_autoptr(LlmDecoder) decoder = NULL;
  float logits[N_VOCAB];

  source->class = &class;
  decoder = bench_big_little_new (source, &growth, 0.6, 2, N_VOCAB);
  decoder->class->begin (decoder, prompt, 2);
  fill_logits (logits, 1, 0.3, 6);
  g_assert_cmpint (decoder->class->consume (decoder, logits, NULL), ==, 6);
  n_expanded = 0;
  decoder->class->draft (decoder, &costs);
  g_assert_cmpuint (n_expanded, ==, 4);
  g_assert_cmpuint (decoder->n_rows, ==, 4);
  decoder->class->propose (decoder, &tree);
  g_assert_cmpuint (tree.n, ==, 4);
  g_assert_cmpint (tree.tokens[0], ==, 6);
  g_assert_cmpint (tree.tokens[3], ==, 3);
  fill_logits (logits, 1, 0.2, 7);
  g_assert_cmpint (decoder->class->consume (decoder, logits, NULL), ==, 1);
  fill_logits (logits, 2, 0.14, 7);
  g_assert_cmpint (decoder->class->consume (decoder, logits, NULL), ==, 2);
  fill_logits (logits, 3, 0.13, 7);
  g_assert_cmpint (decoder->class->consume (decoder, logits, NULL), ==, 7);
  decoder->class->propose (decoder, &tree);
  g_assert_cmpint (tree.tokens[0], ==, 7);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/draft-method/methods", test_methods);
  g_test_add_func ("/draft-method/no-methods", test_no_methods);
  g_test_add_func ("/draft-method/tasks", test_tasks);
  g_test_add_func ("/draft-method/big-little", test_big_little);
  return g_test_run ();
}
