/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-peer.h"

#include <string.h>

#include <json-glib/json-glib.h>

BenchPeer *
bench_peer_new (const char  *command,
                GError     **error)
{
  g_auto(GStrv) arguments = NULL;
  BenchPeer *self;

  if (!g_shell_parse_argv (command, NULL, &arguments, error))
    return NULL;
  self = g_new0 (BenchPeer, 1);
  self->arguments = g_steal_pointer (&arguments);
  self->name = g_path_get_basename (command);
  return self;
}

void
bench_peer_free (BenchPeer *self)
{
  if (self == NULL)
    return;
  g_strfreev (self->arguments);
  g_free (self->name);
  g_free (self);
}

static gboolean
fail (GError    **error,
      BenchPeer  *self,
      const char *what)
{
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s: %s", self->name, what);
  return FALSE;
}

static void
add_number (GPtrArray  *words,
            const char *option,
            guint       number)
{
  g_ptr_array_add (words, g_strdup (option));
  g_ptr_array_add (words, g_strdup_printf ("%u", number));
}

static GPtrArray *
begin_words (BenchPeer  *self,
             const char *model,
             guint       depth,
             guint       n_threads)
{
  GPtrArray *words = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; self->arguments[i] != NULL; i++)
    g_ptr_array_add (words, g_strdup (self->arguments[i]));
  g_ptr_array_add (words, g_strdup ("-m"));
  g_ptr_array_add (words, g_strdup (model));
  add_number (words, "-t", n_threads);
  if (depth > 0)
    add_number (words, "-d", depth);
  g_ptr_array_add (words, g_strdup ("-o"));
  g_ptr_array_add (words, g_strdup ("json"));
  return words;
}

/* (transfer full): what the program printed. */
static char *
run_program (BenchPeer  *self,
             GPtrArray  *words,
             GError    **error)
{
  g_autofree char *text = NULL;
  g_autoptr(GError) exit_error = NULL;
  int status;

  g_ptr_array_add (words, NULL);
  if (!g_spawn_sync (NULL, (char **) words->pdata, NULL,
                     G_SPAWN_SEARCH_PATH | G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL, &text, NULL,
                     &status, error))
    return NULL;
  if (!g_spawn_check_wait_status (status, &exit_error))
    {
      fail (error, self, exit_error->message);
      return NULL;
    }
  return g_steal_pointer (&text);
}

static gint64
get_number (JsonObject *object,
            const char *name)
{
  JsonNode *node = json_object_get_member (object, name);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) ? json_node_get_int (node) : -1;
}

/* One start of the program; writes what it was asked for to @times. */
static gboolean
run_once (BenchPeer       *self,
          const char      *model,
          guint            n_prompt,
          guint            n_gen,
          guint            depth,
          guint            n_sequences,
          guint            n_threads,
          BenchPeerTimes  *times,
          GError         **error)
{
  g_autoptr(GPtrArray) words = begin_words (self, model, depth, n_threads);
  g_autofree char *text = NULL;
  g_autoptr(JsonNode) root = NULL;
  JsonArray *results;

  add_number (words, "-p", n_prompt);
  add_number (words, "-n", n_gen);
  add_number (words, "-r", 1);
  if (n_sequences > 1)
    add_number (words, "--batch", n_sequences);
  text = run_program (self, words, error);
  if (text == NULL)
    return FALSE;
  root = json_from_string (text, error);
  if (root == NULL)
    return FALSE;
  if (!JSON_NODE_HOLDS_ARRAY (root))
    return fail (error, self, "it printed no JSON array");

  results = json_node_get_array (root);
  for (guint i = 0; i < json_array_get_length (results); i++)
    {
      JsonNode *node = json_array_get_element (results, i);
      JsonObject *result = JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
      gint64 ns = result != NULL ? get_number (result, "avg_ns") : -1;

      if (ns <= 0)
        continue;
      if (depth > 0 && get_number (result, "n_depth") != depth)
        return fail (error, self, "it does not say that it measured at this depth (n_depth)");
      if (get_number (result, "n_gen") > 0 && n_sequences > 1 &&
          get_number (result, "n_seqs") != n_sequences)
        return fail (error, self, "it does not say that it decoded several sequences (n_seqs)");
      if (n_prompt > 0 && get_number (result, "n_prompt") == n_prompt &&
          get_number (result, "n_gen") == 0)
        times->prompt_seconds = (double) ns / 1e9;
      else if (n_gen > 0 && get_number (result, "n_gen") == n_gen &&
               get_number (result, "n_prompt") == 0)
        times->decode_seconds = (double) ns / 1e9;
    }
  if ((n_prompt > 0 && times->prompt_seconds <= 0) || (n_gen > 0 && times->decode_seconds <= 0))
    return fail (error, self, "its JSON lacks a result");
  return TRUE;
}

gboolean
bench_peer_run (BenchPeer       *self,
                const char      *model,
                guint            n_prompt,
                guint            n_gen,
                guint            depth,
                guint            n_sequences,
                guint            n_threads,
                BenchPeerTimes  *times,
                GError         **error)
{
  *times = (BenchPeerTimes) { 0 };
  if (n_sequences == 1)
    return run_once (self, model, n_prompt, n_gen, depth, 1, n_threads, times, error);

  /* Several sequences mean decoding alone. */
  return (n_prompt == 0 ||
          run_once (self, model, n_prompt, 0, depth, 1, n_threads, times, error)) &&
         (n_gen == 0 ||
          run_once (self, model, 0, n_gen, depth, n_sequences, n_threads, times, error));
}

gboolean
bench_peer_load_context (BenchPeer   *self,
                         const char  *model,
                         guint        depth,
                         guint        n_threads,
                         guint64     *bytes,
                         double      *seconds,
                         GError     **error)
{
  g_autoptr(GPtrArray) words = begin_words (self, model, depth, n_threads);
  g_autofree char *text = run_program (self, words, error);
  g_autoptr(JsonNode) root = NULL;
  JsonObject *result;

  if (text == NULL)
    return FALSE;
  root = json_from_string (text, error);
  if (root == NULL)
    return FALSE;
  if (!JSON_NODE_HOLDS_OBJECT (root))
    return fail (error, self, "it printed no JSON object");
  result = json_node_get_object (root);
  if (get_number (result, "n_depth") != depth || get_number (result, "bytes") <= 0 ||
      get_number (result, "load_ns") <= 0)
    return fail (error, self, "its JSON lacks n_depth, bytes or load_ns");
  *bytes = (guint64) get_number (result, "bytes");
  *seconds = (double) get_number (result, "load_ns") / 1e9;
  return TRUE;
}
