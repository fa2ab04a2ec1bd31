/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A window that slides (L11): what the executor makes of it, against a forward pass that the test
 * drives by itself, and what callers see of it. That the pass is right is shown in
 * tests/forward/test-window.c. */

#include "engine-rig.h"

#include <string.h>

#include "common/llmsvc-error.h"
#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"
#include "runtime/llm-window.h"
#include "forward/llm-forward.h"
#include "weights/llm-repacked-cache.h"
#include "support/llm-test-folder.h"

#define SLOTS 16
#define N_CTX 100
/* What goes at a time. */
#define STEP 32
#define SESSION 7
#define CONTEXT "0123456789abcdef0123456789abcdef"

/* --- the rule --- */

static void
test_rule (void)
{
  static const guint limits[] = { 64, 65, 96, 100, 127, 128, 512, 4096 };

  for (guint slots = 16; slots <= 64; slots += 16)
    for (guint i = 0; i < G_N_ELEMENTS (limits); i++)
      {
        guint n_ctx = limits[i];
        guint before = 0;

        if (!llm_window_is_possible (n_ctx, llm_window_get_sinks (0, slots), slots))
          {
            g_assert_cmpuint (n_ctx, <, 4 * slots);
            continue;
          }
        for (guint n = 0; n < 3 * n_ctx; n++)
          {
            guint n_slid = llm_window_get_n_slid (n, n_ctx, slots);

            g_assert_cmpuint (n_slid % slots, ==, 0);
            g_assert_cmpuint (n - n_slid, <=, n_ctx);
            if (n <= n_ctx)
              g_assert_cmpuint (n_slid, ==, 0);
            /* Behind the largest system message there is room, too. */
            else
              g_assert_cmpuint (n - n_slid, >, n_ctx / 2 / slots * slots);
            /* A quarter at a time, or nothing. */
            g_assert_true (n_slid == before || n_slid - before >= n_ctx / 4);
            before = n_slid;
          }
      }
  g_assert_cmpuint (llm_window_get_sinks (0, 16), ==, 16);
  g_assert_cmpuint (llm_window_get_sinks (16, 16), ==, 16);
  g_assert_cmpuint (llm_window_get_sinks (17, 16), ==, 32);
  g_assert_cmpuint (llm_window_get_sinks (200, 48), ==, 240);
  g_assert_false (llm_window_is_possible (63, 16, 16));
  g_assert_true (llm_window_is_possible (100, 48, 16));
  g_assert_false (llm_window_is_possible (100, 64, 16));
  g_assert_cmpuint (llm_window_get_n_slid (N_CTX + 1, N_CTX, SLOTS), ==, STEP);
}

/* --- a reference --- */

typedef struct
{
  LlmModel *model;
  const LlmHparams *hparams;
  LlmWeights *weights;
  LlmWorkerPool *pool;
  LlmForward *forward;
  LlmKvStore *store;
  LlmKvSeq *seq;
  GArray *bias;          /* (element-type LlmLogitBias): no answer ends by itself */
  guint n_sinks;
} Reference;

static void
reference_init (Reference *self)
{
  g_autofree char *path = g_build_filename (g_getenv ("LLM_MODEL_DIR"),
                                            "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_autoptr(GError) error = NULL;
  LlmKvLayout layout = { .kind = LLM_KV_FULL, .format = LLK_KV_F16, .chunk_slots = SLOTS };
  const LlmPlanConfig config = { .kernels = llk_ops_best () };
  g_autoptr(LlmPlan) plan = NULL;

  self->model = llm_model_open (path, &error);
  g_assert_no_error (error);
  self->hparams = llm_model_get_hparams (self->model);
  self->weights = llm_weights_new_repacked (llm_model_get_gguf (self->model), self->hparams, NULL,
                                            NULL, 2, NULL, &error);
  g_assert_no_error (error);
  layout.n_layers = self->hparams->n_layers;
  layout.n_kv_heads = self->hparams->n_kv_heads;
  layout.head_dim = self->hparams->head_dim;
  self->store = llm_kv_store_new (&layout, NULL, NULL, &error);
  g_assert_no_error (error);
  self->pool = llm_worker_pool_new (1);
  plan = llm_plan_new (self->hparams, self->weights, &config);
  self->forward = llm_forward_new (plan, self->pool, NULL);
  self->seq = llm_kv_seq_new (self->store, NULL, NULL);
  self->bias = g_array_new (FALSE, FALSE, sizeof (LlmLogitBias));
  for (guint i = 0; i < self->hparams->n_vocab; i++)
    if (llm_tokenizer_ends_answer (llm_model_get_tokenizer (self->model), (gint32) i))
      {
        LlmLogitBias bias = { (gint32) i, -1000 };

        g_array_append_val (self->bias, bias);
      }
}

/* It remembers nothing. */
static void
reset_reference (Reference *self)
{
  if (self->seq->is_locked)
    llm_kv_seq_preempt (self->seq);
  llm_kv_seq_truncate (self->seq, 0);
}

static void
reference_clear (Reference *self)
{
  reset_reference (self);
  g_array_unref (self->bias);
  llm_forward_free (self->forward);
  llm_kv_seq_free (self->seq);
  llm_kv_store_free (self->store);
  llm_worker_pool_free (self->pool);
  llm_weights_free (self->weights);
  llm_model_unref (self->model);
}

static LlmRow
make_row (guint  n_slid,
          gint32 token,
          guint  slot)
{
  return (LlmRow) {
    .token = token,
    .position = slot + n_slid,
    .slot = slot,
    .sub_model = 100,
    .wants_logits = TRUE,
  };
}

static void
run_row (Reference *self,
         LlmRow     row)
{
  LlmBatch batch = { &row, 1, &self->seq, 1 };
  g_autoptr(GError) error = NULL;
  LlmStatus status;

  g_assert_true (llm_forward_begin (self->forward, &batch, &error));
  while ((status = llm_forward_resume (self->forward, &error)) == LLM_PENDING)
    continue;
  g_assert_no_error (error);
  g_assert_true (status == LLM_READY);
}

static void
begin_reference (Reference *self)
{
  LlmKvPlan plan;
  g_autoptr(GError) error = NULL;

  g_assert_true (llm_kv_seq_begin_call (self->seq, 0, &plan, &error));
  g_assert_no_error (error);
}

/* Until @n_slid tokens are gone: what is left of the text stays as it was computed, the sinks are
 * computed where they are now. */
static void
slide_reference (Reference    *self,
                 const gint32 *tokens,
                 guint         n_slid)
{
  guint n_gone = self->seq->n_slid;

  if (n_slid <= n_gone)
    return;
  if (!self->seq->is_locked)
    begin_reference (self);
  llm_kv_seq_slide (self->seq, self->n_sinks, n_slid - n_gone);
  for (guint i = 0; i < self->n_sinks; i++)
    run_row (self, make_row (n_slid, tokens[i], i));
}

/* The next token of a text, alone in a step. */
static void
add_token (Reference    *self,
           const gint32 *tokens,
           guint         index)
{
  g_autoptr(GError) error = NULL;
  guint n_slid = self->seq->n_slid;
  guint slot = self->seq->length;

  g_assert_cmpuint (slot + n_slid, ==, index);
  g_assert_true (llm_kv_seq_append (self->seq, 1, &error));
  run_row (self, make_row (n_slid, tokens[index], slot));
}

static gint32
choose_token (Reference *self)
{
  const float *logits = llm_forward_get_logits (self->forward, 0);
  LlmSamplerConfig config = {
    .top_p = 1,
    .repeat_penalty = 1,
    .bias = (const LlmLogitBias *) self->bias->data,
    .n_bias = self->bias->len,
  };
  g_autoptr(LlmSampler) sampler = llm_sampler_new (&config, self->hparams->n_vocab);

  return llm_sampler_sample (sampler, logits);
}

/* --- the executor --- */

typedef struct
{
  Reference reference;
  char *folder;
  LlmMailbox *box;
  LlmLedger *ledger;
  LlmExecutor *executor;
  guint n_system;        /* tokens of the system message */
  GArray *text;          /* (element-type gint32): all turns */
} Rig;

typedef struct
{
  GArray *tokens;
  LlmFinish finish;
  guint n_slid;
  guint n_reused;
  gboolean is_done;
} Outcome;

static void
start_executor (Rig *rig)
{
  g_autofree char *chunks = g_build_filename (rig->folder, "chunks", NULL);
  const LlmExecutorConfig config = {
    .kernels = llk_ops_best (),
    .n_threads = 2,
    .chunk_slots = SLOTS,
    .chunks_folder = chunks,
    .disk = "threads",
  };
  g_autoptr(GError) error = NULL;
  LlmWeights *weights = llm_weights_new_repacked (llm_model_get_gguf (rig->reference.model),
                                                  rig->reference.hparams, NULL, NULL, 2,
                                                  rig->ledger, &error);

  g_assert_no_error (error);
  rig->executor = llm_executor_new (rig->box, rig->ledger, &config);
  llm_executor_set_model (rig->executor, 0, rig->reference.model, weights, NULL, NULL);
}

/* @n_system: tokens of the text that are its system message. */
static void
rig_init (Rig  *rig,
          guint n_system)
{
  reference_init (&rig->reference);
  rig->n_system = n_system;
  rig->reference.n_sinks = MAX ((n_system + SLOTS - 1) / SLOTS, 1) * SLOTS;
  rig->folder = llm_test_folder_new ();
  rig->box = llm_mailbox_new ();
  rig->ledger = llm_ledger_new ();
  rig->text = g_array_new (FALSE, FALSE, sizeof (gint32));
  start_executor (rig);
}

static void
rig_clear (Rig *rig)
{
  llm_executor_free (rig->executor);
  llm_mailbox_free (rig->box);
  g_assert_cmpuint (llm_ledger_get_total (rig->ledger), ==, 0);
  llm_ledger_unref (rig->ledger);
  g_array_unref (rig->text);
  llm_test_folder_remove (rig->folder);
  g_free (rig->folder);
  reference_clear (&rig->reference);
}

static void
on_text (LlmRequest     *request,
         const char *text,
         gsize       length,
         gpointer    data)
{
}

static void
on_done (LlmRequest             *request,
         const LlmRequestResult *result,
         gpointer            data)
{
  Outcome *outcome = data;

  g_assert_no_error (result->error);
  outcome->tokens = g_array_copy (result->tokens);
  outcome->finish = result->finish;
  outcome->n_slid = result->n_slid;
  outcome->n_reused = result->n_reused;
  outcome->is_done = TRUE;
}

/* Answers of @n_answer tokens to the first @n_prompt of the text. */
static void
answer (Rig     *rig,
        guint    n_prompt,
        guint    n_answer,
        gboolean slides,
        gboolean keeps,
        Outcome *outcome)
{
  const GArray *bias = rig->reference.bias;
  g_autoptr(LlmApp) app = llm_app_intern (1000, "org.example.App");
  g_autoptr(LlmRequest) request = llm_request_new (app);
  const LlmSamplerConfig sampler = {
    .top_p = 1,
    .repeat_penalty = 1,
    .bias = (const LlmLogitBias *) bias->data,
    .n_bias = bias->len,
  };

  *outcome = (Outcome) { 0 };
  g_array_append_vals (request->prompt, rig->text->data, n_prompt);
  request->decoder = llm_decoder_new_plain (&sampler, rig->reference.hparams->n_vocab);
  request->max_tokens = n_answer;
  request->window.n_ctx = N_CTX;
  request->window.slides = slides;
  request->window.n_system = rig->n_system;
  request->memory.session_id = keeps ? SESSION : 0;
  request->memory.context = keeps ? g_strdup (CONTEXT) : NULL;
  request->memory.is_named = TRUE;
  request->arrived_us = g_get_monotonic_time ();
  request->sink.on_text = on_text;
  request->sink.on_done = on_done;
  request->sink.data = outcome;
  llm_executor_submit (rig->executor, request);
  while (!outcome->is_done)
    llm_mailbox_dispatch (rig->box, -1);
}

static void
add_question (Rig  *rig,
              guint n)
{
  for (guint i = 0; i < n; i++)
    {
      gint32 token = g_test_rand_int_range (10, (gint) rig->reference.hparams->n_vocab);

      g_array_append_val (rig->text, token);
    }
}

/* The reference answers the text, which grows by that, and the executor must have said the same. */
static void
check_answer (Rig     *rig,
              Outcome *outcome)
{
  Reference *reference = &rig->reference;
  const gint32 *tokens = (const gint32 *) rig->text->data;
  guint n_prompt = rig->text->len;
  guint first;

  g_assert_true (outcome->finish == LLM_FINISH_LENGTH);
  slide_reference (reference, tokens, llm_window_get_n_slid (n_prompt, N_CTX, SLOTS));
  first = reference->seq->length + reference->seq->n_slid;
  for (guint i = first; i < n_prompt; i++)
    add_token (reference, tokens, i);
  for (guint i = 0; i < outcome->tokens->len; i++)
    {
      gint32 token = choose_token (reference);

      g_assert_cmpint (g_array_index (outcome->tokens, gint32, i), ==, token);
      g_array_append_val (rig->text, token);
      if (i + 1 == outcome->tokens->len)
        break;
      tokens = (const gint32 *) rig->text->data;
      slide_reference (reference, tokens, llm_window_get_n_slid (n_prompt + i + 1, N_CTX, SLOTS));
      add_token (reference, tokens, n_prompt + i);
    }
  g_assert_cmpuint (outcome->n_slid, ==, reference->seq->n_slid);
  g_array_unref (outcome->tokens);
}

/* --- tokens that the model does not have --- */

static void
on_ended (LlmRequest             *request,
          const LlmRequestResult *result,
          gpointer            data)
{
  Outcome *outcome = data;

  outcome->finish = result->finish;
  outcome->is_done = TRUE;
}

/* A prompt that is damaged ends its own call, not those that are in a step with it. */
static void
test_bad_token (void)
{
  const gint32 bad[] = { -1, G_MAXINT32 };
  Rig rig = { 0 };
  Outcome outcomes[4] = { 0 };

  rig_init (&rig, 0);
  add_question (&rig, 8);
  for (guint i = 0; i < G_N_ELEMENTS (outcomes); i++)
    {
      g_autofree char *id = g_strdup_printf ("org.example.App%u", i);
      g_autoptr(LlmApp) app = llm_app_intern (1000, id);
      g_autoptr(LlmRequest) request = llm_request_new (app);
      const LlmSamplerConfig sampler = { .top_p = 1, .repeat_penalty = 1 };

      g_array_append_vals (request->prompt, rig.text->data, rig.text->len);
      if (i % 2 == 1)
        g_array_insert_val (request->prompt, 3, bad[i / 2]);
      request->decoder = llm_decoder_new_plain (&sampler, rig.reference.hparams->n_vocab);
      request->max_tokens = 3;
      request->window.n_ctx = N_CTX;
      request->arrived_us = g_get_monotonic_time ();
      request->sink.on_text = on_text;
      request->sink.on_done = on_ended;
      request->sink.data = &outcomes[i];
      llm_executor_submit (rig.executor, request);
    }
  for (guint i = 0; i < G_N_ELEMENTS (outcomes); i++)
    {
      while (!outcomes[i].is_done)
        llm_mailbox_dispatch (rig.box, -1);
      g_assert_cmpint (outcomes[i].finish == LLM_FINISH_FAILED, ==, i % 2 == 1);
    }
  rig_clear (&rig);
}

/* --- many turns --- */

typedef struct
{
  gboolean is_evicted;  /* chunks go after every turn, and come back from storage; or the session
                         * stays in memory */
  guint n_system;
} Turns;

static void
on_given (guint64  freed,
          gpointer data)
{
  *(gboolean *) data = TRUE;
}

static void
evict_all (Rig *rig)
{
  gboolean is_given = FALSE;

  llm_executor_give_kv (rig->executor, G_MAXUINT64, g_get_monotonic_time () + G_USEC_PER_SEC,
                        on_given, &is_given);
  while (!is_given)
    llm_mailbox_dispatch (rig->box, -1);
}

/* It goes on for five windows; it slides before answers and in the middle of them. */
static void
test_turns (gconstpointer data)
{
  const Turns *turns = data;
  guint n_slides = 0;
  guint n_slides_within = 0;
  guint n_slid = 0;
  Rig rig = { 0 };

  rig_init (&rig, turns->n_system);
  for (guint turn = 0; turn < 14; turn++)
    {
      guint n_known = rig.text->len;
      guint n_before;
      Outcome outcome;

      add_question (&rig, turn == 0 ? 60 : 9 + turn % 3 * 7);
      n_before = llm_window_get_n_slid (rig.text->len, N_CTX, SLOTS);
      answer (&rig, rig.text->len, 12 + turn % 4 * 9, TRUE, TRUE, &outcome);
      n_slides += outcome.n_slid > n_slid;
      n_slides_within += outcome.n_slid > n_before;
      /* All that it knew and still sees, but for sinks that moved, and the last token said. */
      if (!turns->is_evicted && turn > 0)
        {
          guint n_gone = n_before + (n_before > n_slid ? rig.reference.n_sinks : 0);

          g_assert_cmpuint (outcome.n_reused, ==, n_known - 1 - MIN (n_known - 1, n_gone));
        }
      n_slid = outcome.n_slid;
      check_answer (&rig, &outcome);
      if (!turns->is_evicted)
        continue;
      /* What is not a whole chunk is computed again, and sees what there is to see then. */
      evict_all (&rig);
      llm_kv_seq_truncate (rig.reference.seq,
                           rig.reference.seq->length / SLOTS * SLOTS);
    }
  g_assert_cmpuint (n_slid, >=, 4 * N_CTX);
  g_assert_cmpuint (n_slides, >, 5);
  g_assert_cmpuint (n_slides_within, >, 2);
  rig_clear (&rig);
}

/* One answer that is longer than the window. */
static void
test_long_answer (void)
{
  Outcome outcome;
  Rig rig = { 0 };

  rig_init (&rig, 0);
  add_question (&rig, 30);
  answer (&rig, rig.text->len, 3 * N_CTX, TRUE, FALSE, &outcome);
  g_assert_cmpuint (outcome.tokens->len, ==, 3 * N_CTX);
  g_assert_cmpuint (outcome.n_slid, >=, 2 * N_CTX);
  check_answer (&rig, &outcome);

  /* Without leave to slide it ends where it is full, as ever. */
  answer (&rig, 30, 3 * N_CTX, FALSE, FALSE, &outcome);
  g_assert_true (outcome.finish == LLM_FINISH_CONTEXT_FULL);
  g_assert_cmpuint (outcome.tokens->len, ==, N_CTX - 30 + 1);
  g_assert_cmpuint (outcome.n_slid, ==, 0);
  g_array_unref (outcome.tokens);
  rig_clear (&rig);
}

/* A text that nothing is remembered of: the beginning and the newest, and nothing else is read. */
static void
test_long_prompt (void)
{
  Outcome outcome;
  guint n_slid;
  Rig rig = { 0 };
  LlmExecutorFigures figures;

  rig_init (&rig, 0);
  add_question (&rig, 5 * N_CTX + 3);
  n_slid = llm_window_get_n_slid (rig.text->len, N_CTX, SLOTS);
  answer (&rig, rig.text->len, 10, TRUE, TRUE, &outcome);
  g_assert_cmpuint (outcome.n_reused, ==, 0);
  g_assert_cmpuint (outcome.n_slid, ==, n_slid);
  llm_executor_get_figures (rig.executor, &figures);
  g_assert_cmpuint (figures.n_rows, ==, rig.text->len - n_slid + 9);
  check_answer (&rig, &outcome);

  /* Then a question that is longer than the window, behind what is remembered. */
  add_question (&rig, 2 * N_CTX);
  answer (&rig, rig.text->len, 10, TRUE, TRUE, &outcome);
  g_assert_cmpuint (outcome.n_reused, ==, 0);
  reset_reference (&rig.reference);
  check_answer (&rig, &outcome);
  rig_clear (&rig);
}

static void
cut_text (Rig  *rig,
          guint length)
{
  g_array_set_size (rig->text, length);
}

/* Back to what is still seen: it is cut. Back to before what slid away: the text is there, so it is
 * read again. */
static void
test_rollback (void)
{
  Outcome outcome;
  Rig rig = { 0 };

  rig_init (&rig, 0);
  add_question (&rig, 90);
  answer (&rig, rig.text->len, 60, TRUE, TRUE, &outcome);
  g_assert_cmpuint (outcome.n_slid, ==, 2 * STEP);
  check_answer (&rig, &outcome);

  cut_text (&rig, 130);
  llm_kv_seq_truncate (rig.reference.seq, 130 - 2 * STEP);
  add_question (&rig, 10);
  answer (&rig, rig.text->len, 10, TRUE, TRUE, &outcome);
  g_assert_cmpuint (outcome.n_reused, ==, 130 - 2 * STEP);
  g_assert_cmpuint (outcome.n_slid, ==, 2 * STEP);
  check_answer (&rig, &outcome);

  cut_text (&rig, 40);
  add_question (&rig, 20);
  answer (&rig, rig.text->len, 10, TRUE, TRUE, &outcome);
  g_assert_cmpuint (outcome.n_slid, ==, 0);
  reset_reference (&rig.reference);
  check_answer (&rig, &outcome);
  rig_clear (&rig);
}

/* The chunks that are on storage are those behind the gap, and are found there. */
static void
test_restart (gconstpointer data)
{
  guint n_system = GPOINTER_TO_UINT (data);
  Outcome outcome;
  Rig rig = { 0 };

  rig_init (&rig, n_system);
  add_question (&rig, 90);
  answer (&rig, rig.text->len, 40, TRUE, TRUE, &outcome);
  g_assert_cmpuint (outcome.n_slid, ==, STEP);
  check_answer (&rig, &outcome);

  llm_executor_free (rig.executor);
  start_executor (&rig);
  add_question (&rig, 1);
  g_assert_cmpuint (llm_window_get_n_slid (rig.text->len, N_CTX, SLOTS), ==, STEP);
  answer (&rig, rig.text->len, 20, TRUE, TRUE, &outcome);
  /* Whole chunks of what was known, without the sinks. */
  g_assert_cmpuint (outcome.n_reused, ==,
                    (90 + 39) / SLOTS * SLOTS - STEP - rig.reference.n_sinks);
  check_answer (&rig, &outcome);
  rig_clear (&rig);
}

/* --- what callers see --- */

static void
test_callers (Fixture      *fixture,
              gconstpointer data)
{
  static const char question[] = "Find me a restaurant in San Jose with a table outside for four.";
  g_autoptr(LlmContext) context = create (fixture, "{'max-tokens': <uint32 128>}");
  gboolean has_slid = FALSE;
  gboolean was_full = FALSE;

  for (guint turn = 0; turn < 8; turn++)
    {
      g_autoptr(Answer) refused = begin_ask (fixture, context, question, GREEDY);
      g_autoptr(Answer) taken = NULL;

      /* Without the option it is refused, or cut short, as soon as it does not fit. */
      WAIT_FOR (refused->is_finished);
      if (refused->error == NULL)
        {
          g_autoptr(GError) error = NULL;

          g_assert_false (g_variant_lookup (refused->results, "kept-tokens", "u", NULL));
          g_assert_true (rollback (context, 1, &error));
          g_assert_no_error (error);
        }
      else
        {
          g_assert_error (refused->error, LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_FULL);
          was_full = TRUE;
        }

      taken = begin_ask (fixture, context, question,
                         "{'temperature': <0.0>, 'max-tokens': <uint32 24>, "
                         "'on-overflow': <'slide'>}");
      WAIT_FOR (taken->is_finished);
      g_assert_no_error (taken->error);
      g_assert_cmpstr (result_string (taken, "finish-reason"), !=, "context-full");
      if (g_variant_lookup (taken->results, "kept-tokens", "u", NULL))
        {
          guint n_all = result_uint (taken, "prompt-tokens") + result_uint (taken, "output-tokens");

          has_slid = TRUE;
          g_assert_cmpuint (result_uint (taken, "kept-tokens"), <, n_all);
          g_assert_cmpuint (result_uint (taken, "kept-tokens"), <=, 128 + 1);
          g_assert_cmpuint ((n_all - result_uint (taken, "kept-tokens")) % 32, ==, 0);
        }
      else
        g_assert_false (has_slid);
    }
  g_assert_true (has_slid);
  g_assert_true (was_full);
  /* The text is all there. */
  g_assert_cmpuint (count_messages (context), ==, 16);
}

/* A window too small to slide refuses, whatever the caller wants. */
static void
test_small (Fixture      *fixture,
            gconstpointer data)
{
  static const char question[] =
    "Find me a restaurant in San Jose with a table outside for four people, and a hotel with a "
    "pool near by for two nights, and then a flight home on Sunday evening that is not too "
    "expensive, with a window seat, please, and a taxi to the airport two hours before it leaves.";
  g_autoptr(LlmContext) context = create (fixture, "{'max-tokens': <uint32 40>}");
  g_autoptr(Answer) answer = begin_ask (fixture, context, question,
                                        "{'on-overflow': <'slide'>}");

  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_FULL);
}

/* All of the system message stays, and not its beginning alone. */
static void
test_system (Fixture      *fixture,
             gconstpointer data)
{
  static const char question[] = "Find me a restaurant in San Jose with a table outside for four.";
  g_autoptr(LlmContext) context = create (
    fixture, "{'max-tokens': <uint32 192>, 'system': <'You help people who travel by train, and you "
             "always answer in one short sentence. You never name a price, and when you are asked "
             "for one, you say that it may have changed since yesterday.'>}");
  guint n_system = llm_context_get_tokens (context);
  guint n_before = 0;
  guint n_slides = 0;

  g_assert_cmpuint (n_system, >, 2 * SLOTS);
  for (guint turn = 0; turn < 10; turn++)
    {
      guint n_known = llm_context_get_tokens (context);
      g_autoptr(Answer) answer = begin_ask (fixture, context, question,
                                            "{'temperature': <0.0>, 'max-tokens': <uint32 24>, "
                                            "'on-overflow': <'slide'>}");
      guint n_prompt, n_slid;

      WAIT_FOR (answer->is_finished);
      g_assert_no_error (answer->error);
      n_prompt = result_uint (answer, "prompt-tokens");
      n_slid = llm_window_get_n_slid (n_prompt, 192, SLOTS);
      if (n_slid > n_before)
        {
          /* What is not reused of what was known: that slid, and the sinks, at their new place. */
          guint n_sinks = n_known - 1 - n_slid - result_uint (answer, "cached-tokens");

          g_assert_cmpuint (n_sinks % SLOTS, <=, 1);
          g_assert_cmpuint (n_sinks, >=, n_system);
          n_slides++;
        }
      n_before = n_slid;
      if (g_variant_lookup (answer->results, "kept-tokens", "u", NULL))
        n_before = n_prompt + result_uint (answer, "output-tokens")
                   - result_uint (answer, "kept-tokens");
    }
  g_assert_cmpuint (n_slides, >, 1);
}

/* A system message that leaves no room for what comes behind it says that it does. */
static void
test_long_system (Fixture      *fixture,
                  gconstpointer data)
{
  static const char slides[] = "{'temperature': <0.0>, 'max-tokens': <uint32 8>, "
                               "'on-overflow': <'slide'>}";
  g_autoptr(LlmContext) context = create (
    fixture, "{'max-tokens': <uint32 80>, 'system': <'You help people who travel by train, and you "
             "always answer in one short sentence. You never name a price, and when you are asked "
             "for one, you say that it may have changed since yesterday.'>}");
  g_autoptr(GError) error = NULL;

  g_assert_cmpuint (llm_context_get_tokens (context), >, 40);
  for (guint turn = 0; turn < 10 && error == NULL; turn++)
    {
      g_autoptr(Answer) answer = begin_ask (fixture, context, "And a table outside?", slides);

      WAIT_FOR (answer->is_finished);
      if (answer->error != NULL)
        error = g_error_copy (answer->error);
      else
        g_assert_false (g_variant_lookup (answer->results, "kept-tokens", "u", NULL));
    }
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_FULL);
  g_test_message ("%s", error->message);
  g_assert_nonnull (strstr (error->message, "the system message, which stays"));
}

int
main (int    argc,
      char **argv)
{
  static const Turns turns[] = {
    { FALSE, 0 }, { TRUE, 0 }, { FALSE, 41 }, { TRUE, 41 }, { FALSE, 32 },
  };

  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/engine/window/rule", test_rule);
  for (guint i = 0; i < G_N_ELEMENTS (turns); i++)
    {
      g_autofree char *path =
        g_strdup_printf ("/engine/window/turns-%s-%u", turns[i].is_evicted ? "evicted" : "kept",
                         turns[i].n_system);

      g_test_add_data_func (path, &turns[i], test_turns);
    }
  g_test_add_func ("/engine/window/long-answer", test_long_answer);
  g_test_add_func ("/engine/window/long-prompt", test_long_prompt);
  g_test_add_func ("/engine/window/rollback", test_rollback);
  g_test_add_data_func ("/engine/window/restart", GUINT_TO_POINTER (0), test_restart);
  g_test_add_data_func ("/engine/window/restart-system", GUINT_TO_POINTER (41), test_restart);
  g_test_add ("/engine/window/callers", Fixture, NULL, set_up, test_callers, tear_down);
  g_test_add ("/engine/window/system", Fixture, NULL, set_up, test_system, tear_down);
  g_test_add ("/engine/window/long-system", Fixture, NULL, set_up, test_long_system, tear_down);
  g_test_add ("/engine/window/small", Fixture, NULL, set_up, test_small, tear_down);
  g_test_add_func ("/engine/window/bad-token", test_bad_token);
  return g_test_run ();
}
