/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-mock"

#include "decoding/llm-script-json.h"

#include "common/llmsvc-error.h"
#include "common/llmsvc-json.h"

gboolean
llm_script_fail (LlmScriptReader *reader,
                 const char      *place,
                 const char      *format,
                 ...)
{
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  if (*place != '\0')
    g_set_error (reader->error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT, "%s: %s: %s",
                 reader->path, place, message);
  else
    g_set_error (reader->error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT, "%s: %s", reader->path,
                 message);
  return FALSE;
}

JsonNode *
llm_script_parse (LlmScriptReader *reader,
                  const char      *text,
                  gsize            length)
{
  g_autoptr(GError) local = NULL;
  JsonNode *root = NULL;

  if (length == 0)
    llm_script_fail (reader, "", "the file is empty; a script is a JSON object");
  else if ((root = llmsvc_json_parse (text, length, &local)) == NULL)
    llm_script_fail (reader, "", "%s", local->message);
  return root;
}

/* --- values --- */

static const char *
describe (JsonNode *node)
{
  switch (json_node_get_node_type (node))
    {
    case JSON_NODE_OBJECT:
      return "an object";
    case JSON_NODE_ARRAY:
      return "a list";
    case JSON_NODE_NULL:
      return "null";
    case JSON_NODE_VALUE:
    default:
      return json_node_get_value_type (node) == G_TYPE_STRING    ? "a string"
             : json_node_get_value_type (node) == G_TYPE_BOOLEAN ? "true or false"
                                                                 : "a number";
    }
}

char *
llm_script_make_place (const char *place,
                       const char *key)
{
  return *place != '\0' ? g_strdup_printf ("%s.%s", place, key) : g_strdup (key);
}

JsonObject *
llm_script_read_object (LlmScriptReader   *reader,
                        const char        *place,
                        JsonNode          *node,
                        const char *const *keys)
{
  g_autoptr(GList) members = NULL;
  JsonObject *object;

  if (!JSON_NODE_HOLDS_OBJECT (node))
    {
      llm_script_fail (reader, place, "this is %s, an object is needed", describe (node));
      return NULL;
    }
  object = json_node_get_object (node);
  members = json_object_get_members (object);
  for (GList *l = members; l != NULL; l = l->next)
    if (!g_strv_contains (keys, l->data))
      {
        g_autofree char *known = g_strjoinv (", ", (char **) keys);

        llm_script_fail (reader, place, "there is no key “%s” here; there are %s",
                         (const char *) l->data, known);
        return NULL;
      }
  return object;
}

JsonArray *
llm_script_read_list (LlmScriptReader *reader,
                      const char      *place,
                      JsonNode        *node,
                      guint            max)
{
  JsonArray *list = JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;

  if (list == NULL)
    llm_script_fail (reader, place, "this is %s, a list is needed", describe (node));
  else if (json_array_get_length (list) == 0 || json_array_get_length (list) > max)
    llm_script_fail (reader, place, "the list has %u entries, from 1 to %u are allowed",
                     json_array_get_length (list), max);
  else
    return list;
  return NULL;
}

const char *
llm_script_read_text (LlmScriptReader *reader,
                      const char      *place,
                      JsonNode        *node)
{
  if (json_node_get_value_type (node) == G_TYPE_STRING)
    return json_node_get_string (node);

  llm_script_fail (reader, place, "this is %s, a string is needed", describe (node));
  return NULL;
}

gboolean
llm_script_get_text (LlmScriptReader  *reader,
                     const char       *place,
                     JsonObject       *object,
                     const char       *key,
                     char            **text)
{
  JsonNode *node = json_object_get_member (object, key);
  g_autofree char *own = llm_script_make_place (place, key);
  const char *value;

  if (node == NULL)
    return TRUE;
  value = llm_script_read_text (reader, own, node);
  if (value == NULL)
    return FALSE;
  *text = g_strdup (value);
  return TRUE;
}

gboolean
llm_script_get_uint (LlmScriptReader *reader,
                     const char      *place,
                     JsonObject      *object,
                     const char      *key,
                     guint            min,
                     guint            max,
                     guint           *value)
{
  JsonNode *node = json_object_get_member (object, key);
  g_autofree char *own = llm_script_make_place (place, key);

  if (node == NULL)
    return TRUE;
  if (json_node_get_value_type (node) != G_TYPE_INT64)
    return llm_script_fail (reader, own, "this is %s, a whole number from %u to %u is needed",
                            describe (node), min, max);
  if (json_node_get_int (node) < min || json_node_get_int (node) > max)
    return llm_script_fail (reader, own, "%" G_GINT64_FORMAT " is not from %u to %u",
                            json_node_get_int (node), min, max);
  *value = (guint) json_node_get_int (node);
  return TRUE;
}

gboolean
llm_script_get_choice (LlmScriptReader   *reader,
                       const char        *place,
                       JsonObject        *object,
                       const char        *key,
                       const char *const *names,
                       guint             *value)
{
  g_autofree char *text = NULL;

  if (!llm_script_get_text (reader, place, object, key, &text))
    return FALSE;
  for (guint i = 0; text != NULL && names[i] != NULL; i++)
    if (g_str_equal (names[i], text))
      {
        *value = i;
        return TRUE;
      }
  if (text != NULL)
    {
      g_autofree char *known = g_strjoinv (", ", (char **) names);
      g_autofree char *own = llm_script_make_place (place, key);

      return llm_script_fail (reader, own, "“%s” is none of: %s", text, known);
    }
  return TRUE;
}
