/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Several models at once, and decoders that propose several rows: texts are those of each alone. */

#include "executor-rig.h"
#include "kv/llm-kv-private.h"

static const char *const prompts[] = {
  "Find me a comedy movie.",
  "I want a restaurant in San Jose.",
};

/* --- two models --- */

static guint
count_turns (const char *order)
{
  guint n = 0;

  for (; order[0] != '\0' && order[1] != '\0'; order++)
    n += order[0] != order[1];
  return n;
}

typedef struct
{
  LlmCommand base;
  GMutex *gate;             /* (unowned) */
} Gate;

static void
hold (LlmCommand *base)
{
  g_mutex_lock (((Gate *) base)->gate);
  g_mutex_unlock (((Gate *) base)->gate);
}

/* Submits one to each instance, and the executor sees both before it runs either. */
static void
submit_both (Rig     *rig,
             Outcome *outcomes)
{
  Gate *command = llm_command_new_of (Gate, rig->executor, hold, NULL);
  GMutex gate;

  g_mutex_init (&gate);
  g_mutex_lock (&gate);
  command->gate = &gate;
  llm_command_send (&command->base);
  for (guint i = 0; i < 2; i++)
    rig_submit (rig, i, rig_new_plain (rig, i, 0.8, 7 + i), prompts[i], 60, i + 1, &outcomes[i]);
  g_mutex_unlock (&gate);
  for (guint i = 0; i < 2; i++)
    rig_wait_for (rig, &outcomes[i].is_done);
  g_mutex_clear (&gate);
}

static void
test_two_models (void)
{
  Rig rig;
  Outcome alone[2], together[2];
  guint64 weights[2], both;

  rig_init (&rig, 0);
  for (guint i = 0; i < 2; i++)
    {
      rig_load (&rig, i);
      weights[i] = llm_ledger_get (rig.ledger, LLM_HOLDER_WEIGHTS);
      rig_submit (&rig, i, rig_new_plain (&rig, i, 0.8, 7 + i), prompts[i], 60, 0, &alone[i]);
      rig_wait_for (&rig, &alone[i].is_done);
      rig_unload (&rig, i);
      g_assert_cmpuint (llm_ledger_get_total (rig.ledger), ==, 0);
    }
  g_assert_cmpstr (alone[0].text, !=, alone[1].text);

  rig_load (&rig, 0);
  rig_load (&rig, 1);
  both = llm_ledger_get (rig.ledger, LLM_HOLDER_WEIGHTS);
  g_assert_cmpuint (both, ==, weights[0] + weights[1]);
  g_string_truncate (rig.order, 0);
  /* instances take turns by the time that they had: here by what they computed */
  llm_clock_set_for_test (g_get_monotonic_time ());
  llm_clock_set_step_for_test (1);
  submit_both (&rig, together);
  llm_clock_set_for_test (-1);
  llm_clock_set_step_for_test (0);
  for (guint i = 0; i < 2; i++)
    {
      g_assert_cmpstr (together[i].text, ==, alone[i].text);
      g_assert_cmpuint (together[i].tokens->len, ==, 60);
    }
  /* steps of both went on side by side */
  g_assert_cmpuint (count_turns (rig.order->str), >, 100);
  g_assert_cmpuint (llm_ledger_get (rig.ledger, LLM_HOLDER_KV), >, 0);

  /* One goes, the other stays and answers. */
  rig_unload (&rig, 0);
  g_assert_cmpuint (llm_ledger_get (rig.ledger, LLM_HOLDER_WEIGHTS), ==, weights[1]);
  outcome_clear (&together[1]);
  rig_submit (&rig, 1, rig_new_plain (&rig, 1, 0.8, 8), prompts[1], 60, 2, &together[1]);
  rig_wait_for (&rig, &together[1].is_done);
  g_assert_cmpstr (together[1].text, ==, alone[1].text);
  g_assert_cmpuint (together[1].n_reused, >, 0);

  for (guint i = 0; i < 2; i++)
    {
      outcome_clear (&alone[i]);
      outcome_clear (&together[i]);
    }
  rig_clear (&rig);
}

/* --- rows ahead --- */

/* Proposes what a plain decoder said before, with some of it wrong. */
typedef struct
{
  LlmDecoder parent;
  LlmDecoder *plain;       /* (owned) */
  GArray *known;           /* (element-type gint32) (owned) */
  GRand *random;           /* (owned) */
  double wrong;            /* the part of the guesses that is */
  gboolean branches;       /* wrong guesses stand beside the right ones, in front of them */
  guint n_consumed;
} AheadDecoder;

static void
ahead_begin (LlmDecoder   *decoder,
             const gint32 *prompt,
             guint         n_prompt)
{
  AheadDecoder *self = (AheadDecoder *) decoder;

  self->plain->class->begin (self->plain, prompt, n_prompt);
}

static void
ahead_propose (LlmDecoder   *decoder,
               LlmDraftTree *tree)
{
  AheadDecoder *self = (AheadDecoder *) decoder;
  guint parent = 0;

  self->plain->class->propose (self->plain, tree);
  for (guint place = self->n_consumed; parent != LLM_DRAFT_NONE; place++)
    {
      gint32 right = place < self->known->len ? g_array_index (self->known, gint32, place) : 1;
      gint32 wrong = g_rand_int_range (self->random, 10, 1000);
      gboolean is_wrong = g_rand_double (self->random) < self->wrong;
      guint branch = parent;

      if (self->branches && wrong != right)
        branch = llm_draft_tree_add (tree, parent, wrong, 0.5f);
      if (self->branches && place % 3 == 0 && wrong != right)
        llm_draft_tree_add (tree, branch, right, 0.5f);
      parent = llm_draft_tree_add (tree, parent, is_wrong && !self->branches ? wrong : right, 0.5f);
    }
}

static gint32
ahead_consume (LlmDecoder  *decoder,
               const float *logits,
               GError     **error)
{
  AheadDecoder *self = (AheadDecoder *) decoder;

  self->n_consumed++;
  return self->plain->class->consume (self->plain, logits, error);
}

static void
ahead_free (LlmDecoder *decoder)
{
  AheadDecoder *self = (AheadDecoder *) decoder;

  llm_decoder_free (self->plain);
  g_array_unref (self->known);
  g_rand_free (self->random);
  g_free (self);
}

/* @plain: (transfer full) */
static LlmDecoder *
new_ahead (LlmDecoder *plain,
           GArray     *known,
           guint       n_rows,
           double      wrong,
           gboolean    branches)
{
  static const LlmDecoderClass class = {
    .begin = ahead_begin,
    .propose = ahead_propose,
    .consume = ahead_consume,
    .free = ahead_free,
  };
  AheadDecoder *self = g_new0 (AheadDecoder, 1);

  self->parent = (LlmDecoder) { &class, n_rows };
  self->plain = plain;
  self->known = g_array_ref (known);
  self->random = g_rand_new_with_seed (n_rows);
  self->wrong = wrong;
  self->branches = branches;
  return &self->parent;
}

/* The text is that of one row a step, however many guesses were right, alone and beside others; and
 * the session has what it would have. */
static void
test_rows_ahead (void)
{
  const struct { double wrong; gboolean branches; } cases[] = {
    { 0, FALSE }, { 0.3, FALSE }, { 1, FALSE }, { 0, TRUE },
  };
  const guint rows[] = { 1, 3, 7, 40, LLM_DRAFT_MAX_NODES };
  Rig rig;
  Outcome plain, more, other, ahead;
  LlmExecutorFigures before, after;
  guint64 session = 10;

  rig_init (&rig, 0);
  rig_load (&rig, 0);
  rig_submit (&rig, 0, rig_new_plain (&rig, 0, 0.8, 3), prompts[0], 80, 1, &plain);
  rig_wait_for (&rig, &plain.is_done);
  rig_submit (&rig, 0, rig_new_plain (&rig, 0, 0, 0), prompts[1], 40, 1, &more);
  rig_wait_for (&rig, &more.is_done);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    for (guint j = 0; j < G_N_ELEMENTS (rows); j++)
      {
        guint n_rows = rows[j];
        double wrong = cases[i].wrong;

        session++;
        llm_executor_get_figures (rig.executor, &before);
        if (n_rows == 3)
          rig_submit (&rig, 0, rig_new_plain (&rig, 0, 0.8, 5), prompts[1], 60, 0, &other);
        rig_submit (&rig, 0, new_ahead (rig_new_plain (&rig, 0, 0.8, 3), plain.tokens, n_rows,
                                        wrong, cases[i].branches),
                    prompts[0], 80, session, &ahead);
        rig_wait_for (&rig, &ahead.is_done);
        if (n_rows == 3)
          {
            rig_wait_for (&rig, &other.is_done);
            outcome_clear (&other);
          }
        llm_executor_get_figures (rig.executor, &after);
        g_test_message ("%u rows, %.0f %% wrong: %u of %u guesses kept, %ju steps", n_rows,
                        wrong * 100, ahead.n_accepted, ahead.n_drafted,
                        after.n_steps - before.n_steps);
        g_assert_cmpstr (ahead.text, ==, plain.text);
        g_assert_cmpint (ahead.finish, ==, LLM_FINISH_LENGTH);
        g_assert_cmpuint (ahead.tokens->len, ==, 80);
        /* tokens that stayed, of whatever was proposed */
        g_assert_cmpuint (after.n_generated - before.n_generated, ==, n_rows == 3 ? 140 : 80);
        /* each step brings a token of its own, the prompt's the first */
        g_assert_cmpuint (1 + ahead.n_passes + ahead.n_accepted, ==, 80);
        if (wrong == 0 && !cases[i].branches)
          {
            g_assert_cmpuint (ahead.n_accepted, ==, 79 - (79 + n_rows - 1) / n_rows);
            g_assert_cmpuint (ahead.n_drafted, ==, ahead.n_accepted);
          }
        if (n_rows > 1 && ((wrong > 0 && wrong < 1) || cases[i].branches))
          g_assert_cmpuint (ahead.n_accepted, >, 10);
        if (n_rows != 3)
          g_assert_cmpuint (after.n_steps - before.n_steps, ==, 1 + ahead.n_passes);
        outcome_clear (&ahead);

        /* What the session holds is what plain decoding left. */
        rig_submit (&rig, 0, rig_new_plain (&rig, 0, 0, 0), prompts[1], 40, session, &ahead);
        rig_wait_for (&rig, &ahead.is_done);
        g_assert_cmpstr (ahead.text, ==, more.text);
        outcome_clear (&ahead);
      }
  outcome_clear (&plain);
  outcome_clear (&more);
  rig_clear (&rig);
}

/* A context's densities behind an answer, by a decoder that proposes rows; or where nothing is
 * @known by a plain one, whose tokens are then. */
static GArray *
find_densities (GArray  *known,
                guint    n_rows,
                double   wrong,
                gboolean branches)
{
  const guint64 id = 5;
  GArray *densities = g_array_new (FALSE, FALSE, sizeof (float));
  LlmDecoder *decoder;
  LlmRunner *runner;
  LlmSession *session;
  Outcome outcome;
  Rig rig;

  rig_init (&rig, 0.5);
  rig_load (&rig, 0);
  decoder = rig_new_plain (&rig, 0, 0.8, 3);
  if (known->len > 0)
    decoder = new_ahead (decoder, known, n_rows, wrong, branches);
  rig_submit (&rig, 0, decoder, prompts[0], 80, id, &outcome);
  rig_wait_for (&rig, &outcome.is_done);
  if (known->len == 0)
    g_array_append_vals (known, outcome.tokens->data, outcome.tokens->len);

  /* The call has ended, and nothing else changes them. */
  runner = g_ptr_array_index (rig.executor->runners, 0);
  session = g_hash_table_lookup (runner->sessions, &id);
  for (guint chunk = 0; chunk < session->seq->holds->len; chunk++)
    {
      float density = llm_kv_seq_get_density (session->seq, chunk);

      g_array_append_val (densities, density);
    }
  outcome_clear (&outcome);
  rig_clear (&rig);
  return densities;
}

/* Guesses that were wrong have counted for nothing. */
static void
test_densities (void)
{
  const struct { double wrong; guint n_rows; gboolean branches; } cases[] = {
    { 0, 7, FALSE }, { 0.3, 7, FALSE }, { 1, 7, FALSE }, { 0, 40, TRUE },
  };
  g_autoptr(GArray) known = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr(GArray) expected = find_densities (known, 0, 0, FALSE);

  g_assert_cmpuint (expected->len, >, 5);
  g_assert_cmpfloat (g_array_index (expected, float, 0), >, 0);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(GArray) found = find_densities (known, cases[i].n_rows, cases[i].wrong,
                                                cases[i].branches);

      g_assert_cmpmem (found->data, found->len * sizeof (float), expected->data,
                       expected->len * sizeof (float));
    }
}

/* How many rows have counted for each chunk, behind a prompt, its eviction if there is @evicts, and
 * the same prompt again. */
static GArray *
count_rows (gboolean evicts)
{
  const guint64 id = 5;
  static const char prompt[] =
    "I want a restaurant in San Jose for four people next Monday at seven, with Italian food, "
    "not too expensive, near the river, and please tell me whether there is room for a dog.";
  GArray *counts = g_array_new (FALSE, FALSE, sizeof (float));
  LlmSession *session;
  LlmRunner *runner;
  Rig rig;

  rig_init (&rig, 0.5);
  rig_load (&rig, 0);
  for (guint call = 0; call < 2; call++)
    {
      Outcome outcome;

      rig_submit (&rig, 0, rig_new_plain (&rig, 0, 0, 3), prompt, 8, id, &outcome);
      rig_wait_for (&rig, &outcome.is_done);
      outcome_clear (&outcome);
      runner = g_ptr_array_index (rig.executor->runners, 0);
      if (call == 1)
        g_assert_cmpuint (runner->instance->store->counters.n_recomputed > 0, ==, evicts);
      if (evicts && call == 0)
        rig_evict (&rig);
    }
  session = g_hash_table_lookup (runner->sessions, &id);
  for (guint chunk = 0; chunk < session->seq->holds->len; chunk++)
    {
      float n = llm_kv_seq_count_density_rows (session->seq, chunk);

      g_array_append_val (counts, n);
    }
  rig_clear (&rig);
  return counts;
}

/* Rows that are computed again, as their chunks were evicted, don't count again. */
static void
test_recomputed (void)
{
  g_autoptr(GArray) expected = count_rows (FALSE);
  g_autoptr(GArray) found = count_rows (TRUE);

  g_assert_cmpuint (expected->len, >, 3);
  g_assert_cmpfloat (g_array_index (expected, float, 0), >, 0);
  g_assert_cmpmem (found->data, found->len * sizeof (float), expected->data,
                   expected->len * sizeof (float));
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/executor/two-models", test_two_models);
  g_test_add_func ("/executor/rows-ahead", test_rows_ahead);
  g_test_add_func ("/executor/densities", test_densities);
  g_test_add_func ("/executor/recomputed", test_recomputed);
  return g_test_run ();
}
