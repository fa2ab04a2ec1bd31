/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From the text of a script to its rules. What an object may have is a table; each reader checks
 * its value and says in an error where the fault is and what is allowed. A script with anything in
 * it that is not known is refused: a misspelt key would otherwise be a test of nothing. */

#define G_LOG_DOMAIN "llm-mock"

#include "base/llm-fail.h"
#include "decoding/llm-script-private.h"

#include <json-glib/json-glib.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "common/llmsvc-json.h"

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

typedef struct _Field Field;

/* A value of the file, and where it is. */
typedef struct
{
  const char *path;   /* of the file: errors begin with it */
  GError **error;
  const char *place;  /* the way to it, as "rules[2].when"; "" is the whole file */
  JsonNode *node;
  const Field *field;
} Value;

/* FALSE with the error set when the value is wrong. */
typedef gboolean (*ReadFunc) (const Value *at,
                              gpointer     target);

/* A key that an object may have. Tables of them end with one without a key. */
struct _Field
{
  const char *key;
  ReadFunc read;
  gsize offset;               /* of the value in what the object is read into */
  guint min, max;             /* of a number, or (max) of the entries of a list */
  const char *const *names;   /* (nullable): to choose from; min stands for the first one */
  ReadFunc read_entry;        /* (nullable): of a list */
};

/* Always FALSE, so that what calls it can return it. */
static gboolean G_GNUC_PRINTF (2, 3)
fail (const Value *at,
      const char  *format,
      ...)
{
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  llm_fail (at->error, LLMSVC_ERROR_INVALID_ARGUMENT, "%s: %s%s%s", at->path, at->place,
            *at->place != '\0' ? ": " : "", message);
  return FALSE;
}

/* --- values --- */

static const char *
describe (JsonNode *node)
{
  if (JSON_NODE_HOLDS_OBJECT (node))
    return "an object";
  if (JSON_NODE_HOLDS_ARRAY (node))
    return "a list";
  if (JSON_NODE_HOLDS_NULL (node))
    return "null";
  return json_node_get_value_type (node) == G_TYPE_STRING    ? "a string"
         : json_node_get_value_type (node) == G_TYPE_BOOLEAN ? "true or false"
                                                             : "a number";
}

static gboolean
read_text (const Value *at,
           gpointer     value)
{
  if (json_node_get_value_type (at->node) != G_TYPE_STRING)
    return fail (at, "this is %s, a string is needed", describe (at->node));
  *(char **) value = json_node_dup_string (at->node);
  return TRUE;
}

static gboolean
read_uint (const Value *at,
           gpointer     value)
{
  gint64 number;

  if (json_node_get_value_type (at->node) != G_TYPE_INT64)
    return fail (at, "this is %s, a whole number from %u to %u is needed", describe (at->node),
                 at->field->min, at->field->max);
  number = json_node_get_int (at->node);
  if (number < at->field->min || number > at->field->max)
    return fail (at, "%" G_GINT64_FORMAT " is not from %u to %u", number, at->field->min,
                 at->field->max);
  *(guint *) value = (guint) number;
  return TRUE;
}

static gboolean
read_choice (const Value *at,
             gpointer     value)
{
  g_autofree char *text = NULL;
  g_autofree char *known = NULL;

  if (!read_text (at, &text))
    return FALSE;
  for (guint i = 0; at->field->names[i] != NULL; i++)
    if (g_str_equal (at->field->names[i], text))
      {
        *(guint *) value = at->field->min + i;
        return TRUE;
      }
  known = g_strjoinv (", ", (char **) at->field->names);
  return fail (at, "“%s” is none of: %s", text, known);
}

/* Each entry is read with the list's own @value. */
static gboolean
read_list (const Value *at,
           gpointer     value)
{
  JsonArray *list = JSON_NODE_HOLDS_ARRAY (at->node) ? json_node_get_array (at->node) : NULL;
  guint n = list != NULL ? json_array_get_length (list) : 0;

  if (list == NULL)
    return fail (at, "this is %s, a list is needed", describe (at->node));
  if (n == 0 || n > at->field->max)
    return fail (at, "the list has %u entries, from 1 to %u are allowed", n, at->field->max);
  for (guint i = 0; i < n; i++)
    {
      g_autofree char *place = g_strdup_printf ("%s[%u]", at->place, i);
      Value entry = { at->path, at->error, place, json_array_get_element (list, i), at->field };

      if (!at->field->read_entry (&entry, value))
        return FALSE;
    }
  return TRUE;
}

static gboolean
has_field (const Field *fields,
           const char  *key)
{
  while (fields->key != NULL && !g_str_equal (fields->key, key))
    fields++;
  return fields->key != NULL;
}

/* Reads what is there of @fields into @target. NULL when it is no object, has other keys, or has a
 * wrong value. */
static JsonObject *
read_object (const Value *at,
             const Field *fields,
             gpointer     target)
{
  g_autoptr(GList) members = NULL;
  JsonObject *object = JSON_NODE_HOLDS_OBJECT (at->node) ? json_node_get_object (at->node) : NULL;

  if (object == NULL)
    {
      fail (at, "this is %s, an object is needed", describe (at->node));
      return NULL;
    }
  members = json_object_get_members (object);
  for (GList *l = members; l != NULL; l = l->next)
    if (!has_field (fields, l->data))
      {
        g_autoptr(GString) known = g_string_new (NULL);

        for (const Field *field = fields; field->key != NULL; field++)
          g_string_append_printf (known, "%s%s", known->len > 0 ? ", " : "", field->key);
        fail (at, "there is no key “%s” here; there are %s", (const char *) l->data, known->str);
        return NULL;
      }
  for (const Field *field = fields; field->key != NULL; field++)
    {
      const char *dot = *at->place != '\0' ? "." : "";
      g_autofree char *place = g_strconcat (at->place, dot, field->key, NULL);
      Value member = { at->path, at->error, place, json_object_get_member (object, field->key),
                       field };

      if (member.node != NULL && !field->read (&member, (char *) target + field->offset))
        return NULL;
    }
  return object;
}

/* --- a rule --- */

static gboolean
read_pattern (const Value *at,
              gpointer     value)
{
  g_autofree char *text = NULL;
  g_autofree char *limited = NULL;
  g_autoptr(GRegex) alone = NULL;
  g_autoptr(GError) local = NULL;

  if (!read_text (at, &text))
    return FALSE;
  if (strlen (text) > MAX_PATTERN)
    return fail (at, "the pattern has %zu bytes, up to %d are allowed", strlen (text),
                 MAX_PATTERN);
  /* alone first, so that an error counts the characters that are there */
  limited = g_strconcat (PATTERN_LIMITS, text, NULL);
  alone = g_regex_new (text, 0, 0, &local);
  if (alone != NULL)
    *(GRegex **) value = g_regex_new (limited, 0, 0, &local);
  return local == NULL || fail (at, "%s", local->message);
}

static gboolean
read_when (const Value *at,
           gpointer     rule)
{
  static const Field fields[] = {
    { "prompt", read_text, G_STRUCT_OFFSET (LlmScriptRule, prompt) },
    { "contains", read_text, G_STRUCT_OFFSET (LlmScriptRule, contains) },
    { "pattern", read_pattern, G_STRUCT_OFFSET (LlmScriptRule, pattern) },
    { "system-contains", read_text, G_STRUCT_OFFSET (LlmScriptRule, system) },
    { "turn", read_uint, G_STRUCT_OFFSET (LlmScriptRule, turn), 1, MAX_COUNT },
    { "start", read_uint, G_STRUCT_OFFSET (LlmScriptRule, start), 1, MAX_COUNT },
    { NULL },
  };

  return read_object (at, fields, rule) != NULL;
}

static gboolean
read_piece (const Value *at,
            gpointer     pieces)
{
  g_autofree char *text = NULL;

  if (!read_text (at, &text))
    return FALSE;
  g_strv_builder_add (pieces, text);
  return TRUE;
}

/* A list of them, or one text. */
static gboolean
read_pieces (const Value *at,
             gpointer     value)
{
  ReadFunc read = at->field->read_entry != NULL ? read_list : read_piece;
  g_autoptr(GStrvBuilder) pieces = g_strv_builder_new ();

  if (!read (at, pieces))
    return FALSE;
  g_strfreev (*(GStrv *) value);
  *(GStrv *) value = g_strv_builder_end (pieces);
  return TRUE;
}

static gboolean
read_error (const Value *at,
            gpointer     rule)
{
  const char *names[N_ERRORS + 1] = { NULL };
  struct
  {
    guint code;
    char *message;
  } error = { N_ERRORS, NULL };
  const Field fields[] = {
    { "name", read_choice, (gsize) ((char *) &error.code - (char *) &error), .names = names },
    { "message", read_text, (gsize) ((char *) &error.message - (char *) &error) },
    { NULL },
  };
  gboolean is_read;

  for (guint i = 0; i < N_ERRORS; i++)
    names[i] = llmsvc_error_get_name (i);
  is_read = read_object (at, fields, &error) != NULL;
  if (is_read && (error.code == N_ERRORS || error.message == NULL))
    is_read = fail (at, "an error has a “name” and a “message”");
  if (is_read)
    {
      ((LlmScriptRule *) rule)->end = LLM_REPLY_ERROR;
      ((LlmScriptRule *) rule)->error =
        g_error_new_literal (LLMSVC_ERROR, (gint) error.code, error.message);
    }
  g_free (error.message);
  return is_read;
}

/* What is there, but could do nothing beside what else is there. */
static gboolean
check_rule (const Value         *at,
            JsonObject          *object,
            const LlmScriptRule *rule)
{
  static const char *const of_text[] = {
    "delay-ms", "piece-delay-ms", "finish-reason", "exit", NULL,
  };
  gboolean has_pieces = json_object_has_member (object, "pieces");

  if (json_object_has_member (object, "text") && has_pieces)
    return fail (at, "only one of “text” and “pieces” can be");
  if (rule->pieces == NULL && rule->error == NULL)
    return fail (at, "a rule has a “text”, or “pieces”, or an “error”");
  for (guint i = 0; rule->pieces == NULL && of_text[i] != NULL; i++)
    if (json_object_has_member (object, of_text[i]))
      return fail (at,
                   "“%s” needs a “text” or “pieces”: an error without them refuses the call at "
                   "once", of_text[i]);
  if (rule->error != NULL && json_object_has_member (object, "finish-reason"))
    return fail (at, "an answer that ends with an “error” has no “finish-reason”");
  if (rule->error != NULL && rule->exit != LLM_REPLY_STAY)
    return fail (at,
                 "only one of “error” and “exit” can be at the end of an answer");
  if (json_object_has_member (object, "piece-delay-ms") && !has_pieces)
    return fail (at, "“piece-delay-ms” needs “pieces”");
  return TRUE;
}

static gboolean
read_rule (const Value *at,
           gpointer     script)
{
  static const char *const ends[] = { "stop", "length", "context-full", NULL };
  static const char *const exits[] = { "before-keep", "after-keep", NULL };
  static const Field fields[] = {
    { "when", read_when },
    { "times", read_uint, G_STRUCT_OFFSET (LlmScriptRule, times), 1, MAX_COUNT },
    { "text", read_pieces, G_STRUCT_OFFSET (LlmScriptRule, pieces) },
    { "pieces", read_pieces, G_STRUCT_OFFSET (LlmScriptRule, pieces), 1, MAX_PIECES,
      .read_entry = read_piece },
    { "delay-ms", read_uint, G_STRUCT_OFFSET (LlmScriptRule, delay_ms), 0, MAX_MS },
    { "piece-delay-ms", read_uint, G_STRUCT_OFFSET (LlmScriptRule, piece_delay_ms), 0, MAX_MS },
    { "finish-reason", read_choice, G_STRUCT_OFFSET (LlmScriptRule, end), LLM_REPLY_STOP,
      .names = ends },
    { "error", read_error },
    { "exit", read_choice, G_STRUCT_OFFSET (LlmScriptRule, exit), LLM_REPLY_EXIT_BEFORE_KEEP,
      .names = exits },
    { NULL },
  };
  LlmScriptRule *rule = g_new0 (LlmScriptRule, 1);
  JsonObject *object;

  g_ptr_array_add (((LlmScript *) script)->rules, rule);
  object = read_object (at, fields, rule);
  return object != NULL && check_rule (at, object, rule);
}

/* --- availability --- */

static gboolean
read_phase (const Value *at,
            gpointer     script)
{
  static const char *const states[] = { "ready", "loading", "no-model", "failed", NULL };
  static const Field fields[] = {
    { "state", read_choice, G_STRUCT_OFFSET (LlmScriptPhase, state), LLM_SCRIPT_READY,
      .names = states },
    { "reason", read_text, G_STRUCT_OFFSET (LlmScriptPhase, reason) },
    { "for-ms", read_uint, G_STRUCT_OFFSET (LlmScriptPhase, for_ms), 1, MAX_MS },
    { NULL },
  };
  GArray *phases = ((LlmScript *) script)->phases;
  LlmScriptPhase *phase;
  JsonObject *object;

  g_array_set_size (phases, phases->len + 1);
  phase = &g_array_index (phases, LlmScriptPhase, phases->len - 1);
  object = read_object (at, fields, phase);
  if (object == NULL)
    return FALSE;
  if (!json_object_has_member (object, "state"))
    return fail (at, "the key “state” is missing");
  if ((phase->state == LLM_SCRIPT_FAILED) != (phase->reason != NULL))
    return fail (at, "the state “failed” has a “reason”, and no other has");
  return TRUE;
}

static gboolean
read_phases (const Value *at,
             gpointer     script)
{
  GArray *phases = ((LlmScript *) script)->phases;

  if (!read_list (at, script))
    return FALSE;
  for (guint i = 0; i < phases->len; i++)
    {
      gboolean is_last = i + 1 == phases->len;
      g_autofree char *place = g_strdup_printf ("%s[%u]", at->place, i);
      Value entry = { .path = at->path, .error = at->error, .place = place };

      if (is_last == (g_array_index (phases, LlmScriptPhase, i).for_ms != 0))
        return fail (&entry,
                     is_last ? "the last state stays: it has no “for-ms”"
                             : "the key “for-ms” is missing: only the last state stays");
    }
  return TRUE;
}

/* --- all of it --- */

static gboolean
read_version (const Value *at,
              gpointer     script)
{
  guint version = 0;

  if (!read_uint (at, &version))
    return FALSE;
  return version == VERSION
         || fail (at, "the script is of version %u, this service knows version %d", version,
                  VERSION);
}

gboolean
llm_script_read (LlmScript   *self,
                 const char  *text,
                 gsize        length,
                 GError     **error)
{
  static const Field fields[] = {
    { "version", read_version, 0, 1, MAX_COUNT },
    { "context-length", read_uint, G_STRUCT_OFFSET (LlmScript, n_ctx), MIN_CTX, MAX_CTX },
    { "availability", read_phases, 0, 1, MAX_PHASES, .read_entry = read_phase },
    { "rules", read_list, 0, 1, MAX_RULES, .read_entry = read_rule },
    { NULL },
  };
  Value file = { .path = self->path, .error = error, .place = "" };
  g_autoptr(GError) local = NULL;
  g_autoptr(JsonNode) root = NULL;
  JsonObject *object;

  if (length == 0)
    return fail (&file, "the file is empty; a script is a JSON object");
  root = llmsvc_json_parse (text, length, &local);
  if (root == NULL)
    return fail (&file, "%s", local->message);

  self->n_ctx = DEFAULT_CTX;
  file.node = root;
  object = read_object (&file, fields, self);
  if (object == NULL)
    return FALSE;
  if (!json_object_has_member (object, "version"))
    return fail (&file, "the key “version” is missing; this service knows version %d", VERSION);
  if (!json_object_has_member (object, "rules"))
    return fail (&file, "the key “rules” is missing: a list of what to answer");
  if (self->phases->len == 0)
    g_array_set_size (self->phases, 1);
  return TRUE;
}
