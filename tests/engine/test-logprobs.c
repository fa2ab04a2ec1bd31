/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Log-probabilities: what the option tells is the softmax of the model's own logits, computed here
 * by another way, whatever the sampling, masks and drafts; alone and beside others. */

#include "engine-rig.h"

#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

#include "common/llmsvc-option-table.h"
#include "forward/llm-forward.h"
#include "weights/llm-repacked-cache.h"

#define PROMPT "Red, green, blue. Red, green, blue. Red, green, blue. Red, green,"
#define N_TOKENS "'max-tokens': <uint32 12>"

/* --- the model, without the service --- */

typedef struct
{
  LlmModel *model;
  LlmWeights *weights;
  LlmWorkerPool *pool;
  LlmForward *forward;
  LlmKvStore *store;
  LlmKvSeq *seq;
} Reference;

static void
reference_init (Reference *self)
{
  g_autofree char *path =
    g_build_filename (g_getenv ("LLM_MODEL_DIR"), "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_autoptr(GError) error = NULL;
  LlmKvLayout layout = { .kind = LLM_KV_FULL, .format = LLK_KV_F16, .chunk_slots = 16 };
  const LlmPlanConfig config = { .kernels = llk_ops_best () };
  g_autoptr(LlmPlan) plan = NULL;
  const LlmHparams *hparams;
  LlmKvPlan restore;

  self->model = llm_model_open (path, &error);
  g_assert_no_error (error);
  hparams = llm_model_get_hparams (self->model);
  self->weights = llm_weights_new_repacked (llm_model_get_gguf (self->model), hparams, NULL, NULL,
                                            2, NULL, &error);
  g_assert_no_error (error);
  layout.n_layers = hparams->n_layers;
  layout.n_kv_heads = hparams->n_kv_heads;
  layout.head_dim = hparams->head_dim;
  self->store = llm_kv_store_new (&layout, NULL, NULL, &error);
  g_assert_no_error (error);
  self->pool = llm_worker_pool_new (1);
  plan = llm_plan_new (hparams, self->weights, &config);
  self->forward = llm_forward_new (plan, self->pool, NULL);
  self->seq = llm_kv_seq_new (self->store, NULL, NULL);
  g_assert_true (llm_kv_seq_begin_call (self->seq, 0, &restore, &error));
}

static void
reference_clear (Reference *self)
{
  llm_kv_seq_preempt (self->seq);
  llm_forward_free (self->forward);
  llm_kv_seq_free (self->seq);
  llm_kv_store_free (self->store);
  llm_worker_pool_free (self->pool);
  llm_weights_free (self->weights);
  llm_model_unref (self->model);
}

/* The logits behind @token. */
static const float *
run_token (Reference *self,
           gint32     token)
{
  LlmRow row = { .token = token, .position = self->seq->length, .slot = self->seq->length,
                 .sub_model = 100, .wants_logits = TRUE };
  LlmBatch batch = { &row, 1, &self->seq, 1 };
  g_autoptr(GError) error = NULL;
  LlmStatus status;

  g_assert_true (llm_kv_seq_append (self->seq, 1, &error));
  g_assert_true (llm_forward_begin (self->forward, &batch, &error));
  while ((status = llm_forward_resume (self->forward, &error)) == LLM_PENDING)
    continue;
  g_assert_true (status == LLM_READY);
  return llm_forward_get_logits (self->forward, 0);
}

/* --- what is told --- */

static gint
get_id (JsonObject *entry)
{
  return (gint) json_object_get_int_member (entry, "id");
}

static double
get_logprob (JsonObject *entry)
{
  return json_object_get_double_member (entry, "logprob");
}

/* ln p of @token, in long doubles. */
static double
compute_logprob (const float *logits,
                 guint        n,
                 guint        token)
{
  long double sum = 0;

  for (guint i = 0; i < n; i++)
    sum += expl ((long double) logits[i] - logits[token]);
  return (double) -logl (sum);
}

static void
check_entry (Reference   *self,
             const float *logits,
             JsonObject  *entry)
{
  LlmTokenizer *tokenizer = llm_model_get_tokenizer (self->model);
  JsonArray *bytes = json_object_get_array_member (entry, "bytes");
  g_autoptr(GString) text = g_string_new (NULL);

  g_assert_cmpfloat_with_epsilon (
    get_logprob (entry), compute_logprob (logits, tokenizer->n_tokens, (guint) get_id (entry)),
    1e-6);
  llm_tokenizer_decode_token (tokenizer, get_id (entry), TRUE, text);
  g_assert_cmpstr (json_object_get_string_member (entry, "token"), ==, text->str);
  g_assert_cmpuint (json_array_get_length (bytes), ==, text->len);
  for (guint i = 0; i < text->len; i++)
    g_assert_cmpint (json_array_get_int_element (bytes, i), ==, (guint8) text->str[i]);
}

/* The most probable ones, in their order: as many tokens as come before one are more probable. */
static void
check_top (Reference   *self,
           const float *logits,
           JsonArray   *top,
           guint        n_top)
{
  guint n_vocab = llm_model_get_tokenizer (self->model)->n_tokens;
  double sum = 0;

  g_assert_cmpuint (json_array_get_length (top), ==, n_top);
  for (guint i = 0; i < n_top; i++)
    {
      JsonObject *entry = json_array_get_object_element (top, i);
      guint id = (guint) get_id (entry);
      guint n_better = 0;

      check_entry (self, logits, entry);
      sum += exp (get_logprob (entry));
      for (guint j = 0; j < n_vocab; j++)
        n_better += logits[j] > logits[id] || (logits[j] == logits[id] && j < id);
      g_assert_cmpuint (n_better, ==, i);
    }
  g_assert_cmpfloat (sum, <=, 1 + 1e-9);
}

static JsonArray *
parse_logprobs (JsonParser   *parser,
                const Answer *answer)
{
  g_autoptr(GError) error = NULL;

  g_assert_no_error (answer->error);
  json_parser_load_from_data (parser, result_string (answer, "logprobs"), -1, &error);
  g_assert_no_error (error);
  return json_node_get_array (json_parser_get_root (parser));
}

/* Token for token beside the model itself. */
static void
check_answer (const Answer *answer,
              guint         n_top)
{
  g_autoptr(JsonParser) parser = json_parser_new ();
  JsonArray *entries = parse_logprobs (parser, answer);
  g_autoptr(GArray) prompt = g_array_new (FALSE, FALSE, sizeof (gint32));
  LlmTextPart part = { PROMPT, strlen (PROMPT), TRUE };
  const float *logits = NULL;
  Reference self;

  g_assert_cmpuint (json_array_get_length (entries), ==, result_uint (answer, "output-tokens"));
  reference_init (&self);
  llm_tokenizer_encode (llm_model_get_tokenizer (self.model), &part, 1, TRUE, prompt);
  g_assert_cmpuint (prompt->len, ==, result_uint (answer, "prompt-tokens"));
  for (guint i = 0; i < prompt->len; i++)
    logits = run_token (&self, g_array_index (prompt, gint32, i));
  for (guint i = 0; i < json_array_get_length (entries); i++)
    {
      JsonObject *entry = json_array_get_object_element (entries, i);

      check_entry (&self, logits, entry);
      check_top (&self, logits, json_object_get_array_member (entry, "top_logprobs"), n_top);
      logits = run_token (&self, get_id (entry));
    }
  reference_clear (&self);
}

static void
test_values (Fixture      *fixture,
             gconstpointer data)
{
  static const struct
  {
    const char *options;
    guint n_top;
  } cases[] = {
    { "{'raw': <true>, 'temperature': <0.0>, 'logprobs': <uint32 20>, " N_TOKENS "}", 20 },
    /* what the sampler makes of them is not told */
    { "{'raw': <true>, 'temperature': <1.7>, 'seed': <uint64 4>, 'top-k': <uint32 9>, "
      "'repeat-penalty': <1.4>, 'logit-bias': <{uint32 7: 3.0}>, 'logprobs': <uint32 3>, "
      N_TOKENS "}", 3 },
    { "{'raw': <true>, 'temperature': <0.0>, 'regex': <'[0-9]{6,9}x'>, 'logprobs': <uint32 2>, "
      N_TOKENS "}", 2 },
    { "{'raw': <true>, 'temperature': <0.0>, 'logprobs': <uint32 0>, " N_TOKENS "}", 0 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(Answer) answer = begin_complete (fixture, PROMPT, cases[i].options);

      WAIT_FOR (answer->is_finished);
      g_test_message ("%s: %s", cases[i].options, answer->text);
      check_answer (answer, cases[i].n_top);
    }
}

/* One that a constraint makes the model say is improbable: it is the model's own distribution. */
static void
test_unmasked (Fixture      *fixture,
               gconstpointer data)
{
  g_autoptr(Answer) answer = begin_complete (
    fixture, PROMPT, "{'raw': <true>, 'temperature': <0.0>, 'regex': <'ZQX'>, "
    "'logprobs': <uint32 1>}");
  g_autoptr(JsonParser) parser = json_parser_new ();
  JsonObject *first;
  JsonObject *best;

  WAIT_FOR (answer->is_finished);
  first = json_array_get_object_element (parse_logprobs (parser, answer), 0);
  best = json_array_get_object_element (json_object_get_array_member (first, "top_logprobs"), 0);
  g_assert_cmpint (get_id (first), !=, get_id (best));
  g_assert_cmpfloat (get_logprob (first), <, get_logprob (best));
}

/* Guesses that are verified several at once, and others beside: bit for bit what it is alone. */
static void
test_same (Fixture      *fixture,
           gconstpointer data)
{
  static const char plain[] =
    "{'raw': <true>, 'temperature': <0.0>, 'logprobs': <uint32 5>, 'max-tokens': <uint32 40>}";
  static const char drafted[] =
    "{'raw': <true>, 'temperature': <0.0>, 'logprobs': <uint32 5>, 'max-tokens': <uint32 40>, "
    "'draft': <'lookup'>}";
  g_autoptr(Answer) alone = begin_complete (fixture, PROMPT, plain);
  Answer *beside[3];
  guint n_accepted = 0;

  WAIT_FOR (alone->is_finished);
  for (guint i = 0; i < MAX_ATTEMPTS && n_accepted == 0; i++)
    {
      g_autoptr(Answer) answer = NULL;

      make_rows_free (fixture);
      answer = begin_complete (fixture, PROMPT, drafted);
      WAIT_FOR (answer->is_finished);
      g_assert_cmpstr (result_string (answer, "logprobs"), ==, result_string (alone, "logprobs"));
      n_accepted = result_uint (answer, "accepted-tokens");
    }
  g_assert_cmpuint (n_accepted, >, 0);

  for (guint i = 0; i < G_N_ELEMENTS (beside); i++)
    beside[i] = begin_complete (fixture, PROMPT, i == 1 ? drafted : plain);
  for (guint i = 0; i < G_N_ELEMENTS (beside); i++)
    {
      WAIT_FOR (beside[i]->is_finished);
      g_assert_cmpstr (result_string (beside[i], "logprobs"), ==,
                       result_string (alone, "logprobs"));
      answer_free (beside[i]);
    }
}

/* Not asked for, they are not there; a stop string leaves the tokens it was found in. */
static void
test_none (Fixture      *fixture,
           gconstpointer data)
{
  g_autoptr(Answer) without = begin_complete (fixture, PROMPT, GREEDY);
  g_autoptr(Answer) stopped = begin_complete (
    fixture, PROMPT, "{'raw': <true>, 'temperature': <0.0>, 'stop': <['Red']>, "
    "'logprobs': <uint32 1>, 'max-tokens': <uint32 24>}");
  g_autoptr(JsonParser) parser = json_parser_new ();

  WAIT_FOR (without->is_finished && stopped->is_finished);
  g_assert_false (g_variant_lookup (without->results, "logprobs", "&s", NULL));
  g_assert_cmpuint (json_array_get_length (parse_logprobs (parser, stopped)), ==,
                    result_uint (stopped, "output-tokens"));
}

/* --- a sink that takes them as they come --- */

typedef struct
{
  LlmSink parent;
  GString *items;
  guint n_calls;
  GVariant *results;
  gboolean is_finished;
} Stream;

static gboolean
stream_accept (LlmSink    *sink,
               const char *text,
               gsize       length)
{
  return TRUE;
}

static void
stream_finish (LlmSink      *sink,
               GVariant     *results,
               const GError *error)
{
  Stream *self = (Stream *) sink;

  g_assert_no_error (error);
  self->results = g_variant_ref (results);
  self->is_finished = TRUE;
}

static void
stream_clear (LlmSink *sink)
{
  Stream *self = (Stream *) sink;

  g_string_free (self->items, TRUE);
  g_variant_unref (self->results);
}

static gboolean
stream_accept_logprobs (LlmSink    *sink,
                        const char *items)
{
  Stream *self = (Stream *) sink;

  g_string_append_printf (self->items, "%s%s", self->items->len > 0 ? "," : "", items);
  self->n_calls++;
  return TRUE;
}

static void
test_streamed (Fixture      *fixture,
               gconstpointer data)
{
  static const LlmSinkClass class = { stream_accept, stream_finish, stream_clear, NULL,
                                      stream_accept_logprobs };
  static const char options[] =
    "{'raw': <true>, 'temperature': <0.0>, 'logprobs': <uint32 2>, " N_TOKENS "}";
  g_autoptr(Answer) whole = begin_complete (fixture, PROMPT, options);
  g_autoptr(LlmCallOptions) parsed = parse_options (options, LLMSVC_CALL_COMPLETE);
  g_autoptr(GAsyncResult) result = NULL;
  g_autofree char *array = NULL;
  Stream *stream = llm_sink_new (&class, sizeof *stream);

  stream->items = g_string_new (NULL);
  WAIT_FOR (whole->is_finished);
  llm_engine_complete_async (fixture->engine, fixture->caller, PROMPT, parsed, &stream->parent,
                             on_result, &result);
  WAIT_FOR (stream->is_finished);
  array = g_strdup_printf ("[%s]", stream->items->str);
  g_assert_cmpstr (array, ==, result_string (whole, "logprobs"));
  g_assert_cmpuint (stream->n_calls, >, 1);
  g_assert_false (g_variant_lookup (stream->results, "logprobs", "&s", NULL));
  llm_sink_unref (stream);
}

/* A request that comes again is told all but these. */
static void
test_repeated (Fixture      *fixture,
               gconstpointer data)
{
  static const char options[] = "{'temperature': <0.0>, 'logprobs': <uint32 2>, " N_TOKENS ", "
                                "'request-id': <'r'>}";
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autoptr(Answer) first = begin_ask (fixture, context, "Hello!", options);
  g_autoptr(Answer) again = NULL;

  WAIT_FOR (first->is_finished);
  g_assert_nonnull (result_string (first, "logprobs"));
  again = begin_ask (fixture, context, "Hello!", options);
  WAIT_FOR (again->is_finished);
  g_assert_cmpstr (again->text, ==, first->text);
  g_assert_true (g_variant_lookup (again->results, "repeated", "b", NULL));
  g_assert_false (g_variant_lookup (again->results, "logprobs", "&s", NULL));
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, test) \
  g_test_add ("/engine/logprobs/" path, Fixture, NULL, set_up_floats, test, tear_down)
  ADD ("values", test_values);
  ADD ("unmasked", test_unmasked);
  ADD ("same", test_same);
  ADD ("none", test_none);
  ADD ("streamed", test_streamed);
  ADD ("repeated", test_repeated);
  return g_test_run ();
}
