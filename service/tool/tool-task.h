/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tasks with a known answer: lines of JSON with “prompt” and “answer”, and how a model's
 * answer is scored. Plain data.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct
{
  char *prompt;
  char *answer;
} ToolTask;

/* Sums over the tasks done. */
typedef struct
{
  guint n;
  guint n_calls;         /* answers that are a tool call where one was wanted */
  guint n_valid;         /* of them with valid JSON */
  guint n_names;         /* of them with the right function */
  guint n_arguments;     /* of them with exactly the right arguments */
  guint n_slots;         /* arguments wanted where the function is right */
  guint n_right_slots;
  guint n_wrong_calls;   /* tool calls where text was wanted */
  guint n_exact;         /* answers equal to the wanted text */
} ToolScore;

void     tool_task_free  (ToolTask    *task);
/* (element-type ToolTask): the first @n of @text, all with 0. NULL with @error where a line is
 * none. */
GPtrArray *tool_task_read (const char *text,
                           guint       n,
                           GError    **error);
void     tool_score_add  (ToolScore   *score,
                          const char  *wanted,
                          const char  *found);

G_END_DECLS
