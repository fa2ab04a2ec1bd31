/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool/llm-tasks.h"

#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"

#define CALL_BEGIN "<tool_call>"
#define CALL_END "</tool_call>"

/* A member of an object that is a string, NULL when it is not. */
static const char *
get_string (JsonNode   *object,
            const char *member)
{
  JsonNode *node = json_object_get_member (json_node_get_object (object), member);

  return node != NULL && json_node_get_value_type (node) == G_TYPE_STRING
           ? json_node_get_string (node)
           : NULL;
}

/* (transfer full) (nullable): NULL when @text is no JSON object. */
static JsonNode *
parse_object (const char *text)
{
  g_autoptr(JsonNode) node = json_from_string (text, NULL);

  return node != NULL && JSON_NODE_HOLDS_OBJECT (node) ? g_steal_pointer (&node) : NULL;
}

/* The object of a tool call, NULL when it is none. */
static JsonNode *
parse_call (const char *answer)
{
  const char *begin = strstr (answer, CALL_BEGIN);
  const char *end = begin != NULL ? strstr (begin, CALL_END) : NULL;
  g_autofree char *json = NULL;

  if (begin == NULL)
    return NULL;

  begin += strlen (CALL_BEGIN);
  json = end != NULL ? g_strndup (begin, (gsize) (end - begin)) : g_strdup (begin);
  return parse_object (json);
}

static void
free_task (gpointer task)
{
  LlmTask *self = task;

  g_free (self->prompt);
  g_free (self->answer);
  g_clear_pointer (&self->call, json_node_unref);
  g_free (self);
}

GPtrArray *
llm_tasks_read (const char  *text,
                guint        n_most,
                GError     **error)
{
  g_auto(GStrv) lines = g_strsplit (text, "\n", -1);
  g_autoptr(GPtrArray) tasks = g_ptr_array_new_with_free_func (free_task);

  for (guint i = 0; lines[i] != NULL && (n_most == 0 || tasks->len < n_most); i++)
    {
      g_autoptr(JsonNode) object = *lines[i] != '\0' ? parse_object (lines[i]) : NULL;
      LlmTask *task;

      if (*lines[i] == '\0')
        continue;
      if (object == NULL || get_string (object, "prompt") == NULL
          || get_string (object, "answer") == NULL)
        return llm_fail_null (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                              "Line %u is no task: each is a JSON object with the texts “prompt” and "
                              "“answer”", i + 1);
      task = g_new0 (LlmTask, 1);
      task->prompt = g_strdup (get_string (object, "prompt"));
      task->answer = g_strdup (get_string (object, "answer"));
      task->call = parse_call (task->answer);
      g_ptr_array_add (tasks, task);
    }
  if (tasks->len == 0)
    return llm_fail_null (error, LLMSVC_ERROR_INVALID_ARGUMENT, "The file holds no tasks");
  return g_steal_pointer (&tasks);
}

static JsonObject *
get_arguments (JsonNode *call)
{
  JsonNode *node = json_object_get_member (json_node_get_object (call), "arguments");

  return node != NULL && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
}

static void
score_arguments (LlmTaskScore *score,
                 JsonObject   *wanted,
                 JsonObject   *found)
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
llm_task_score_add (LlmTaskScore  *score,
                    const LlmTask *task,
                    const char    *found)
{
  g_autoptr(JsonNode) answer = parse_call (found);
  g_autofree char *text = g_strstrip (g_strdup (found));
  gboolean is_call = strstr (found, CALL_BEGIN) != NULL;
  JsonObject *arguments;

  score->n++;
  score->n_exact += g_str_equal (text, task->answer);
  if (task->call == NULL)
    {
      score->n_wrong_calls += is_call;
      return;
    }

  score->n_wanted++;
  score->n_calls += is_call;
  score->n_valid += answer != NULL;
  if (answer == NULL || g_strcmp0 (get_string (task->call, "name"), get_string (answer, "name")) != 0)
    return;

  score->n_names++;
  arguments = get_arguments (answer);
  if (get_arguments (task->call) != NULL && arguments != NULL)
    score_arguments (score, get_arguments (task->call), arguments);
}
