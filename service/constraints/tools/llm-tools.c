/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/tools/llm-tools.h"

#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error-private.h"
#include "base/llm-json.h"

#define MAX_LISTED 10

static void
tool_free (LlmTool *tool)
{
  g_free (tool->name);
  g_free (tool->parameters);
  g_free (tool->pointer);
  g_free (tool);
}

void
llm_tools_free (LlmTools *self)
{
  g_ptr_array_unref (self->tools);
  g_free (self->text);
  g_free (self);
}

static gboolean
fail (const LlmJson *node,
      GError       **error,
      const char    *what)
{
  g_autofree char *pointer = llm_json_get_pointer (node);

  return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION, "tools: %s: %s", pointer, what);
}

static gboolean
is_name (const LlmJson *node)
{
  gsize n = 0;

  while (node->kind == LLM_JSON_STRING && n < node->length
         && (g_ascii_isalnum (node->text[n]) || strchr ("_-.", node->text[n]) != NULL)
         && node->text[n] != '\0')
    n++;
  return node->kind == LLM_JSON_STRING && n > 0 && n == node->length && n <= LLM_TOOL_NAME_MAX;
}

/* Whether @schema only lists properties: what else there might be, nothing says. */
static gboolean
lists_properties (const LlmJson *schema)
{
  static const char *const known[] = { "type", "properties", "required", "title", "description",
                                       "$schema", "$defs", "definitions", "examples", "default",
                                       "$comment", NULL };

  for (guint i = 0; i < schema->keys->len; i++)
    {
      const LlmJson *key = g_ptr_array_index (schema->keys, i);
      const LlmJson *value = g_ptr_array_index (schema->values, i);

      if (value->kind != LLM_JSON_NULL && !g_strv_contains (known, key->text))
        return FALSE;
    }
  return TRUE;
}

/* The members of @object that are set, and its beginning: the end is the caller's. */
static void
write_members (const LlmJson *object,
               GString       *text)
{
  char before = '{';

  for (guint i = 0; i < object->keys->len; i++)
    {
      const LlmJson *value = g_ptr_array_index (object->values, i);

      if (value->kind == LLM_JSON_NULL)
        continue;
      g_string_append_c (text, before);
      llm_json_write (g_ptr_array_index (object->keys, i), text);
      g_string_append_c (text, ':');
      llm_json_write (value, text);
      before = ',';
    }
  if (before == '{')
    g_string_append_c (text, before);
}

/* The schema of the arguments, which are always an object. */
static gboolean
read_parameters (LlmTool       *tool,
                 const LlmJson *function,
                 const LlmJson *parameters,
                 GError       **error)
{
  const LlmJson *type = parameters != NULL ? llm_json_get_set (parameters, "type") : NULL;
  GString *text;

  if (parameters == NULL)
    {
      g_autofree char *above = llm_json_get_pointer (function);

      tool->pointer = g_strconcat (above, "/parameters", NULL);
      tool->parameters = g_strdup ("{\"type\":\"object\",\"additionalProperties\":false}");
      return TRUE;
    }
  if (parameters->kind != LLM_JSON_OBJECT)
    return fail (parameters, error, "it must be a JSON schema, an object");
  if (type != NULL && !llm_json_is (type, "object"))
    return fail (type, error, "it must be “object”: arguments are an object");

  tool->pointer = llm_json_get_pointer (parameters);
  text = g_string_new (NULL);
  write_members (parameters, text);
  if (type == NULL)
    g_string_append_printf (text, "%s\"type\":\"object\"", text->len > 1 ? "," : "");
  if (lists_properties (parameters))
    g_string_append (text, ",\"additionalProperties\":false");
  g_string_append_c (text, '}');
  tool->parameters = g_string_free (text, FALSE);
  return TRUE;
}

static gboolean
read_tool (LlmTools      *self,
           const LlmJson *node,
           GError       **error)
{
  const LlmJson *type, *function, *name, *description, *parameters, *strict;
  LlmTool *tool;

  if (node->kind != LLM_JSON_OBJECT)
    return fail (node, error, "it must be an object");
  type = llm_json_get (node, "type");
  if (type != NULL && !llm_json_is (type, "function"))
    return fail (type, error, "it must be “function”");
  function = llm_json_get (node, "function");
  if (function == NULL || function->kind != LLM_JSON_OBJECT)
    return fail (function != NULL ? function : node, error,
                 "it needs “function”, an object with “name”");
  name = llm_json_get (function, "name");
  if (name == NULL || !is_name (name))
    return fail (name != NULL ? name : function, error,
                 "a name must have 1 to 64 letters, digits, “_”, “-” and “.”");
  description = llm_json_get_set (function, "description");
  if (description != NULL && description->kind != LLM_JSON_STRING)
    return fail (description, error, "it must be a string");
  strict = llm_json_get_set (function, "strict");
  if (strict != NULL && strict->kind != LLM_JSON_TRUE && strict->kind != LLM_JSON_FALSE)
    return fail (strict, error, "it must be true or false");
  for (guint i = 0; i < self->tools->len; i++)
    if (g_str_equal (((const LlmTool *) g_ptr_array_index (self->tools, i))->name, name->text))
      return fail (name, error, "another one has this name");

  tool = g_new0 (LlmTool, 1);
  g_ptr_array_add (self->tools, tool);
  tool->name = g_strdup (name->text);
  tool->is_strict = self->is_strict || (strict != NULL && strict->kind == LLM_JSON_TRUE);
  parameters = llm_json_get_set (function, "parameters");
  return read_parameters (tool, function, parameters, error);
}

/* The tool at @node with a type, a description and parameters. */
static void
write_tool (const LlmJson *node,
            GString       *text)
{
  const LlmJson *function = llm_json_get (node, "function");

  g_string_append (text, "{\"type\":\"function\",\"function\":");
  write_members (function, text);
  if (llm_json_get_set (function, "description") == NULL)
    g_string_append (text, ",\"description\":\"\"");
  if (llm_json_get_set (function, "parameters") == NULL)
    g_string_append (text, ",\"parameters\":{\"type\":\"object\",\"properties\":{}}");
  g_string_append (text, "}}");
}

static gboolean
read_choice (LlmTools   *self,
             const char *choice,
             GError    **error)
{
  static const char *const choices[] = { "auto", "none", "required" };
  g_autoptr(GString) names = g_string_new (NULL);
  g_autofree char *shown = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (choices); i++)
    if (g_str_equal (choice, choices[i]))
      {
        self->choice = (LlmToolChoice) i;
        return TRUE;
      }
  self->choice = LLM_TOOL_CHOICE_NAMED;
  for (guint i = 0; i < self->tools->len; i++)
    {
      const LlmTool *tool = g_ptr_array_index (self->tools, i);

      self->named = i;
      if (g_str_equal (choice, tool->name))
        return TRUE;
      if (i < MAX_LISTED)
        g_string_append_printf (names, "%s%s", i > 0 ? ", " : "", tool->name);
      else if (i == MAX_LISTED)
        g_string_append (names, ", …");
    }
  shown = g_utf8_substring (choice, 0, MIN (g_utf8_strlen (choice, -1), LLM_TOOL_NAME_MAX));
  return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                   "tool-choice: it must be “auto”, “none”, “required” or the name of a tool; “%s” "
                   "is not among these: %s", shown, names->str);
}

LlmTools *
llm_tools_read (const char *tools,
                const char *choice,
                gboolean    is_parallel,
                gboolean    is_strict,
                GError    **error)
{
  g_autoptr(GError) cause = NULL;
  g_autoptr(LlmJson) root = llm_json_read (tools, strlen (tools), &cause);
  g_autoptr(LlmTools) self = NULL;
  g_autoptr(GString) text = NULL;

  if (root == NULL)
    {
      g_propagate_error (error,
                         llmsvc_error_new (cause->code, cause, "tools: %s", cause->message));
      return NULL;
    }
  self = g_new0 (LlmTools, 1);
  self->tools = g_ptr_array_new_with_free_func ((GDestroyNotify) tool_free);
  self->is_parallel = is_parallel;
  self->is_strict = is_strict;
  if (root->kind != LLM_JSON_ARRAY || root->values->len == 0 || root->values->len > LLM_TOOLS_MAX)
    {
      (void) fail (root, error, "it must be an array of 1 to 128 tools");
      return NULL;
    }
  text = g_string_new ("[");
  for (guint i = 0; i < root->values->len; i++)
    {
      const LlmJson *node = g_ptr_array_index (root->values, i);

      if (!read_tool (self, node, error))
        return NULL;
      g_string_append (text, i > 0 ? "," : "");
      write_tool (node, text);
    }
  g_string_append_c (text, ']');
  self->text = g_string_free (g_steal_pointer (&text), FALSE);
  return read_choice (self, choice, error) ? g_steal_pointer (&self) : NULL;
}
