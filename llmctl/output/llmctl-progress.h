/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One line on the terminal while an answer or a model is awaited, removed before anything else is
 * written.
 * Nothing is drawn with --json, --no-progress, or where stdout or stderr is no terminal. Main
 * thread. */

#pragma once

#include "llmsvc.h"

G_BEGIN_DECLS

/* Before the first line. @is_wanted: without --no-progress. */
void     llmctl_progress_begin       (gboolean          is_wanted);
/* Draws @text instead of what was drawn before. */
void     llmctl_progress_draw        (const char       *text);
/* Removes it, if there is any. */
void     llmctl_progress_clear       (void);

/* (transfer full) (nullable): what LlmsvcGeneration::progress says in words; NULL for a phase from
 * a later version. */
char    *llmctl_progress_describe    (GVariant         *progress);
/* Draws what the generation tells while it is read; ends with @generation. */
void     llmctl_progress_follow      (LlmsvcGeneration *generation);
/* Where lines are drawn: has the model loaded, and draws how far that is. What is wrong with the
 * model is told by the call that needs it. */
void     llmctl_progress_await_model (LlmsvcClient     *client);
/* (transfer full) (nullable): has the model called @id loaded for everyone, with that line; then the
 * sentence that says so. */
char    *llmctl_progress_select_model (LlmsvcClient    *client,
                                       const char      *id,
                                       GError         **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
