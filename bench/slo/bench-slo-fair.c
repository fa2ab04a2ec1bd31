/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Users beside one who floods the service, in an engine in this process: for slo/fair.py, which
 * sums up the lines that this prints. docs/benchmarks/slo.md tells how.
 */

#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench-random.h"
#include "engine/llm-engine.h"

/* An ordinary call: as many words, about two tokens each, and tokens of the answer. */
#define LEAST_WORDS 32
#define MOST_WORDS 64
#define LEAST_OUTPUT 64
#define MOST_OUTPUT 128
/* One of the flood. */
#define FLOOD_CALLS 16
#define FLOOD_WORDS 500
#define FLOOD_OUTPUT 16

/* Of a run, before calls count, of the time in which they do. */
#define WARM_PART 0.3
#define FIRST_UID 1000
#define US 1e6

typedef struct _Call Call;

typedef struct
{
  /* what is asked for */
  const char *slo_class;
  const char *flood_class; /* of the case */
  double seconds;          /* of one run that count */
  guint n_threads;
  guint64 seed;
  guint divisor;           /* of words and tokens */

  LlmEngine *engine;
  GVariant *bias;          /* a{ud}: no answer ends early */
  guint n_runs;            /* so far: texts differ */

  /* of one run */
  int number;              /* of the case; -1: nothing counts */
  guint side;              /* 0: ordinary, 1: one floods */
  GPtrArray *calls;        /* (element-type Call) (unowned): under way */
  gint64 count_us;         /* calls that begin from then on count */
  gboolean is_over;
  GMainLoop *loop;         /* ends with the last call */
  GError *error;           /* (nullable): of the first that failed */
} Play;

/* What one caller does again and again. */
typedef struct
{
  Play *play;              /* (unowned) */
  guint user;
  guint caller;            /* of the user's */
  gboolean floods;
  guint number;            /* of the next call */
} Caller;

/* A call under way is its sink, which says when text comes. */
struct _Call
{
  LlmSink parent;
  Caller *caller;          /* (unowned) */
  LlmGeneration *generation; /* (nullable) */
  gint64 begin_us;
  gint64 first_us;         /* of the first text; 0 before */
  gint64 last_us;
};

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Call, llm_sink_unref)

static void begin_call (Caller *caller);

/* --- calls --- */

static gboolean
call_accept (LlmSink    *sink,
             const char *text,
             gsize       length)
{
  Call *self = (Call *) sink;

  self->last_us = g_get_monotonic_time ();
  if (self->first_us == 0)
    self->first_us = self->last_us;
  return TRUE;
}

static void
print_call (Call     *self,
            GVariant *results)
{
  const Play *play = self->caller->play;
  guint n_prompt = 0, n_output = 0;

  g_variant_lookup (results, "prompt-tokens", "u", &n_prompt);
  g_variant_lookup (results, "output-tokens", "u", &n_output);
  if (play->number >= 0 && self->first_us > 0 && n_output > 1)
    printf ("call %d %u %u %.6f %.6f %u\n", play->number, play->side, self->caller->user,
            (double) (self->first_us - self->begin_us) / 1000,
            (n_output - 1) * US / (double) MAX (self->last_us - self->first_us, 1), n_prompt);
}

/* After this nothing more is heard of the call. */
static void
end_call (Call         *self,
          GVariant     *results,
          const GError *error)
{
  Caller *caller = self->caller;
  Play *play = caller->play;

  g_ptr_array_remove (play->calls, self);
  if (error != NULL && !play->is_over && play->error == NULL)
    {
      play->error = g_error_copy (error);
      play->is_over = TRUE;
    }
  if (results != NULL && !play->is_over && self->begin_us >= play->count_us)
    print_call (self, results);
  if (!play->is_over)
    begin_call (caller);
  if (play->calls->len == 0)
    g_main_loop_quit (play->loop);
}

static void
call_finish (LlmSink      *sink,
             GVariant     *results,
             const GError *error)
{
  end_call ((Call *) sink, results, error);
}

static void
call_clear (LlmSink *sink)
{
  g_clear_object (&((Call *) sink)->generation);
}

static void
on_completing (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  g_autoptr(Call) self = data;
  g_autoptr(GError) error = NULL;

  self->generation = g_task_propagate_pointer (G_TASK (result), &error);
  if (self->generation == NULL)
    end_call (self, NULL, error);
  else if (self->caller->play->is_over)
    llm_generation_cancel_async (self->generation, NULL, NULL);
}

/* Lengths are the same in all runs of a seed, texts differ, so that no prefix is cached. */
static char *
make_text (Play   *play,
           Caller *caller,
           guint   n_words)
{
  guint64 which = ((guint64) play->n_runs << 40) + ((guint64) caller->user << 32)
                  + ((guint64) caller->caller << 24) + caller->number;
  BenchRandom random = bench_random_derive (play->seed, which * 2);
  GString *text = g_string_sized_new (3 * n_words);

  for (guint i = 0; i < n_words; i++)
    {
      for (guint k = 0; k < 2; k++)
        g_string_append_c (text, (char) bench_random_range (&random, 'a', 'z'));
      g_string_append_c (text, ' ');
    }
  return g_string_free (text, FALSE);
}

static LlmCallOptions *
make_options (Play       *play,
              const char *slo_class,
              guint       n_output,
              GError    **error)
{
  static const char *const features[] = { NULL };
  g_autoptr(GVariant) options = NULL;
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "slo", "s", slo_class);
  g_variant_dict_insert (&dict, "temperature", "d", 0.0);
  g_variant_dict_insert (&dict, "max-tokens", "u", n_output);
  g_variant_dict_insert_value (&dict, "logit-bias", play->bias);
  options = g_variant_ref_sink (g_variant_dict_end (&dict));
  return llm_call_options_parse (options, LLMSVC_CALL_COMPLETE, features, error);
}

static void
begin_call (Caller *caller)
{
  Play *play = caller->play;
  const char *slo_class = caller->floods ? play->flood_class : play->slo_class;
  guint divisor = play->divisor;
  BenchRandom random = bench_random_derive (play->seed,
                                            (((guint64) caller->user << 32) + caller->number) * 2
                                              + 1);
  guint n_words = caller->floods ? FLOOD_WORDS
                                 : bench_random_range (&random, LEAST_WORDS, MOST_WORDS);
  guint n_output = caller->floods ? FLOOD_OUTPUT
                                  : bench_random_range (&random, LEAST_OUTPUT, MOST_OUTPUT);
  g_autofree char *text = make_text (play, caller, MAX (n_words / divisor, 1));
  g_autofree char *app = g_strdup_printf ("org.llm.bench.User%u", caller->user);
  g_autofree char *connection = g_strdup_printf (":1.%u", caller->user + 1);
  g_autoptr(LlmCaller) who = llm_caller_new (FIRST_UID + caller->user, app, connection,
                                             LLM_CALLER_HOST);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmCallOptions) options = make_options (play, slo_class, MAX (n_output / divisor, 4),
                                                    &error);
  static const LlmSinkClass class = { call_accept, call_finish, call_clear };
  g_autoptr(Call) call = NULL;

  g_assert_no_error (error);
  caller->number++;
  call = llm_sink_new (&class, sizeof *call);
  call->caller = caller;
  call->begin_us = g_get_monotonic_time ();
  g_ptr_array_add (play->calls, call);
  llm_engine_complete_async (play->engine, who, text, options, &call->parent, on_completing,
                             llm_sink_ref (call));
}

/* --- runs --- */

static gboolean
on_time_over (gpointer data)
{
  Play *play = data;

  play->is_over = TRUE;
  for (guint i = 0; i < play->calls->len; i++)
    {
      Call *call = g_ptr_array_index (play->calls, i);

      if (call->generation != NULL)
        llm_generation_cancel_async (call->generation, NULL, NULL);
    }
  return G_SOURCE_REMOVE;
}

static double
get_statistic (Play       *play,
               const char *key)
{
  g_autoptr(GVariant) statistics = NULL;
  GVariantBuilder builder;
  guint64 value = 0;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  llm_engine_add_statistics (play->engine, &builder);
  statistics = g_variant_ref_sink (g_variant_builder_end (&builder));
  g_variant_lookup (statistics, key, "t", &value);
  return (double) value;
}

/* Plays one run of @n_users, and waits until nothing of it is left. @word: of the line with its
 * totals. */
static gboolean
play_run (Play       *play,
          int         number,
          guint       n_users,
          guint       side,
          const char *word)
{
  const guint n_calls = n_users + (side == 1 ? FLOOD_CALLS - 1 : 0);
  g_autofree Caller *callers = g_new0 (Caller, n_calls);
  double n_rows = get_statistic (play, "rows"), n_read = get_statistic (play, "prefill-tokens");
  gint64 begin_us = g_get_monotonic_time ();

  play->number = number;
  play->side = side;
  play->is_over = FALSE;
  play->n_runs++;
  play->count_us = begin_us + (gint64) (WARM_PART * play->seconds * US);
  g_timeout_add ((guint) ((1 + WARM_PART) * play->seconds * 1000), on_time_over, play);
  for (guint i = 0; i < n_calls; i++)
    {
      /* the last user has all calls of the flood */
      guint user = MIN (i, n_users - 1);

      callers[i] = (Caller) { play, user, i - user, side == 1 && user + 1 == n_users, 0 };
      begin_call (&callers[i]);
    }
  g_main_loop_run (play->loop);
  if (play->error != NULL)
    return FALSE;
  if (number >= 0)
    printf ("%s %d %u %.6f %.0f %.0f\n", word, number, side,
            (double) (g_get_monotonic_time () - begin_us) / US,
            get_statistic (play, "rows") - n_rows, get_statistic (play, "prefill-tokens") - n_read);
  fflush (stdout);
  return TRUE;
}

/* Both sides in turns, which of them first in turns as well. @text: USERS:CLASS, of the flood. */
static gboolean
play_case (Play       *play,
           int         number,
           const char *text,
           guint       n_rounds)
{
  guint n_users = (guint) atoi (text);

  play->flood_class = strchr (text, ':') + 1;
  for (guint i = 0; i < 2 * n_rounds; i++)
    if (!play_run (play, number, n_users, (i / 2 + i) % 2, i + 1 < 2 * n_rounds ? "run" : "last"))
      return FALSE;
  return TRUE;
}

static LlmEngine *
start_engine (const char *model,
              const char *cache,
              guint       n_threads)
{
  LlmSettings *settings = llm_settings_new ();
  LlmEngine *engine;

  settings->model_file = g_strdup (model);
  settings->cache_folder = g_strdup (cache);
  settings->n_threads = n_threads;
  settings->reacts_to_pressure = FALSE;
  /* the flood is never refused: that would be less of it */
  settings->overload_factor = 0;
  settings->quotas.max_calls = settings->quotas.max_queue = settings->quotas.max_apps = 100000;
  settings->quotas.max_rate = 0;
  engine = llm_engine_new (settings);
  llm_engine_start (engine);
  return engine;
}

/* @text: a{ud} as text. */
static GVariant *
parse_bias (const char *text)
{
  g_autoptr(GError) error = NULL;
  GVariant *bias = g_variant_parse (G_VARIANT_TYPE ("a{ud}"), text, NULL, NULL, &error);

  g_assert_no_error (error);
  return bias;
}

/* slo-fair MODEL CACHE BIAS CLASS SECONDS ROUNDS THREADS SEED DIVISOR USERS:FLOOD-CLASS… */
int
bench_slo_fair (int    argc,
                char **argv)
{
  g_autoptr(GPtrArray) calls = g_ptr_array_new ();
  Play play = { .calls = calls };
  gboolean is_done;

  if (argc < 11)
    return 2;
  play.bias = parse_bias (argv[3]);
  play.slo_class = argv[4];
  play.seconds = g_ascii_strtod (argv[5], NULL);
  play.n_threads = (guint) atoi (argv[7]);
  play.seed = g_ascii_strtoull (argv[8], NULL, 10);
  play.divisor = (guint) atoi (argv[9]);
  play.engine = start_engine (argv[1], argv[2], play.n_threads);
  play.loop = g_main_loop_new (NULL, FALSE);
  /* what the engine learns of the machine, and does for the first time only */
  is_done = play_run (&play, -1, 2, 0, NULL);
  for (int i = 10; i < argc && is_done; i++)
    is_done = play_case (&play, i - 10, argv[i], (guint) atoi (argv[6]));
  if (!is_done)
    g_printerr ("llmsvc-bench: %s\n", play.error->message);
  g_clear_error (&play.error);
  llm_engine_stop (play.engine);
  g_object_unref (play.engine);
  g_main_loop_unref (play.loop);
  g_variant_unref (play.bias);
  return is_done ? 0 : 1;
}
