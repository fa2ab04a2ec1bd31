/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From the text of a script to its rules. A script with anything in it that is
 * not known is refused: a misspelt key would otherwise be a test of nothing. */

#define G_LOG_DOMAIN "llm-mock"

#include "decoding/llm-script-private.h"

#include <string.h>

#include "common/llmsvc-error.h"
#include "decoding/llm-script-json.h"

#define VERSION     1
#define MAX_RULES   10000
#define MAX_PIECES  10000
#define MAX_PHASES  100
#define MAX_MS      (60 * 60 * 1000)
#define MAX_COUNT   1000000
#define MAX_PATTERN 1024
#define MIN_CTX     64
#define MAX_CTX     131072
#define DEFAULT_CTX 32768
/* Those that a service sends: the others are the client library's own. */
#define N_ERRORS (LLMSVC_ERROR_STORAGE + 1)
/* Steps of matching one prompt; main waits for them. */
#define PATTERN_LIMITS "(*LIMIT_MATCH=200000)(*LIMIT_DEPTH=2000)"

/* --- a rule --- */

static gboolean
read_pattern (LlmScriptReader *reader,
              const char      *place,
              LlmScriptRule   *rule,
              const char      *text)
{
  g_autofree char *own = llm_script_make_place (place, "pattern");
  g_autofree char *limited = g_strconcat (PATTERN_LIMITS, text, NULL);
  g_autoptr(GError) local = NULL;

  if (strlen (text) > MAX_PATTERN)
    return llm_script_fail (reader, own, "the pattern has %zu bytes, up to %d are allowed",
                            strlen (text), MAX_PATTERN);
  /* alone first, so that an error counts the characters that are there */
  rule->pattern = g_regex_new (text, 0, 0, &local);
  if (rule->pattern != NULL)
    {
      g_regex_unref (rule->pattern);
      rule->pattern = g_regex_new (limited, 0, 0, &local);
    }
  if (rule->pattern == NULL)
    return llm_script_fail (reader, own, "%s", local->message);
  return TRUE;
}

static gboolean
read_when (LlmScriptReader *reader,
           const char      *place,
           JsonNode        *node,
           LlmScriptRule   *rule)
{
  static const char *const keys[] = {
    "prompt", "contains", "pattern", "system-contains", "turn", "start", NULL,
  };
  JsonObject *when = llm_script_read_object (reader, place, node, keys);
  g_autofree char *pattern = NULL;

  return when != NULL &&
         llm_script_get_text (reader, place, when, "prompt", &rule->prompt) &&
         llm_script_get_text (reader, place, when, "contains", &rule->contains) &&
         llm_script_get_text (reader, place, when, "pattern", &pattern) &&
         (pattern == NULL || read_pattern (reader, place, rule, pattern)) &&
         llm_script_get_text (reader, place, when, "system-contains", &rule->system) &&
         llm_script_get_uint (reader, place, when, "turn", 1, MAX_COUNT, &rule->turn) &&
         llm_script_get_uint (reader, place, when, "start", 1, MAX_COUNT, &rule->start);
}

static gboolean
read_pieces (LlmScriptReader *reader,
             const char      *place,
             JsonNode        *node,
             LlmScriptRule   *rule)
{
  JsonArray *list = llm_script_read_list (reader, place, node, MAX_PIECES);
  g_autoptr(GStrvBuilder) pieces = g_strv_builder_new ();

  for (guint i = 0; list != NULL && i < json_array_get_length (list); i++)
    {
      g_autofree char *own = g_strdup_printf ("%s[%u]", place, i);
      const char *text = llm_script_read_text (reader, own, json_array_get_element (list, i));

      if (text == NULL)
        return FALSE;
      g_strv_builder_add (pieces, text);
    }
  rule->pieces = list != NULL ? g_strv_builder_end (pieces) : NULL;
  return list != NULL;
}

static gboolean
read_error (LlmScriptReader *reader,
            const char      *place,
            JsonNode        *node,
            LlmScriptRule   *rule)
{
  static const char *const keys[] = { "name", "message", NULL };
  const char *names[N_ERRORS + 1] = { NULL };
  JsonObject *object = llm_script_read_object (reader, place, node, keys);
  g_autofree char *message = NULL;
  guint code = N_ERRORS;

  for (guint i = 0; i < N_ERRORS; i++)
    names[i] = llmsvc_error_get_name (i);
  if (object == NULL || !llm_script_get_choice (reader, place, object, "name", names, &code) ||
      !llm_script_get_text (reader, place, object, "message", &message))
    return FALSE;
  if (code == N_ERRORS || message == NULL)
    return llm_script_fail (reader, place, "an error has a “name” and a “message”");
  rule->end = LLM_REPLY_ERROR;
  rule->error = g_error_new_literal (LLMSVC_ERROR, code, message);
  return TRUE;
}

/* What is there, but could do nothing beside what else is there. */
static gboolean
check_rule (LlmScriptReader *reader,
            const char      *place,
            JsonObject      *object,
            LlmScriptRule   *rule)
{
  static const char *const of_text[] = {
    "delay-ms", "piece-delay-ms", "finish-reason", "exit", NULL,
  };

  if (rule->pieces == NULL && rule->error == NULL)
    return llm_script_fail (reader, place, "a rule has a “text”, or “pieces”, or an “error”");
  for (guint i = 0; rule->pieces == NULL && of_text[i] != NULL; i++)
    if (json_object_has_member (object, of_text[i]))
      return llm_script_fail (reader, place,
                              "“%s” needs a “text” or “pieces”: an error without them "
                              "refuses the call at once",
                              of_text[i]);
  if (rule->error != NULL && json_object_has_member (object, "finish-reason"))
    return llm_script_fail (reader, place,
                            "an answer that ends with an “error” has no “finish-reason”");
  if (rule->error != NULL && json_object_has_member (object, "exit"))
    return llm_script_fail (reader, place,
                            "only one of “error” and “exit” can be at the end of an answer");
  if (json_object_has_member (object, "piece-delay-ms") &&
      !json_object_has_member (object, "pieces"))
    return llm_script_fail (reader, place, "“piece-delay-ms” needs “pieces”");
  return TRUE;
}

static gboolean
fill_rule (LlmScriptReader *reader,
           const char      *place,
           JsonNode        *node,
           LlmScriptRule   *rule)
{
  static const char *const keys[] = {
    "when", "times", "text", "pieces", "delay-ms", "piece-delay-ms", "finish-reason", "error",
    "exit", NULL,
  };
  static const char *const ends[] = { "stop", "length", "context-full", NULL };
  static const char *const exits[] = { "before-keep", "after-keep", NULL };
  JsonObject *object = llm_script_read_object (reader, place, node, keys);
  g_autofree char *when_place = llm_script_make_place (place, "when");
  g_autofree char *pieces_place = llm_script_make_place (place, "pieces");
  g_autofree char *error_place = llm_script_make_place (place, "error");
  char *text = NULL;
  guint end = LLM_REPLY_STOP;
  guint exit = G_MAXUINT;

  if (object == NULL)
    return FALSE;
  if (json_object_has_member (object, "text") && json_object_has_member (object, "pieces"))
    return llm_script_fail (reader, place, "only one of “text” and “pieces” can be");
  if (!llm_script_get_text (reader, place, object, "text", &text))
    return FALSE;
  if (text != NULL)
    {
      rule->pieces = g_new0 (char *, 2);
      rule->pieces[0] = text;
    }

  if ((json_object_has_member (object, "when") &&
       !read_when (reader, when_place, json_object_get_member (object, "when"), rule)) ||
      (json_object_has_member (object, "pieces") &&
       !read_pieces (reader, pieces_place, json_object_get_member (object, "pieces"), rule)) ||
      !llm_script_get_uint (reader, place, object, "times", 1, MAX_COUNT, &rule->times) ||
      !llm_script_get_uint (reader, place, object, "delay-ms", 0, MAX_MS, &rule->delay_ms) ||
      !llm_script_get_uint (reader, place, object, "piece-delay-ms", 0, MAX_MS,
                            &rule->piece_delay_ms) ||
      !llm_script_get_choice (reader, place, object, "finish-reason", ends, &end) ||
      !llm_script_get_choice (reader, place, object, "exit", exits, &exit))
    return FALSE;
  rule->end = (LlmReplyEnd) end;
  rule->exit = exit == 0 ? LLM_REPLY_EXIT_BEFORE_KEEP
               : exit == 1 ? LLM_REPLY_EXIT_AFTER_KEEP
                           : LLM_REPLY_STAY;
  if (json_object_has_member (object, "error") &&
      !read_error (reader, error_place, json_object_get_member (object, "error"), rule))
    return FALSE;
  return check_rule (reader, place, object, rule);
}

static gboolean
read_rules (LlmScriptReader *reader,
            JsonNode        *node,
            LlmScript       *script)
{
  JsonArray *list = llm_script_read_list (reader, "rules", node, MAX_RULES);

  for (guint i = 0; list != NULL && i < json_array_get_length (list); i++)
    {
      g_autofree char *place = g_strdup_printf ("rules[%u]", i);
      LlmScriptRule *rule = g_new0 (LlmScriptRule, 1);

      g_ptr_array_add (script->rules, rule);
      if (!fill_rule (reader, place, json_array_get_element (list, i), rule))
        return FALSE;
    }
  return list != NULL;
}

/* --- availability --- */

static gboolean
read_phase (LlmScriptReader *reader,
            const char      *place,
            JsonNode        *node,
            gboolean         is_last,
            LlmScriptPhase  *phase)
{
  static const char *const keys[] = { "state", "reason", "for-ms", NULL };
  static const char *const states[] = { "ready", "loading", "no-model", "failed", NULL };
  JsonObject *object = llm_script_read_object (reader, place, node, keys);
  guint state = G_MAXUINT;

  if (object == NULL || !llm_script_get_choice (reader, place, object, "state", states, &state) ||
      !llm_script_get_text (reader, place, object, "reason", &phase->reason) ||
      !llm_script_get_uint (reader, place, object, "for-ms", 1, MAX_MS, &phase->for_ms))
    return FALSE;
  if (state == G_MAXUINT)
    return llm_script_fail (reader, place, "the key “state” is missing");
  phase->state = (LlmScriptState) state;
  if ((phase->state == LLM_SCRIPT_FAILED) != (phase->reason != NULL))
    return llm_script_fail (reader, place, "the state “failed” has a “reason”, and no other has");
  if (is_last && phase->for_ms != 0)
    return llm_script_fail (reader, place, "the last state stays: it has no “for-ms”");
  if (!is_last && phase->for_ms == 0)
    return llm_script_fail (reader, place,
                            "the key “for-ms” is missing: only the last state stays");
  return TRUE;
}

static gboolean
read_phases (LlmScriptReader *reader,
             JsonNode        *node,
             LlmScript       *script)
{
  JsonArray *list = llm_script_read_list (reader, "availability", node, MAX_PHASES);

  if (list == NULL)
    return FALSE;
  g_array_set_size (script->phases, json_array_get_length (list));
  for (guint i = 0; i < script->phases->len; i++)
    {
      g_autofree char *place = g_strdup_printf ("availability[%u]", i);

      if (!read_phase (reader, place, json_array_get_element (list, i),
                       i + 1 == script->phases->len,
                       &g_array_index (script->phases, LlmScriptPhase, i)))
        return FALSE;
    }
  return TRUE;
}

/* --- all of it --- */

gboolean
llm_script_read (LlmScript   *self,
                 const char  *text,
                 gsize        length,
                 GError     **error)
{
  static const char *const keys[] = {
    "version", "context-length", "availability", "rules", NULL,
  };
  const LlmScriptPhase ready = { LLM_SCRIPT_READY, NULL, 0 };
  LlmScriptReader reader = { self->path, error };
  g_autoptr(JsonNode) root = llm_script_parse (&reader, text, length);
  JsonObject *object;
  guint version = 0;

  if (root == NULL)
    return FALSE;
  object = llm_script_read_object (&reader, "", root, keys);
  if (object == NULL ||
      !llm_script_get_uint (&reader, "", object, "version", 1, MAX_COUNT, &version))
    return FALSE;
  if (version == 0)
    return llm_script_fail (&reader, "",
                            "the key “version” is missing; this service knows version %d", VERSION);
  if (version != VERSION)
    return llm_script_fail (&reader, "version",
                            "the script is of version %u, this service knows version %d", version,
                            VERSION);
  if (!json_object_has_member (object, "rules"))
    return llm_script_fail (&reader, "", "the key “rules” is missing: a list of what to answer");

  self->n_ctx = DEFAULT_CTX;
  if (!llm_script_get_uint (&reader, "", object, "context-length", MIN_CTX, MAX_CTX, &self->n_ctx))
    return FALSE;
  if (!json_object_has_member (object, "availability"))
    g_array_append_val (self->phases, ready);
  else if (!read_phases (&reader, json_object_get_member (object, "availability"), self))
    return FALSE;
  return read_rules (&reader, json_object_get_member (object, "rules"), self);
}
