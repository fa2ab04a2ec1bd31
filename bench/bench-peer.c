/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-peer.h"

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
  g_strfreev (self->arguments);
  g_free (self->name);
  g_free (self);
}

GPtrArray *
bench_peers_new (char   **commands,
                 GError **error)
{
  g_autoptr(GPtrArray) peers = g_ptr_array_new_with_free_func ((GDestroyNotify) bench_peer_free);

  for (guint i = 0; commands != NULL && commands[i] != NULL; i++)
    {
      BenchPeer *peer = bench_peer_new (commands[i], error);

      if (peer == NULL)
        return NULL;
      g_ptr_array_add (peers, peer);
    }
  return g_steal_pointer (&peers);
}

static gboolean
fail (GError    **error,
      BenchPeer  *self,
      const char *what)
{
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s: %s", self->name, what);
  return FALSE;
}

/* (transfer full): the JSON that the program printed; @more: options that hold no space. */
static JsonNode *
run_program (BenchPeer   *self,
             const char  *model,
             guint        depth,
             guint        n_threads,
             const char  *more,
             GError     **error)
{
  g_autoptr(GString) line = g_string_new (NULL);
  g_autoptr(GStrvBuilder) builder = g_strv_builder_new ();
  g_auto(GStrv) options = NULL;
  g_auto(GStrv) words = NULL;
  g_autofree char *text = NULL;
  g_autoptr(GError) exit_error = NULL;
  int status;

  g_string_printf (line, "-t %u", n_threads);
  if (depth > 0)
    g_string_append_printf (line, " -d %u", depth);
  g_string_append_printf (line, " -o json%s", more);
  options = g_strsplit (line->str, " ", -1);
  g_strv_builder_addv (builder, (const char **) self->arguments);
  g_strv_builder_add_many (builder, "-m", model, NULL);
  g_strv_builder_addv (builder, (const char **) options);
  words = g_strv_builder_end (builder);
  if (!g_spawn_sync (NULL, words, NULL, G_SPAWN_SEARCH_PATH | G_SPAWN_STDERR_TO_DEV_NULL, NULL,
                     NULL, &text, NULL, &status, error))
    return NULL;
  if (g_spawn_check_wait_status (status, &exit_error))
    return json_from_string (text, error);
  fail (error, self, exit_error->message);
  return NULL;
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
run_once (BenchPeer           *self,
          const BenchPeerTest *test,
          BenchPeerTimes      *times,
          GError             **error)
{
  g_autofree char *batch = test->n_sequences > 1
                             ? g_strdup_printf (" --batch %u", test->n_sequences) : g_strdup ("");
  g_autofree char *more = g_strdup_printf (" -p %u -n %u -r 1%s", test->n_prompt, test->n_gen,
                                           batch);
  g_autoptr(JsonNode) root = run_program (self, test->model, test->depth, test->n_threads, more,
                                          error);
  JsonArray *results;

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
      gint64 n_prompt, n_gen;

      if (ns <= 0)
        continue;
      n_prompt = get_number (result, "n_prompt");
      n_gen = get_number (result, "n_gen");
      if (test->depth > 0 && get_number (result, "n_depth") != test->depth)
        return fail (error, self, "it does not say that it measured at this depth (n_depth)");
      if (n_gen > 0 && test->n_sequences > 1 && get_number (result, "n_seqs") != test->n_sequences)
        return fail (error, self, "it does not say that it decoded several sequences (n_seqs)");
      if (test->n_prompt > 0 && n_prompt == test->n_prompt && n_gen == 0)
        times->prompt_seconds = (double) ns / 1e9;
      else if (test->n_gen > 0 && n_gen == test->n_gen && n_prompt == 0)
        times->decode_seconds = (double) ns / 1e9;
    }
  if ((test->n_prompt > 0 && times->prompt_seconds <= 0) ||
      (test->n_gen > 0 && times->decode_seconds <= 0))
    return fail (error, self, "its JSON lacks a result");
  return TRUE;
}

gboolean
bench_peer_run (BenchPeer           *self,
                const BenchPeerTest *test,
                BenchPeerTimes      *times)
{
  BenchPeerTest prompt = *test, decode = *test;
  g_autoptr(GError) error = NULL;

  *times = (BenchPeerTimes) { 0 };
  if (self->has_failed)
    return FALSE;
  /* Several sequences mean decoding alone. */
  if (test->n_sequences > 1)
    {
      prompt.n_gen = decode.n_prompt = 0;
      prompt.n_sequences = 1;
      self->has_failed = (test->n_prompt > 0 && !run_once (self, &prompt, times, &error)) ||
                         (test->n_gen > 0 && !run_once (self, &decode, times, &error));
    }
  else
    self->has_failed = !run_once (self, test, times, &error);
  if (self->has_failed)
    g_printerr ("llmsvc-bench: left out: %s\n", error->message);
  return !self->has_failed;
}

gboolean
bench_peer_load_context (BenchPeer   *self,
                         const char  *model,
                         guint        depth,
                         guint        n_threads,
                         double      *bytes,
                         double      *seconds,
                         GError     **error)
{
  g_autoptr(JsonNode) root = run_program (self, model, depth, n_threads, "", error);
  JsonObject *result;

  if (root == NULL)
    return FALSE;
  if (!JSON_NODE_HOLDS_OBJECT (root))
    return fail (error, self, "it printed no JSON object");
  result = json_node_get_object (root);
  *bytes = (double) get_number (result, "bytes");
  *seconds = (double) get_number (result, "load_ns") / 1e9;
  if (get_number (result, "n_depth") != depth || *bytes <= 0 || *seconds <= 0)
    return fail (error, self, "its JSON lacks n_depth, bytes or load_ns");
  return TRUE;
}
