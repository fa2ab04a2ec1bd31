/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "executor-rig.h"

#include <string.h>

#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"
#include "weights/llm-repacked-cache.h"

#define N_CTX 512

void
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

void
rig_wait_for (Rig      *rig,
              gboolean *flag)
{
  while (!*flag)
    llm_mailbox_dispatch (rig->box, -1);
}

void
rig_load_from (Rig              *rig,
               guint             instance,
               LlmRepackedCache *cache)
{
  LlmModel *model = rig->models[instance];
  g_autoptr(GError) error = NULL;
  gboolean is_loaded = FALSE;
  LlmWeights *weights = llm_weights_new_repacked (llm_model_get_gguf (model),
                                                  llm_model_get_hparams (model), NULL, cache, 2,
                                                  rig->ledger, &error);

  g_assert_no_error (error);
  llm_executor_set_model (rig->executor, instance, model, weights, on_given, &is_loaded);
  rig_wait_for (rig, &is_loaded);
}

void
rig_load (Rig  *rig,
          guint instance)
{
  rig_load_from (rig, instance, NULL);
}

void
rig_unload (Rig  *rig,
            guint instance)
{
  gboolean is_gone = FALSE;

  llm_executor_set_model (rig->executor, instance, NULL, NULL, on_given, &is_gone);
  rig_wait_for (rig, &is_gone);
}

void
rig_evict (Rig *rig)
{
  gboolean is_given = FALSE;

  llm_executor_give_kv (rig->executor, G_MAXUINT64, 0, on_given, &is_given);
  rig_wait_for (rig, &is_given);
}

static void
init (Rig                     *rig,
      const char *const       *paths,
      const LlmExecutorConfig *config)
{
  g_autoptr(GError) error = NULL;

  *rig = (Rig) { .box = llm_mailbox_new (), .ledger = llm_ledger_new (),
                 .order = g_string_new (NULL), .penalty = 1.1f, .n_ctx = N_CTX };
  rig->executor = llm_executor_new (rig->box, rig->ledger, config);
  for (guint i = 0; paths[i] != NULL; i++)
    {
      rig->models[i] = llm_model_open (paths[i], &error);
      g_assert_no_error (error);
    }
}

void
rig_init (Rig    *rig,
          double  kv_ratio)
{
  const LlmExecutorConfig config = {
    .kernels = llk_ops_best (), .n_threads = 2, .chunk_slots = 16, .kv_ratio = kv_ratio,
  };
  g_autofree char *first =
    g_build_filename (g_getenv ("LLM_MODEL_DIR"), "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_autofree char *second =
    g_build_filename (g_getenv ("LLM_TEST_DATA"), "models", "llmsvc-demo-7M-Q4_0.gguf", NULL);

  init (rig, (const char *const[]) { first, second, NULL }, &config);
}

void
rig_init_with (Rig        *rig,
               const char *path,
               guint       n_threads,
               const char *chunks_folder)
{
  const LlmExecutorConfig config = {
    .kernels = llk_ops_best (), .n_threads = n_threads, .chunk_slots = 16,
    .chunks_folder = chunks_folder,
  };

  init (rig, (const char *const[]) { path, NULL }, &config);
}

void
rig_clear (Rig *rig)
{
  llm_executor_free (rig->executor);
  llm_mailbox_free (rig->box);
  g_assert_cmpuint (llm_ledger_get_total (rig->ledger), ==, 0);
  llm_ledger_unref (rig->ledger);
  for (guint i = 0; i < G_N_ELEMENTS (rig->models); i++)
    g_clear_pointer (&rig->models[i], llm_model_unref);
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
  if (outcome->rig->on_text != NULL)
    outcome->rig->on_text (request);
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
  outcome->n_drafted = result->n_drafted;
  outcome->n_accepted = result->n_accepted;
  outcome->n_passes = result->n_passes;
  outcome->n_kept = result->n_kept;
  outcome->tpot_ms = result->tpot_ms;
  outcome->finish = result->finish;
  outcome->request = NULL;
  outcome->is_done = TRUE;
}

LlmDecoder *
rig_new_plain (Rig    *rig,
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
    .repeat_penalty = rig->penalty,
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

void
rig_submit (Rig        *rig,
            guint       instance,
            LlmDecoder *decoder,
            const char *prompt,
            guint       n_tokens,
            guint64     session,
            Outcome    *outcome)
{
  g_autoptr(LlmApp) app = llm_app_intern (1000, "org.example.App");
  g_autoptr(LlmRequest) request = llm_request_new (app);
  LlmTextPart part = { prompt, strlen (prompt), rig->has_markup };

  llm_tokenizer_encode (llm_model_get_tokenizer (rig->models[instance]), &part, 1, TRUE,
                        request->prompt);
  *outcome = (Outcome) {
    .rig = rig, .letter = (char) ('a' + (char) instance), .request = request,
  };
  if (rig->stop != NULL)
    request->answer.stops = g_strsplit (rig->stop, "\n", 1);
  request->instance = instance;
  request->memory.session_id = session;
  request->memory.context = g_strdup (session != 0 ? rig->context : NULL);
  request->decoder = decoder;
  request->max_tokens = n_tokens;
  request->window.n_ctx = rig->n_ctx;
  request->sink.on_text = on_text;
  request->sink.on_done = on_done;
  request->sink.data = outcome;
  llm_executor_submit (rig->executor, request);
}
