/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An answer on its way to people: its text as it comes, and what is said of it at the
 * end. Main thread. */

#pragma once

#include "llmctl/llmctl.h"

G_BEGIN_DECLS

/* Where an answer's text goes. Begins as all zero. */
typedef struct
{
  gboolean is_json;     /* lines {"t":"…"} instead of the text itself */
  GString *written;     /* (nullable) (owned): the text so far */
  gsize n_repeated;     /* bytes of it that a second attempt has given again */
} LlmctlAnswer;

void     llmctl_answer_clear       (LlmctlAnswer  *self);

/* One more piece, shown at once. FALSE when stdout is gone. */
gboolean llmctl_answer_write       (LlmctlAnswer  *self,
                                    const char    *piece);
/* The next pieces are a second attempt at the same answer: what it repeats is not
 * written twice. */
void     llmctl_answer_repeat      (LlmctlAnswer  *self);
/* FALSE when the second attempt says something else. */
gboolean llmctl_answer_matches     (LlmctlAnswer  *self,
                                    const char    *piece);
/* What follows begins on a line of its own; nothing for JSON. */
void     llmctl_answer_end_line    (LlmctlAnswer  *self);
/* {"done":{…}} for JSON; says which options the service did not know. */
gboolean llmctl_answer_finish      (LlmctlAnswer  *self,
                                    LlmsvcAnswer  *answer);

/* Why it ended, in a few words; the interface's own word for a reason from a later
 * version. */
const char *llmctl_answer_describe_end (LlmsvcAnswer *answer);
/* (transfer full): one line: tokens, times, why it ended. */
char    *llmctl_answer_summarize   (LlmsvcAnswer  *answer);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (LlmctlAnswer, llmctl_answer_clear)

G_END_DECLS
