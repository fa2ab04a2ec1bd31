/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool-task.h"

#include <glib/gi18n.h>
#include <string.h>

#include <json-glib/json-glib.h>

#define CALL_BEGIN "<tool_call>"
#define CALL_END "</tool_call>"

void
tool_task_free (ToolTask *task)
{
  g_free (task->prompt);
  g_free (task->answer);
  g_free (task);
}

/* A member that is a string, NULL when it is not. */
static const char *
get_string (JsonObject *object,
            const char *member)
{
  JsonNode *node = json_object_get_member (object, member);

  return node != NULL && json_node_get_value_type (node) == G_TYPE_STRING
           ? json_node_get_string (node)
           : NULL;
}

static ToolTask *
parse_task (const char *line)
{
  g_autoptr(JsonNode) node = json_from_string (line, NULL);
  const char *prompt, *answer;
  ToolTask *task;

  if (node == NULL || !JSON_NODE_HOLDS_OBJECT (node))
    return NULL;

  prompt = get_string (json_node_get_object (node), "prompt");
  answer = get_string (json_node_get_object (node), "answer");
  if (prompt == NULL || answer == NULL)
    return NULL;

  task = g_new (ToolTask, 1);
  task->prompt = g_strdup (prompt);
  task->answer = g_strdup (answer);
  return task;
}

GPtrArray *
tool_task_read (const char *text,
                guint       n,
                GError    **error)
{
  g_auto(GStrv) lines = g_strsplit (text, "\n", -1);
  g_autoptr(GPtrArray) tasks = g_ptr_array_new_with_free_func ((GDestroyNotify) tool_task_free);

  for (guint i = 0; lines[i] != NULL && (n == 0 || tasks->len < n); i++)
    {
      ToolTask *task;

      if (*lines[i] == '\0')
        continue;
      task = parse_task (lines[i]);
      if (task == NULL)
        {
          g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                       _("Line %u is no task: each is a JSON object with the texts “prompt” "
                         "and “answer”"), i + 1);
          return NULL;
        }
      g_ptr_array_add (tasks, task);
    }
  if (tasks->len == 0)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, _("The file holds no tasks"));
      return NULL;
    }

  return g_steal_pointer (&tasks);
}

/* The object of a tool call, NULL when it is none. */
static JsonNode *
parse_call (const char *answer)
{
  const char *begin = strstr (answer, CALL_BEGIN);
  const char *end = begin != NULL ? strstr (begin, CALL_END) : NULL;
  g_autofree char *json = NULL;
  g_autoptr(JsonNode) node = NULL;

  if (begin == NULL)
    return NULL;

  begin += strlen (CALL_BEGIN);
  json = end != NULL ? g_strndup (begin, (gsize) (end - begin)) : g_strdup (begin);
  node = json_from_string (json, NULL);
  return node != NULL && JSON_NODE_HOLDS_OBJECT (node) ? g_steal_pointer (&node) : NULL;
}

static JsonObject *
get_arguments (JsonNode *call)
{
  JsonNode *node = json_object_get_member (json_node_get_object (call), "arguments");

  return node != NULL && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
}

static void
score_arguments (ToolScore  *score,
                 JsonObject *wanted,
                 JsonObject *found)
{
  g_autoptr(GList) members = json_object_get_members (wanted);
  guint n_right = 0, n = 0;

  for (GList *l = members; l != NULL; l = l->next, n++)
    {
      JsonNode *node = json_object_get_member (found, l->data);

      if (node != NULL && json_node_equal (node, json_object_get_member (wanted, l->data)))
        n_right++;
    }
  score->n_slots += n;
  score->n_right_slots += n_right;
  score->n_arguments += n_right == n && json_object_get_size (found) == n;
}

void
tool_score_add (ToolScore  *score,
                const char *wanted,
                const char *found)
{
  g_autoptr(JsonNode) call = parse_call (wanted);
  g_autoptr(JsonNode) answer = parse_call (found);
  g_autofree char *text = g_strstrip (g_strdup (found));
  JsonObject *arguments;

  score->n++;
  score->n_exact += g_str_equal (text, wanted);
  if (call == NULL)
    {
      score->n_wrong_calls += strstr (found, CALL_BEGIN) != NULL;
      return;
    }

  score->n_calls += strstr (found, CALL_BEGIN) != NULL;
  score->n_valid += answer != NULL;
  if (answer == NULL || g_strcmp0 (get_string (json_node_get_object (call), "name"),
                                   get_string (json_node_get_object (answer), "name")) != 0)
    return;

  score->n_names++;
  arguments = get_arguments (answer);
  if (get_arguments (call) != NULL && arguments != NULL)
    score_arguments (score, get_arguments (call), arguments);
}
