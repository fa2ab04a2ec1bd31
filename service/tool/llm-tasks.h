/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tasks with a known answer: lines of JSON with “prompt” and “answer”, and how a model's answer is
 * scored. Any thread.
 */

#pragma once

#include <json-glib/json-glib.h>

typedef struct
{
  char *prompt, *answer;     /* (owned) */
  JsonNode *call;            /* (nullable) (owned): where a call of a tool answers it, its object */
} LlmTask;

/* Sums over the tasks done. */
typedef struct
{
  guint n;
  guint n_wanted;        /* tasks that a call of a tool answers */
  guint n_calls;         /* answers to them that are one */
  guint n_valid;         /* of them with valid JSON */
  guint n_names;         /* of them with the right function */
  guint n_arguments;     /* of them with exactly the right arguments */
  guint n_slots;         /* arguments wanted where the function is right */
  guint n_right_slots;
  guint n_wrong_calls;   /* calls of tools where text was wanted */
  guint n_exact;         /* answers equal to the wanted text */
} LlmTaskScore;

/* (transfer full) (element-type LlmTask): the first @n_most lines of @text, all with 0. Fails with
 * INVALID_ARGUMENT where a line is no task, or there is none. */
GPtrArray *llm_tasks_read      (const char     *text,
                                guint           n_most,
                                GError        **error);
void       llm_task_score_add  (LlmTaskScore   *score,
                                const LlmTask  *task,
                                const char     *found);
