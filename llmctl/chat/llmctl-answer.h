/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An answer on its way to people: its text as it comes, and what is said of it at the
 * end. Main thread. */

#pragma once

#include "llmctl/llmctl.h"
#include "llmctl/output/llmctl-flow.h"

G_BEGIN_DECLS

/* Where an answer's text goes. Begins as all zero. */
typedef struct
{
  gboolean is_json;     /* lines {"t":"…"} instead of the text itself */
  gboolean shows_reasoning; /* also where stdout is no terminal; JSON has it in any case */
  gboolean has_reasoned;    /* and no text came behind it yet */
  LlmctlFlow flow;
  GString *written;     /* (nullable) (owned): the text so far */
  gsize n_repeated;     /* bytes of it that this attempt has given; 0 when a second one begins */
} LlmctlAnswer;

void     llmctl_answer_clear       (LlmctlAnswer     *self);

/* One more piece, shown at once; what a second attempt repeats is not written twice. FALSE with
 * @error set when it says something else, or when stdout is gone. */
gboolean llmctl_answer_write       (LlmctlAnswer     *self,
                                    const char       *piece,
                                    GError          **error) G_GNUC_WARN_UNUSED_RESULT;
/* All pieces as they come.
 * @why: (inout) (optional): with it, what ends the waiting stops the answer at the service,
 *   waits until it is settled there, and is told here; once more does not wait. */
gboolean llmctl_answer_copy        (LlmctlAnswer     *self,
                                    LlmsvcGeneration *generation,
                                    LlmctlExit       *why,
                                    GError          **error) G_GNUC_WARN_UNUSED_RESULT;
/* What follows begins on a line of its own; nothing for JSON. */
void     llmctl_answer_end_line    (LlmctlAnswer     *self);
/* {"done":{…}} for JSON; says which options the service did not know. */
gboolean llmctl_answer_finish      (LlmctlAnswer     *self,
                                    LlmsvcAnswer     *answer);

/* Why it ended, in a few words; the interface's own word for a reason from a later
 * version. */
const char *llmctl_answer_describe_end (LlmsvcAnswer *answer);
/* (transfer full): one line: tokens, times, why it ended. */
char    *llmctl_answer_summarize   (LlmsvcAnswer     *answer);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (LlmctlAnswer, llmctl_answer_clear)

G_END_DECLS
