/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An engine with the shipped model and functions that wait for its answers, for
 * the tests of the façade. They assert what is not what they test. */

#pragma once

#include "accounts/llm-db.h"
#include "decoding/llm-buffer-sink.h"
#include "engine/llm-engine.h"

typedef struct
{
  char *state;          /* folder */
  LlmEngine *engine;
  LlmCaller *caller;
} Fixture;

/* An answer under way. */
typedef struct
{
  LlmSink *sink;
  LlmGeneration *generation;  /* (nullable) */
  char *text;
  GVariant *results;
  GError *error;
  gboolean is_finished;
} Answer;

#define WAIT_FOR(condition) \
  while (!(condition))      \
    iterate ()

/* Runs the main loop until something happened, or a moment: what a thread did may be waited for. */
void iterate (void);

#define GREEDY "{'temperature': <0.0>, 'max-tokens': <uint32 24>}"

/* At a call that takes a moment, and may end while this process waits for a processor; most are met
 * at once. */
#define MAX_ATTEMPTS 30

#define SYSTEM_BYTES (G_GUINT64_CONSTANT (8192) << 20)
/* A sixteenth of the machine, which is left to others. */
#define SYSTEM_RESERVE (SYSTEM_BYTES / 16)
/* Has the made-up system in the folder @root say so. */
void put_available (const char *root, guint64 bytes);

/* Like those of start_engine(), but for what callers change. */
LlmSettings *new_settings (const char *state, guint n_threads);
LlmEngine *start_engine_with (LlmSettings *settings);
LlmEngine *start_engine (const char *state, guint n_threads);
void stop_engine (LlmEngine **engine);
void set_up (Fixture *fixture, gconstpointer data);
/* The same, but contexts stay as they were computed: for comparisons of texts that must not depend
 * on whether a chunk was compressed between two calls yet. */
void set_up_floats (Fixture *fixture, gconstpointer data);
void tear_down (Fixture *fixture, gconstpointer data);
/* Runs one transaction and waits. @data: not freed. */
gboolean run_db (LlmDb *db, LlmDbFunc func, gpointer data, GError **error);
/* Puts a reference of the result where @data points. */
void on_result (GObject *source, GAsyncResult *result, gpointer data);
/* Options in GVariant's text format. */
LlmCallOptions *parse_options (const char *text, LlmsvcCall call);
GVariant *user_message (const char *text);
Answer *answer_new (void);
void answer_free (Answer *answer);
Answer *begin_complete (Fixture *fixture, const char *prompt, const char *options);
Answer *begin_ask (Fixture *fixture,
                   LlmContext *context,
                   const char *prompt,
                   const char *options);
/* Without a message, for the option `continue`; waits for its end. */
Answer *go_on (Fixture *fixture, LlmContext *context, const char *options);
char *complete (Fixture *fixture, const char *prompt, const char *options);
char *ask (Fixture *fixture, LlmContext *context, const char *prompt, const char *options);
LlmContext *create (Fixture *fixture, const char *options);
LlmContext *open_context (Fixture *fixture,
                          const char *name,
                          const char *options,
                          GError **error);
GVariant *get_messages (LlmContext *context);
gsize count_messages (LlmContext *context);
gboolean rollback (LlmContext *context, guint turns, GError **error);
guint64 trim (Fixture *fixture, const char *level);
/* Of a loaded model: steps cost the same with any rows from now on, as far as the executor knows.
 * Guesses pay, as long as not many steps were measured again. */
void make_rows_free (Fixture *fixture);
gboolean set_budget (Fixture *fixture, guint64 bytes, GError **error);
/* What contexts may take, while it runs. */
gboolean set_ratio (Fixture *fixture, guint percent, GError **error);
/* What an append or a count of tokens comes to. */
gboolean take_count (GAsyncResult *result, guint *n, GError **error);
/* (transfer full): `a{sv}` */
GVariant *read_statistics (LlmEngine *engine);
guint64 get_statistic (LlmEngine *engine, const char *key);
/* (transfer full): of its KV cache. */
LlmContextMemory *get_memory (LlmContext *context);
guint result_uint (const Answer *answer, const char *key);
const char *result_string (const Answer *answer, const char *key);

/* (nullable): the mapping of the prepared copy of the weights in this process, once the file has its
 * name, which is @path (out). */
guint8 *find_prepared_copy (gsize *size, char **path);
/* Bytes there that the system has in memory, of this process or of none. */
guint64 count_in_memory (guint8 *data, gsize size);

/* A sink that says that it is full as long as @is_full. */
typedef struct
{
  LlmSink parent;
  GString *text;
  char *waits_for;      /* (nullable): as progress said last */
  gboolean is_full;
  gboolean is_finished;
} TestSink;

TestSink *test_sink_new (void);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TestSink, llm_sink_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Answer, answer_free)
