/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decoding/draft/llm-draft-record.h"

LlmDraftRecord *
llm_draft_record_new (void)
{
  return g_atomic_rc_box_new0 (LlmDraftRecord);
}

LlmDraftRecord *
llm_draft_record_ref (LlmDraftRecord *self)
{
  return g_atomic_rc_box_acquire (self);
}

void
llm_draft_record_unref (LlmDraftRecord *self)
{
  g_atomic_rc_box_release (self);
}
