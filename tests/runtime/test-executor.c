/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Several models at once, and decoders that propose several rows: texts are those of each alone. */

#include "runtime/llm-executor-private.h"

#include <string.h>

#include "weights/llm-repacked-cache.h"

#define N_CTX 512
#define MAX_AHEAD 7

static const char *const prompts[] = {
  "Find me a comedy movie.",
  "I want a restaurant in San Jose.",
};

typedef struct
{
  LlmMailbox *box;
  LlmLedger *ledger;
  LlmExecutor *executor;
  LlmModel *models[2];
  GString *order;          /* of texts: a letter for each request that had one */
} Rig;

typedef struct
{
  Rig *rig;
  char letter;
  GArray *tokens;          /* (owned) */
  char *text;              /* (owned) */
  guint n_reused;
  LlmFinish finish;
  gboolean is_done;
} Outcome;

static void
outcome_clear (Outcome *outcome)
{
  g_clear_pointer (&outcome->tokens, g_array_unref);
  g_clear_pointer (&outcome->text, g_free);
}

static void
on_given (guint64  freed,
          gpointer data)
{
  *(gboolean *) data = TRUE;
}

static void
wait_for (Rig      *rig,
          gboolean *flag)
{
  while (!*flag)
    llm_mailbox_dispatch (rig->box, -1);
}

static void
load (Rig  *rig,
      guint instance)
{
  LlmModel *model = rig->models[instance];
  g_autoptr(GError) error = NULL;
  gboolean is_loaded = FALSE;
  LlmWeights *weights = llm_weights_new_repacked (llm_model_get_gguf (model),
                                                  llm_model_get_hparams (model), NULL, NULL, 2,
                                                  rig->ledger, &error);

  g_assert_no_error (error);
  llm_executor_set_model (rig->executor, instance, model, weights, on_given, &is_loaded);
  wait_for (rig, &is_loaded);
}

static void
unload (Rig  *rig,
        guint instance)
{
  gboolean is_gone = FALSE;

  llm_executor_set_model (rig->executor, instance, NULL, NULL, on_given, &is_gone);
  wait_for (rig, &is_gone);
}

static void
rig_init (Rig    *rig,
          double  kv_ratio)
{
  const LlmExecutorConfig config = {
    .kernels = llk_ops_best (), .n_threads = 2, .chunk_slots = 16, .kv_ratio = kv_ratio,
  };
  char *paths[] = {
    g_build_filename (g_getenv ("LLM_MODEL_DIR"), "llmsvc-demo-8M-Q8_0.gguf", NULL),
    g_build_filename (g_getenv ("LLM_TEST_DATA"), "models", "llmsvc-demo-7M-Q4_0.gguf", NULL),
  };
  g_autoptr(GError) error = NULL;

  *rig = (Rig) { .box = llm_mailbox_new (), .ledger = llm_ledger_new (),
                 .order = g_string_new (NULL) };
  rig->executor = llm_executor_new (rig->box, rig->ledger, &config);
  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    {
      rig->models[i] = llm_model_open (paths[i], &error);
      g_assert_no_error (error);
      g_free (paths[i]);
    }
}

static void
rig_clear (Rig *rig)
{
  llm_executor_free (rig->executor);
  llm_mailbox_free (rig->box);
  g_assert_cmpuint (llm_ledger_get_total (rig->ledger), ==, 0);
  llm_ledger_unref (rig->ledger);
  for (guint i = 0; i < G_N_ELEMENTS (rig->models); i++)
    llm_model_unref (rig->models[i]);
  g_string_free (rig->order, TRUE);
}

static void
on_text (LlmRequest *request,
         const char *text,
         gsize       length,
         gpointer    data)
{
  Outcome *outcome = data;

  g_string_append_c (outcome->rig->order, outcome->letter);
}

static void
on_done (LlmRequest             *request,
         const LlmRequestResult *result,
         gpointer                data)
{
  Outcome *outcome = data;

  g_assert_no_error (result->error);
  outcome->tokens = g_array_copy (result->tokens);
  outcome->text = g_strdup (result->text->str);
  outcome->n_reused = result->n_reused;
  outcome->finish = result->finish;
  outcome->is_done = TRUE;
}

/* No answer ends by itself. */
static LlmDecoder *
new_plain (Rig    *rig,
           guint   instance,
           double  temperature,
           guint64 seed)
{
  LlmTokenizer *tokenizer = llm_model_get_tokenizer (rig->models[instance]);
  guint n_vocab = llm_model_get_hparams (rig->models[instance])->n_vocab;
  g_autoptr(GArray) biases = g_array_new (FALSE, FALSE, sizeof (LlmLogitBias));
  LlmSamplerConfig sampler = {
    .temperature = (float) temperature,
    .top_k = 40,
    .top_p = 0.95f,
    .repeat_penalty = 1.1f,
    .seed = seed,
  };

  for (guint token = 0; token < n_vocab; token++)
    if (llm_tokenizer_ends_answer (tokenizer, (gint32) token))
      {
        LlmLogitBias bias = { (gint32) token, -1000 };

        g_array_append_val (biases, bias);
      }
  sampler.bias = (const LlmLogitBias *) biases->data;
  sampler.n_bias = biases->len;
  return llm_decoder_new_plain (&sampler, n_vocab);
}

/* @decoder: (transfer full) */
static void
submit (Rig        *rig,
        guint       instance,
        LlmDecoder *decoder,
        const char *prompt,
        guint       n_tokens,
        guint64     session,
        Outcome    *outcome)
{
  g_autoptr(LlmApp) app = llm_app_intern (1000, "org.example.App");
  g_autoptr(LlmRequest) request = llm_request_new (app);
  LlmTextPart part = { prompt, strlen (prompt), FALSE };

  llm_tokenizer_encode (llm_model_get_tokenizer (rig->models[instance]), &part, 1, TRUE,
                        request->prompt);
  *outcome = (Outcome) { .rig = rig, .letter = (char) ('a' + (char) instance) };
  request->instance = instance;
  request->session_id = session;
  request->decoder = decoder;
  request->max_tokens = n_tokens;
  request->n_ctx = N_CTX;
  request->on_text = on_text;
  request->on_done = on_done;
  request->data = outcome;
  llm_executor_submit (rig->executor, request);
}

/* --- two models --- */

static guint
count_turns (const char *order)
{
  guint n = 0;

  for (; order[0] != '\0' && order[1] != '\0'; order++)
    n += order[0] != order[1];
  return n;
}

static void
hold (LlmCommand *command)
{
  g_mutex_lock (command->data);
  g_mutex_unlock (command->data);
}

/* Submits one to each instance, and the executor sees both before it runs either. */
static void
submit_both (Rig     *rig,
             Outcome *outcomes)
{
  GMutex gate;

  g_mutex_init (&gate);
  g_mutex_lock (&gate);
  llm_command_send (llm_command_new (rig->executor, hold, NULL, &gate));
  for (guint i = 0; i < 2; i++)
    submit (rig, i, new_plain (rig, i, 0.8, 7 + i), prompts[i], 60, i + 1, &outcomes[i]);
  g_mutex_unlock (&gate);
  for (guint i = 0; i < 2; i++)
    wait_for (rig, &outcomes[i].is_done);
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
      load (&rig, i);
      weights[i] = llm_ledger_get (rig.ledger, LLM_HOLDER_WEIGHTS);
      submit (&rig, i, new_plain (&rig, i, 0.8, 7 + i), prompts[i], 60, 0, &alone[i]);
      wait_for (&rig, &alone[i].is_done);
      unload (&rig, i);
      g_assert_cmpuint (llm_ledger_get_total (rig.ledger), ==, 0);
    }
  g_assert_cmpstr (alone[0].text, !=, alone[1].text);

  load (&rig, 0);
  load (&rig, 1);
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
  unload (&rig, 0);
  g_assert_cmpuint (llm_ledger_get (rig.ledger, LLM_HOLDER_WEIGHTS), ==, weights[1]);
  outcome_clear (&together[1]);
  submit (&rig, 1, new_plain (&rig, 1, 0.8, 8), prompts[1], 60, 2, &together[1]);
  wait_for (&rig, &together[1].is_done);
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
  guint n_consumed;
  gint32 last;
  guint n_proposed;
  guint *n_kept;           /* guesses that were right, of all steps */
} AheadDecoder;

static void
ahead_begin (LlmDecoder   *decoder,
             const gint32 *prompt,
             guint         n_prompt)
{
  AheadDecoder *self = (AheadDecoder *) decoder;

  self->plain->class->begin (self->plain, prompt, n_prompt);
}

static guint
ahead_propose (LlmDecoder *decoder,
               gint32     *tokens,
               guint       n_max)
{
  AheadDecoder *self = (AheadDecoder *) decoder;

  tokens[0] = self->last;
  for (guint i = 1; i < n_max; i++)
    {
      guint place = self->n_consumed + i - 1;

      tokens[i] = place < self->known->len && g_rand_double (self->random) >= self->wrong
                    ? g_array_index (self->known, gint32, place)
                    : g_rand_int_range (self->random, 10, 1000);
    }
  self->n_proposed = n_max;
  return n_max;
}

static gint32
ahead_consume (LlmDecoder  *decoder,
               const float *logits,
               GError     **error)
{
  AheadDecoder *self = (AheadDecoder *) decoder;

  self->n_consumed++;
  self->last = self->plain->class->consume (self->plain, logits, error);
  return self->last;
}

static void
ahead_commit (LlmDecoder *decoder,
              guint       n)
{
  AheadDecoder *self = (AheadDecoder *) decoder;

  g_assert_cmpuint (n, >=, 1);
  g_assert_cmpuint (n, <=, self->n_proposed);
  *self->n_kept += n - 1;
  self->n_proposed = 0;
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
           guint      *n_kept)
{
  static const LlmDecoderClass class = {
    .begin = ahead_begin,
    .propose = ahead_propose,
    .consume = ahead_consume,
    .commit = ahead_commit,
    .free = ahead_free,
  };
  AheadDecoder *self = g_new0 (AheadDecoder, 1);

  self->parent = (LlmDecoder) { &class, n_rows };
  self->plain = plain;
  self->known = g_array_ref (known);
  self->random = g_rand_new_with_seed (n_rows);
  self->wrong = wrong;
  self->n_kept = n_kept;
  return &self->parent;
}

/* The text is that of one row a step, however many guesses were right, alone and beside others; and
 * the session has what it would have. */
static void
test_rows_ahead (void)
{
  const double wrong[] = { 0, 0.3, 1 };
  Rig rig;
  Outcome plain, more, other, ahead;
  LlmExecutorFigures before, after;
  guint64 session = 10;

  rig_init (&rig, 0);
  load (&rig, 0);
  submit (&rig, 0, new_plain (&rig, 0, 0.8, 3), prompts[0], 80, 1, &plain);
  wait_for (&rig, &plain.is_done);
  submit (&rig, 0, new_plain (&rig, 0, 0, 0), prompts[1], 40, 1, &more);
  wait_for (&rig, &more.is_done);

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    for (guint n_rows = 1; n_rows <= MAX_AHEAD; n_rows += 2)
      {
        guint n_kept = 0;

        session++;
        llm_executor_get_figures (rig.executor, &before);
        if (n_rows == 3)
          submit (&rig, 0, new_plain (&rig, 0, 0.8, 5), prompts[1], 60, 0, &other);
        submit (&rig, 0, new_ahead (new_plain (&rig, 0, 0.8, 3), plain.tokens, n_rows, wrong[i],
                                    &n_kept), prompts[0], 80, session, &ahead);
        wait_for (&rig, &ahead.is_done);
        if (n_rows == 3)
          {
            wait_for (&rig, &other.is_done);
            outcome_clear (&other);
          }
        llm_executor_get_figures (rig.executor, &after);
        g_test_message ("%u rows, %.0f %% wrong: %u guesses kept, %ju steps", n_rows,
                        wrong[i] * 100, n_kept, after.n_steps - before.n_steps);
        g_assert_cmpstr (ahead.text, ==, plain.text);
        g_assert_cmpint (ahead.finish, ==, LLM_FINISH_LENGTH);
        g_assert_cmpuint (ahead.tokens->len, ==, 80);
        /* tokens that stayed, of whatever was proposed */
        g_assert_cmpuint (after.n_generated - before.n_generated, ==, n_rows == 3 ? 140 : 80);
        if (n_rows > 1 && wrong[i] == 0)
          g_assert_cmpuint (n_kept, ==, 79 - (79 + n_rows - 1) / n_rows);
        if (n_rows > 1 && wrong[i] > 0 && wrong[i] < 1)
          g_assert_cmpuint (n_kept, >, 10);
        if (n_rows > 1 && n_rows != 3)
          g_assert_cmpuint (after.n_steps - before.n_steps, ==, 80 - n_kept);
        outcome_clear (&ahead);

        /* What the session holds is what plain decoding left. */
        submit (&rig, 0, new_plain (&rig, 0, 0, 0), prompts[1], 40, session, &ahead);
        wait_for (&rig, &ahead.is_done);
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
find_densities (GArray *known,
                guint   n_rows,
                double  wrong)
{
  const guint64 id = 5;
  GArray *densities = g_array_new (FALSE, FALSE, sizeof (float));
  guint n_kept = 0;
  LlmDecoder *decoder;
  LlmRunner *runner;
  LlmSession *session;
  Outcome outcome;
  Rig rig;

  rig_init (&rig, 0.5);
  load (&rig, 0);
  decoder = new_plain (&rig, 0, 0.8, 3);
  if (known->len > 0)
    decoder = new_ahead (decoder, known, n_rows, wrong, &n_kept);
  submit (&rig, 0, decoder, prompts[0], 80, id, &outcome);
  wait_for (&rig, &outcome.is_done);
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
  const double wrong[] = { 0, 0.3, 1 };
  g_autoptr(GArray) known = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr(GArray) expected = find_densities (known, 0, 0);

  g_assert_cmpuint (expected->len, >, 5);
  g_assert_cmpfloat (g_array_index (expected, float, 0), >, 0);
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_autoptr(GArray) found = find_densities (known, MAX_AHEAD, wrong[i]);

      g_assert_cmpmem (found->data, found->len * sizeof (float), expected->data,
                       expected->len * sizeof (float));
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/executor/two-models", test_two_models);
  g_test_add_func ("/executor/rows-ahead", test_rows_ahead);
  g_test_add_func ("/executor/densities", test_densities);
  return g_test_run ();
}
