/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Answers to the prompts of a task file by several methods, in turns, on the service's executor, in
 * this process, which may be in a group with a limit. Prints a JSON object a line: the weights,
 * then an object for each answer. For `draft`, which is written in Python.
 */

#include "bench.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/llm-clock.h"
#include "decoding/draft/llm-draft-decoder.h"
#include "decoding/draft/llm-lookup-source.h"
#include "draft/bench-big-little.h"
#include "draft/bench-method.h"
#include "forward/llm-forward.h"
#include "runtime/llm-draft-model.h"
#include "runtime/llm-executor.h"
#include "runtime/llm-own-draft.h"
#include "weights/llm-channels.h"
#include "weights/llm-levels.h"
#include "weights/llm-repacked-cache.h"

/* Of the limit, for page tables and the kernel's buffers; beside it for activations. */
#define RESERVE_PARTS 20
#define SCRATCH_BYTES ((guint64) 64 << 20)
/* As the executor has it. */
#define RING_BYTES ((guint64) 128 << 20)
#define RING_PARTS 8
/* What steps of so many rows cost is measured before anything else. */
#define WARM_TOKENS 8
static const char *const warm_methods[] = {
  "plain", "chain:1", "chain:3", "chain:7", "chain:15", "chain:31",
};

static char *opt_model, *opt_draft, *opt_cache, *opt_costs, *opt_tasks;
static char **opt_methods;
static gint64 opt_limit;
static int opt_first, opt_prompts = 1, opt_tokens = 32, opt_runs = 1, opt_threads;
static double opt_seconds;
static gboolean opt_is_mapped, opt_is_warm, opt_is_whole;

static const GOptionEntry entries[] = {
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, &opt_model, "The model", "FILE" },
  { "draft", 0, 0, G_OPTION_ARG_FILENAME, &opt_draft, "The draft model", "FILE" },
  { "cache", 0, 0, G_OPTION_ARG_FILENAME, &opt_cache, "Folder of prepared copies", "FOLDER" },
  { "costs", 0, 0, G_OPTION_ARG_FILENAME, &opt_costs, "For what steps cost", "FOLDER" },
  { "tasks", 0, 0, G_OPTION_ARG_FILENAME, &opt_tasks, "Prompts", "FILE" },
  { "method", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_methods, "To compare, several times", "NAME" },
  { "limit", 0, 0, G_OPTION_ARG_INT64, &opt_limit, "Memory of the group (0: none)", "BYTES" },
  { "first", 0, 0, G_OPTION_ARG_INT, &opt_first, "Prompts to leave out (0)", "N" },
  { "prompts", 0, 0, G_OPTION_ARG_INT, &opt_prompts, "Prompts (1)", "N" },
  { "tokens", 0, 0, G_OPTION_ARG_INT, &opt_tokens, "Of an answer at most (32)", "N" },
  { "runs", 0, 0, G_OPTION_ARG_INT, &opt_runs, "Of each prompt (1)", "N" },
  { "threads", 0, 0, G_OPTION_ARG_INT, &opt_threads, "That compute (0: all)", "N" },
  { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &opt_seconds, "Begin no prompt later (0: any)", "S" },
  { "mapped", 0, 0, G_OPTION_ARG_NONE, &opt_is_mapped, "Weights come by page faults", NULL },
  { "whole", 0, 0, G_OPTION_ARG_NONE, &opt_is_whole, "Nothing is read by channel", NULL },
  { "warm", 0, 0, G_OPTION_ARG_NONE, &opt_is_warm, "First measure what steps cost", NULL },
  G_OPTION_ENTRY_NULL
};

typedef struct
{
  LlmMailbox *box;
  LlmLedger *ledger;
  LlmExecutor *executor;
  LlmModel *model;
  guint64 bytes;                 /* of its weights */
  LlmDraftModel *draft;          /* (nullable) */
  LlmDraftRecord **records;      /* by method: of those that learn over answers */
  gboolean has_levels;
} Player;

typedef struct
{
  GArray *tokens;                /* (owned) */
  char *text;                    /* (owned) */
  double ttft_ms, seconds;       /* the latter from the first token on */
  double cpu_seconds;            /* of all threads, from the first text on; before: until then */
  guint n_reused, n_drafted, n_accepted, n_kept, n_passes, sparsity;
  guint64 n_read;                /* bytes of weights */
  GError *error;                 /* (nullable) (owned) */
  gboolean is_done;
} Answer;

static void
answer_clear (Answer *answer)
{
  g_clear_pointer (&answer->tokens, g_array_unref);
  g_clear_pointer (&answer->text, g_free);
  g_clear_error (&answer->error);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Answer, answer_clear)

static void
set_flag (guint64  freed,
          gpointer data)
{
  *(gboolean *) data = TRUE;
}

static void
wait_for (Player   *self,
          gboolean *flag)
{
  while (!*flag)
    llm_mailbox_dispatch (self->box, -1);
}

/* --- loading --- */

/* Memory of this process that is no file's. */
static guint64
count_own (void)
{
  g_autofree char *text = NULL;
  guint64 all = 0, shared = 0;

  if (g_file_get_contents ("/proc/self/statm", &text, NULL, NULL))
    sscanf (text, "%*u %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, &all, &shared);
  return (all - MIN (all, shared)) * (guint64) sysconf (_SC_PAGESIZE);
}

/* Of the weights, what a group of the limit has room for beside all else. */
static guint64
choose_keep (Player *self,
             guint   n_positions)
{
  LlmKvLayer layers[LLM_MAX_LAYERS];
  LlmKvLayout layout = llm_forward_get_layout (llm_model_get_hparams (self->model), LLK_KV_F16,
                                               LLM_KV_CHUNK_SLOTS, layers);
  guint64 other = count_own () + (guint64) opt_limit / RESERVE_PARTS + SCRATCH_BYTES
                  + MIN (RING_BYTES, self->bytes / RING_PARTS)
                  + n_positions * llm_kv_layout_count_values (&layout) * sizeof (guint16);

  /* a file's, and as good as always in use */
  if (self->draft != NULL && opt_cache != NULL)
    other += llm_draft_model_get_bytes (self->draft);
  return (guint64) opt_limit > other ? MIN ((guint64) opt_limit - other, self->bytes) : 0;
}

static gboolean
load_draft (Player            *self,
            LlmRepackedCache  *cache,
            GError           **error)
{
  g_autoptr(LlmModel) model = llm_model_open (opt_draft, error);
  LlmWeights *weights = model != NULL
                          ? llm_weights_new_repacked (llm_model_get_gguf (model),
                                                      llm_model_get_hparams (model), NULL, cache, 0,
                                                      self->ledger, error)
                          : NULL;

  if (weights == NULL)
    return FALSE;
  self->draft = llm_draft_model_new (model, weights, llk_ops_best (), (guint) opt_threads,
                                     self->ledger);
  return llm_draft_model_check (self->draft, self->model, error);
}

static gboolean
load (Player  *self,
      guint    n_active,
      GError **error)
{
  const LlmExecutorConfig config = {
    .kernels = llk_ops_best (),
    .n_threads = (guint) opt_threads,
    .chunk_slots = 16,
    .cache_folder = opt_costs,
  };
  g_autoptr(LlmRepackedCache) cache =
    opt_cache != NULL ? llm_repacked_cache_new (opt_cache, FALSE, NULL, 0) : NULL;
  g_autoptr(LlmLevels) levels = NULL;
  GError *cause = NULL;
  LlmWeights *weights;
  gboolean is_loaded = FALSE;

  self->model = llm_model_open (opt_model, error);
  if (self->model == NULL)
    return FALSE;
  levels = llm_levels_open (self->model, self->ledger, &cause);
  if (cause != NULL)
    {
      g_propagate_error (error, cause);
      return FALSE;
    }
  weights = opt_is_mapped
              ? llm_weights_new_mapped (llm_model_get_gguf (self->model),
                                        llm_model_get_hparams (self->model),
                                        llm_levels_get_table (levels), self->ledger, error)
              : llm_weights_new_repacked (llm_model_get_gguf (self->model),
                                          llm_model_get_hparams (self->model),
                                          llm_levels_get_table (levels), cache, 0, self->ledger,
                                          error);
  if (weights == NULL)
    return FALSE;
  if (n_active > 0 && !opt_is_whole && cache != NULL)
    {
      LlmChannels *channels =
        llm_channels_new (llm_model_get_gguf (self->model), llm_model_get_hparams (self->model),
                          llm_levels_get_table (levels), cache, 0, self->ledger, error);

      if (channels == NULL)
        {
          llm_weights_free (weights);
          return FALSE;
        }
      llm_weights_set_channels (weights, channels);
    }
  self->has_levels = llm_levels_get_table (levels) != NULL;
  weights->levels = g_steal_pointer (&levels);
  self->bytes = weights->bytes;
  llm_repacked_wait_for_all ();
  self->executor = llm_executor_new (self->box, self->ledger, &config);
  llm_executor_set_model (self->executor, 0, self->model, weights, set_flag, &is_loaded);
  wait_for (self, &is_loaded);
  return opt_draft == NULL || load_draft (self, cache, error);
}

static void
player_clear (Player *self)
{
  g_clear_pointer (&self->executor, llm_executor_free);
  g_clear_pointer (&self->draft, llm_draft_model_unref);
  g_clear_pointer (&self->model, llm_model_unref);
  for (guint i = 0; self->records != NULL && i < g_strv_length (opt_methods); i++)
    llm_draft_record_unref (self->records[i]);
  g_free (self->records);
  g_clear_pointer (&self->box, llm_mailbox_free);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Player, player_clear)

/* --- answers --- */

/* (transfer full) */
static LlmDraftSource *
make_source (Player          *self,
             BenchMethodKind  kind)
{
  switch (kind)
    {
    case BENCH_LOOKUP:
      return llm_lookup_source_new ();
    case BENCH_OWN:
      return llm_own_draft_new ();
    case BENCH_PLAIN:
    case BENCH_ACTIVE:
    case BENCH_MODEL:
    case BENCH_BIG_LITTLE:
    default:
      return llm_draft_model_new_source (self->draft);
    }
}

/* (transfer full): @record: (nullable). @own (out) (nullable): see LlmRequest. */
static LlmDecoder *
make_decoder (Player            *self,
              const BenchMethod *method,
              LlmDraftRecord    *record,
              LlmDraftSource   **own)
{
  const LlmSamplerConfig sampler = { .temperature = 0, .repeat_penalty = 1 };
  guint n_vocab = llm_model_get_hparams (self->model)->n_vocab;
  LlmDraftSource *source;

  *own = NULL;
  if (method->kind == BENCH_PLAIN || method->kind == BENCH_ACTIVE || method->kind == BENCH_TARGET)
    return llm_decoder_new_plain (&sampler, n_vocab);
  source = make_source (self, method->kind);
  *own = method->kind == BENCH_OWN ? source : NULL;
  if (method->kind == BENCH_BIG_LITTLE)
    return bench_big_little_new (source, &method->growth, method->fallback, method->rollback,
                                 n_vocab);
  /* a record is of trees that are judged by what they cost */
  return llm_decoder_new_drafting (llm_decoder_new_plain (&sampler, n_vocab), source,
                                   &method->growth,
                                   method->growth.by_cost ? record : NULL);
}

static double
get_cpu_seconds (void)
{
  struct timespec now;

  clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

static void
on_text (LlmRequest *request,
         const char *text,
         gsize       length,
         gpointer    data)
{
  Answer *answer = data;

  if (answer->cpu_seconds <= 0)
    answer->cpu_seconds = get_cpu_seconds ();
}

static void
on_done (LlmRequest             *request,
         const LlmRequestResult *result,
         gpointer                data)
{
  Answer *answer = data;

  answer->tokens = g_array_copy (result->tokens);
  answer->text = g_strdup (result->text->str);
  answer->ttft_ms = result->ttft_ms;
  answer->seconds = result->tpot_ms * (MAX (result->tokens->len, 1) - 1) / 1000;
  answer->cpu_seconds = answer->cpu_seconds > 0 ? get_cpu_seconds () - answer->cpu_seconds : 0;
  answer->n_reused = result->n_reused;
  answer->n_drafted = result->n_drafted;
  answer->n_accepted = result->n_accepted;
  answer->n_kept = result->n_kept;
  answer->n_passes = result->n_passes;
  answer->sparsity = result->sparsity;
  answer->error = result->error != NULL ? g_error_copy (result->error) : NULL;
  answer->is_done = TRUE;
}

static gboolean
ask (Player            *self,
     const BenchTask   *task,
     const BenchMethod *method,
     LlmDraftRecord    *record,
     guint              n_tokens,
     Answer            *answer,
     GError           **error)
{
  g_autoptr(LlmApp) app = llm_app_intern (0, "org.llm.Bench");
  g_autoptr(LlmRequest) request = llm_request_new (app);
  const LlmTextPart part = { task->prompt, strlen (task->prompt), TRUE };

  LlmExecutorFigures figures;

  llm_executor_get_figures (self->executor, &figures);
  *answer = (Answer) { .n_read = figures.stream.read_bytes };
  request->model.sparsity = method->sparsity;
  request->target.tpot_share = method->share;
  request->model.most_sparsity = method->kind == BENCH_TARGET ? LLM_MAX_SPARSITY : 0;
  llm_tokenizer_encode (llm_model_get_tokenizer (self->model), &part, 1, TRUE, request->prompt);
  /* what the prompt left is used by all of its answers */
  request->memory.session_id = 1;
  request->decoder = make_decoder (self, method, record, &request->own_draft);
  request->max_tokens = n_tokens;
  /* a minute a token: of a model that streams even one row would miss it, and a target
   * limits how many rows a step has */
  request->slo.tpot_ms = 60e3;
  request->window.n_ctx = llm_model_get_hparams (self->model)->n_ctx;
  request->sink.on_text = on_text;
  request->sink.on_done = on_done;
  request->sink.data = answer;
  llm_executor_submit (self->executor, request);
  wait_for (self, &answer->is_done);
  llm_executor_get_figures (self->executor, &figures);
  answer->n_read = figures.stream.read_bytes - answer->n_read;
  if (answer->error != NULL)
    g_propagate_error (error, g_steal_pointer (&answer->error));
  return error == NULL || *error == NULL;
}

static void
print_answer (const BenchTask *task,
              const char      *method,
              guint            run,
              const Answer    *answer)
{
  g_autoptr(JsonBuilder) builder = json_builder_new ();
  g_autoptr(JsonNode) root = NULL;
  g_autofree char *line = NULL;
  const struct { const char *name; double value; } numbers[] = {
    { "run", run }, { "tokens", answer->tokens->len }, { "reused", answer->n_reused },
    { "passes", answer->n_passes }, { "drafted", answer->n_drafted },
    { "accepted", answer->n_accepted }, { "kept", answer->n_kept },
    { "read", (double) answer->n_read }, { "active", answer->sparsity },
  };

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "id");
  json_builder_add_string_value (builder, task->id);
  json_builder_set_member_name (builder, "method");
  json_builder_add_string_value (builder, method);
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      json_builder_set_member_name (builder, numbers[i].name);
      json_builder_add_int_value (builder, (gint64) numbers[i].value);
    }
  json_builder_set_member_name (builder, "first-s");
  json_builder_add_double_value (builder, answer->ttft_ms / 1000);
  json_builder_set_member_name (builder, "seconds");
  json_builder_add_double_value (builder, answer->seconds);
  json_builder_set_member_name (builder, "cpu-seconds");
  json_builder_add_double_value (builder, answer->cpu_seconds);
  json_builder_set_member_name (builder, "text");
  json_builder_add_string_value (builder, answer->text);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  line = json_to_string (root, FALSE);
  printf ("%s\n", line);
  fflush (stdout);
}

static gboolean
warm_up (Player           *self,
         const BenchTask  *task,
         GError          **error)
{
  gboolean drafts = self->draft != NULL || self->has_levels;

  for (guint i = 0; i < (drafts ? G_N_ELEMENTS (warm_methods) : 1); i++)
    {
      g_auto(Answer) answer = { NULL };
      BenchMethod method;

      if (!bench_method_parse (warm_methods[i], &method, error))
        return FALSE;
      if (self->draft == NULL && i > 0)
        method.kind = BENCH_OWN;
      if (!ask (self, task, &method, NULL, WARM_TOKENS, &answer, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
play (Player             *self,
      const GPtrArray    *tasks,
      const BenchMethod  *methods,
      GError            **error)
{
  gint64 begin_us = llm_clock_now_us ();

  for (guint i = 0; i < tasks->len; i++)
    {
      const BenchTask *task = g_ptr_array_index (tasks, i);
      g_auto(Answer) first = { NULL };
      const BenchMethod plain = { .kind = BENCH_PLAIN };

      if (opt_seconds > 0 && i > 0
          && (double) (llm_clock_now_us () - begin_us) > opt_seconds * G_USEC_PER_SEC)
        break;
      /* the prompt is read, and all weights that stay are in memory */
      if (!ask (self, task, &plain, NULL, 1, &first, error)
          || (i == 0 && opt_is_warm && !warm_up (self, task, error)))
        return FALSE;
      for (guint run = 0; run < (guint) opt_runs; run++)
        for (guint m = 0; opt_methods[m] != NULL; m++)
          {
            g_auto(Answer) answer = { NULL };

            if (!ask (self, task, &methods[m], self->records[m], (guint) opt_tokens, &answer, error))
              return FALSE;
            print_answer (task, opt_methods[m], run, &answer);
          }
      llm_executor_drop_session (self->executor, 1, NULL);
    }
  return TRUE;
}

/* --- the program --- */

static guint
count_longest (Player          *self,
               const GPtrArray *tasks)
{
  guint most = 0;

  for (guint i = 0; i < tasks->len; i++)
    {
      const BenchTask *task = g_ptr_array_index (tasks, i);
      const LlmTextPart part = { task->prompt, strlen (task->prompt), TRUE };
      g_autoptr(GArray) tokens = g_array_new (FALSE, FALSE, sizeof (gint32));

      llm_tokenizer_encode (llm_model_get_tokenizer (self->model), &part, 1, TRUE, tokens);
      most = MAX (most, tokens->len);
    }
  return most + (guint) opt_tokens + LLM_DRAFT_MAX_NODES;
}

static gboolean
run (GError **error)
{
  g_auto(Player) player = { .box = llm_mailbox_new (), .ledger = llm_ledger_new () };
  g_autoptr(GPtrArray) tasks = NULL;
  g_autofree BenchMethod *methods = NULL;
  guint n_methods = opt_methods != NULL ? g_strv_length (opt_methods) : 0, n_active = 0;
  guint64 keep;

  if (opt_model == NULL || opt_tasks == NULL || n_methods == 0 || opt_first < 0 || opt_prompts < 1
      || opt_tokens < 2 || opt_runs < 1 || opt_limit < 0)
    return bench_fail_usage (error, "draft-play needs --model, --tasks, --method, and numbers that "
                                    "make sense");
  methods = g_new0 (BenchMethod, n_methods);
  for (guint i = 0; i < n_methods; i++)
    {
      if (!bench_method_parse (opt_methods[i], &methods[i], error))
        return FALSE;
      if (opt_draft == NULL && (methods[i].kind == BENCH_MODEL || methods[i].kind == BENCH_BIG_LITTLE))
        return bench_fail_usage (error, "That method needs --draft");
      n_active += methods[i].kind == BENCH_ACTIVE || methods[i].kind == BENCH_TARGET;
    }
  tasks = bench_tasks_read (opt_tasks, (guint) opt_first, (guint) opt_prompts, error);
  if (tasks == NULL || !load (&player, n_active, error))
    return FALSE;
  player.records = g_new0 (LlmDraftRecord *, n_methods);
  for (guint i = 0; i < n_methods; i++)
    player.records[i] = llm_draft_record_new ();
  keep = opt_limit > 0 ? choose_keep (&player, count_longest (&player, tasks)) : G_MAXUINT64;
  llm_executor_keep_weights (player.executor, keep);
  printf ("{\"weights\":%" G_GUINT64_FORMAT ",\"keep\":%" G_GUINT64_FORMAT ",\"draft\":%"
          G_GUINT64_FORMAT "}\n", player.bytes, MIN (keep, player.bytes),
          player.draft != NULL ? llm_draft_model_get_bytes (player.draft) : 0);
  fflush (stdout);
  return play (&player, tasks, methods, error);
}

int
bench_draft_play (int    argc,
                  char **argv)
{
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GError) error = NULL;

  g_option_context_add_main_entries (context, entries, NULL);
  if (g_option_context_parse (context, &argc, &argv, &error) && run (&error))
    return 0;
  g_printerr ("llmsvc-bench: %s\n", error->message);
  return error->domain == G_OPTION_ERROR ? 2 : 1;
}
