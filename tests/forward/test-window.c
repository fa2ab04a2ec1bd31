/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A window that slides (L11) against a naive model whose rows are told whom they see: the sinks
 * again, next to what is left, and nothing of what slid away. */

#include <math.h>
#include <string.h>

#include "forward-rig.h"
#include "naive-model.h"
#include "support/llm-test-gguf.h"

#define SLOTS 16
#define N_TOKENS 170

/* When the window slides, in tokens, and by how much. */
static const struct
{
  guint at;
  guint n_slots;
  gboolean in_call;  /* while an answer is generated, and not between two calls */
} slides[] = {
  { 70, 32, TRUE }, { 101, 16, FALSE }, { 133, 64, TRUE },
};

#define N_SLIDES G_N_ELEMENTS (slides)
#define N_ROWS (N_TOKENS + N_SLIDES * SLOTS)

/* A row of the naive model: a token, or a sink that was computed again. */
typedef struct
{
  guint index;       /* of the token in the text */
  guint n_slides;    /* before it */
  gboolean is_again;
} Row;

typedef struct
{
  Row rows[N_ROWS];
  gint32 tokens[N_ROWS];
  guint positions[N_ROWS];
  guint row_of[N_TOKENS];
  guint n_slid[N_SLIDES + 1];
  guint n;
} Text;

static gboolean
sees (guint    row,
      guint    other,
      gpointer data)
{
  const Text *text = data;
  const Row *a = &text->rows[row];
  const Row *b = &text->rows[other];

  if (other > row)
    return FALSE;
  if (a->is_again || b->is_again)
    return b->is_again && b->n_slides == a->n_slides;
  return (a->n_slides == 0 && b->index < SLOTS) || b->index >= SLOTS + text->n_slid[a->n_slides];
}

static void
add_row (Text         *text,
         const gint32 *tokens,
         guint         index,
         guint         n_slides,
         gboolean      is_again)
{
  text->rows[text->n] = (Row) { index, n_slides, is_again };
  text->tokens[text->n] = tokens[index];
  text->positions[text->n] = is_again ? index + text->n_slid[n_slides] : index;
  if (!is_again)
    text->row_of[index] = text->n;
  text->n++;
}

static void
make_text (Text         *text,
           const gint32 *tokens)
{
  guint n = 0;

  *text = (Text) { 0 };
  for (guint i = 0; i < N_TOKENS; i++)
    {
      if (n < N_SLIDES && slides[n].at == i)
        {
          text->n_slid[n + 1] = text->n_slid[n] + slides[n].n_slots;
          n++;
          for (guint j = 0; j < SLOTS; j++)
            add_row (text, tokens, j, n, TRUE);
        }
      add_row (text, tokens, i, n, FALSE);
    }
}

static void
begin_call (LlmKvSeq *seq,
            guint     n_new)
{
  g_autoptr (GError) error = NULL;
  LlmKvPlan plan;
  gboolean has_begun = llm_kv_seq_begin_call (seq, n_new, &plan, &error);

  g_assert_no_error (error);
  g_assert_true (has_begun);
}

/* The sinks, and only they. */
static void
compute_missing (ExecRig      *rig,
                 LlmKvSeq     *seq,
                 const gint32 *tokens)
{
  g_autoptr (GArray) missing = g_array_new (FALSE, FALSE, sizeof (guint));
  LlmRow rows[SLOTS];

  llm_kv_seq_get_missing (seq, missing);
  g_assert_cmpuint (missing->len, ==, SLOTS);
  for (guint i = 0; i < SLOTS; i++)
    {
      g_assert_cmpuint (g_array_index (missing, guint, i), ==, i);
      rows[i] = exec_rig_row (tokens[i], 0, i);
      rows[i].position = i + seq->n_slid;
      rows[i].wants_logits = FALSE;
    }
  exec_rig_step (rig, rows, SLOTS, &seq, 1);
  g_array_set_size (missing, 0);
  llm_kv_seq_get_missing (seq, missing);
  g_assert_cmpuint (missing->len, ==, 0);
}

static void
run_tokens (ExecRig      *rig,
            LlmKvSeq     *seq,
            const gint32 *tokens,
            guint         first,
            guint         end,
            float        *logits)
{
  gsize n_vocab = rig->hparams.n_vocab;
  LlmRow rows[N_TOKENS];
  g_autoptr (GError) error = NULL;
  guint length = seq->length;
  gboolean has_room = llm_kv_seq_append (seq, end - first, &error);

  g_assert_no_error (error);
  g_assert_true (has_room);
  g_assert_cmpuint (length + seq->n_slid, ==, first);
  for (guint i = first; i < end; i++)
    {
      rows[i - first] = exec_rig_row (tokens[i], 0, length + i - first);
      rows[i - first].position = i;
      rows[i - first].wants_logits = TRUE;
    }
  exec_rig_step (rig, rows, end - first, &seq, 1);
  for (guint i = first; i < end; i++)
    memcpy (logits + i * n_vocab, llm_forward_get_logits (rig->forward, i - first),
            n_vocab * sizeof (float));
}

static void
test_slides (void)
{
  const LlmTestModel shape = { .n_layers = 3, .n_heads = 4, .n_kv_heads = 2 };
  const ExecRigConfig config = { .n_threads = 2, .chunk_slots = SLOTS };
  g_autoptr (GBytes) model = llm_test_model_new (&shape);
  g_autoptr (ExecRig) rig = exec_rig_new (model, &config);
  g_autoptr (NaiveModel) naive = naive_model_new (rig->gguf, &rig->hparams);
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  gsize n_vocab = rig->hparams.n_vocab;
  g_autofree float *found = g_new (float, N_TOKENS * n_vocab);
  g_autofree double *expected = g_new (double, N_ROWS * n_vocab);
  g_autofree Text *text = g_new (Text, 1);
  gint32 tokens[N_TOKENS];
  NaiveRun run;
  double tolerance;
  guint first = 0;

  for (guint i = 0; i < N_TOKENS; i++)
    tokens[i] = g_test_rand_int_range (0, (gint) n_vocab);
  make_text (text, tokens);
  run = (NaiveRun) { text->tokens, text->positions, text->n, sees, text, 0, 0 };
  naive_model_run (naive, &run, expected, NULL);
  tolerance = naive_model_get_tolerance (naive, &run, llk_ops_best (), expected);

  begin_call (seq, N_TOKENS);
  for (guint n = 0; n <= N_SLIDES; n++)
    {
      guint end = n < N_SLIDES ? slides[n].at : N_TOKENS;

      run_tokens (rig, seq, tokens, first, end, found);
      first = end;
      if (n == N_SLIDES)
        break;
      if (!slides[n].in_call)
        llm_kv_seq_end_call (seq, tokens, first);
      llm_kv_seq_slide (seq, SLOTS, slides[n].n_slots);
      g_assert_cmpuint (seq->n_slid, ==, text->n_slid[n + 1]);
      if (!slides[n].in_call)
        begin_call (seq, N_TOKENS - first);
      compute_missing (rig, seq, tokens);
    }
  llm_kv_seq_end_call (seq, tokens, N_TOKENS);

  for (guint i = 0; i < N_TOKENS; i++)
    for (gsize j = 0; j < n_vocab; j++)
      {
        double value = (double) found[i * n_vocab + j];
        double reference = expected[text->row_of[i] * n_vocab + j];

        if (!(fabs (value - reference) <= tolerance))
          g_error ("Token %u: logit %" G_GSIZE_FORMAT " is %.7g instead of %.7g", i, j, value,
                   reference);
      }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/exec/window/slides", test_slides);
  return g_test_run ();
}
