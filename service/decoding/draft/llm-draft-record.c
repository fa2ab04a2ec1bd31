/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decoding/draft/llm-draft-record.h"

/* What a step counts that took longer than usual, and how much longer it may say; and what one that
 * took less does. */
#define RISING    0.125
#define MAX_RATIO 2
#define FALLING   0.5

double
llm_draft_usual_time (double usual_us,
                      double us)
{
  if (usual_us <= 0)
    return us;
  return us > usual_us ? usual_us + RISING * (MIN (us, MAX_RATIO * usual_us) - usual_us)
                       : usual_us + FALLING * (us - usual_us);
}

void
llm_draft_record_begin (LlmDraftRecord *self)
{
  if (!self->has_stepped)
    self->step_us /= 2;
  if (!self->has_read)
    self->text_us /= 2;
  self->has_stepped = self->has_read = FALSE;
}

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
