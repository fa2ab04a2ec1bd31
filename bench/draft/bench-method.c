/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "draft/bench-method.h"

#include "policies/bench-growths.h"

#include <string.h>

#include <json-glib/json-glib.h>

#include "model/llm-thresholds.h"

/* Of big–little, unless they are named: fixed before anything was measured. */
#define FALLBACK 0.6
#define ROLLBACK 2.0

/* All numbers behind the name, with commas between them, or -1. */
static int
parse_numbers (const char *text,
               double     *numbers,
               guint       n_max)
{
  g_auto(GStrv) words = g_strsplit (text, ",", -1);
  guint n = g_strv_length (words);

  for (guint i = 0; i < n && n <= n_max; i++)
    {
      char *end;

      numbers[i] = g_ascii_strtod (words[i], &end);
      if (end == words[i] || *end != '\0'
          || !(numbers[i] >= 0 && numbers[i] <= MAX (LLM_DRAFT_MAX_NODES, 100)))
        return -1;
    }
  return n > 0 && n <= n_max ? (int) n : -1;
}

static gboolean
is_count (double number)
{
  return number >= 1 && number < LLM_DRAFT_MAX_NODES && number == (guint) number;
}

static gboolean
set_fixed (LlmGrowthConfig *growth,
           const double    *numbers,
           int              n)
{
  *growth = (LlmGrowthConfig) { .depth = 1 };
  growth->n_widths = growth->n_depths = (guint) MAX (n, 0);
  for (int i = 0; i < n; i++)
    {
      if (!is_count (numbers[i]) || numbers[i] > LLM_DRAFT_MAX_CANDIDATES)
        return FALSE;
      growth->widths[i] = (guint) numbers[i];
    }
  return n > 0;
}

gboolean
bench_method_parse (const char   *name,
                    BenchMethod  *method,
                    GError      **error)
{
  g_auto(GStrv) parts = g_strsplit (name, ":", 2);
  double numbers[LLM_GROWTH_MAX_WIDTHS];
  const char *kind = parts[0] != NULL ? parts[0] : "";
  int n = parts[0] != NULL && parts[1] != NULL
            ? parse_numbers (parts[1], numbers, G_N_ELEMENTS (numbers))
            : 0;
  gboolean is_known = n >= 0;

  *method = (BenchMethod) { .kind = BENCH_MODEL, .growth = LLM_GROWTH_CONFIG_BEST };
  method->growth.goes_ahead = FALSE;
  if (strcmp (kind, "plain") == 0 && n == 0)
    method->kind = BENCH_PLAIN;
  else if (strcmp (kind, "active") == 0 && n == 1 && numbers[0] >= 1
           && numbers[0] <= LLM_MAX_SPARSITY)
    {
      method->kind = BENCH_ACTIVE;
      method->sparsity = (guint) numbers[0];
    }
  else if (strcmp (kind, "target") == 0 && n == 1 && numbers[0] >= 1 && numbers[0] < 100)
    {
      method->kind = BENCH_TARGET;
      method->share = numbers[0] / 100;
    }
  else if (strcmp (kind, "lookup") == 0 && n == 0)
    method->kind = BENCH_LOOKUP;
  else if (strcmp (kind, "own") == 0 && n == 0)
    {
      method->kind = BENCH_OWN;
      method->growth.goes_ahead = TRUE;
    }
  else if (strcmp (kind, "tree") == 0 && (n == 0 || (n == 1 && is_count (numbers[0]))))
    method->growth.n_nodes = n > 0 ? (guint) numbers[0] : 0;
  else if (strcmp (kind, "pipeline") == 0 && n == 0)
    method->growth.goes_ahead = TRUE;
  else if (strcmp (kind, "paper") == 0 && n == 0)
    {
      method->growth = BENCH_GROWTH_PAPER;
      method->growth.goes_ahead = FALSE;
    }
  else if (strcmp (kind, "chain") == 0 && n == 1 && is_count (numbers[0]))
    method->growth = BENCH_GROWTH_CHAIN ((guint) numbers[0]);
  else if (strcmp (kind, "fixed") == 0)
    is_known = is_known && set_fixed (&method->growth, numbers, n);
  else if (strcmp (kind, "big-little") == 0 && (n == 0 || (n == 2 && numbers[0] <= 1)))
    {
      method->kind = BENCH_BIG_LITTLE;
      method->growth = BENCH_GROWTH_CHAIN (0);
      method->fallback = n > 0 ? numbers[0] : FALLBACK;
      method->rollback = n > 0 ? numbers[1] : ROLLBACK;
    }
  else
    is_known = FALSE;
  if (!is_known)
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                 "unknown method “%s”: plain, active:PERCENT, target:PERCENT, lookup, own, tree, tree:N, pipeline, paper, chain:N, "
                 "fixed:A,B,…, big-little and big-little:FALLBACK,ROLLBACK", name);
  return is_known;
}

/* --- tasks --- */

static void
task_free (gpointer data)
{
  BenchTask *self = data;

  g_free (self->id);
  g_free (self->prompt);
  g_free (self);
}

static const char *
get_text (JsonObject *object,
          const char *name)
{
  JsonNode *node = json_object_get_member (object, name);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) ? json_node_get_string (node) : NULL;
}

GPtrArray *
bench_tasks_read (const char  *path,
                  guint        first,
                  guint        n,
                  GError     **error)
{
  g_autoptr(GPtrArray) tasks = g_ptr_array_new_with_free_func (task_free);
  g_autofree char *text = NULL;
  g_auto(GStrv) lines = NULL;

  if (!g_file_get_contents (path, &text, NULL, error))
    return NULL;
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL && i < first + n; i++)
    {
      g_autoptr(JsonNode) node = *lines[i] != '\0' ? json_from_string (lines[i], NULL) : NULL;
      JsonObject *object = node != NULL && JSON_NODE_HOLDS_OBJECT (node)
                             ? json_node_get_object (node)
                             : NULL;
      BenchTask task = { NULL };

      if (*lines[i] == '\0')
        continue;
      if (object != NULL)
        task = (BenchTask) { g_strdup (get_text (object, "id")),
                             g_strdup (get_text (object, "prompt")) };
      if (task.id != NULL && task.prompt != NULL && i >= first)
        g_ptr_array_add (tasks, g_memdup2 (&task, sizeof task));
      else
        {
          gboolean is_task = task.id != NULL && task.prompt != NULL;

          g_free (task.id);
          g_free (task.prompt);
          if (is_task)
            continue;
          g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                       "%s: line %u is no JSON object with “id” and “prompt”", path, i + 1);
          return NULL;
        }
    }
  return g_steal_pointer (&tasks);
}
