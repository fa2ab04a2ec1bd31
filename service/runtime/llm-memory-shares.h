/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory quotas of applications for their contexts. One thread. */

#pragma once

#include "base/llm-app.h"

G_BEGIN_DECLS

typedef struct
{
  GHashTable *fractions;    /* (nullable) (owned) (element-type LlmApp double) */
  double others;            /* of all other applications; 0 for an equal part */
  gint64 kept_us;           /* when all were last brought within their quotas; 0: not since the last
                             * change */
} LlmMemoryShares;

void   llm_memory_shares_clear (LlmMemoryShares       *self);
/* @fractions: (transfer full) (nullable) */
void   llm_memory_shares_set   (LlmMemoryShares       *self,
                                GHashTable            *fractions,
                                double                 others);
double llm_memory_shares_get   (const LlmMemoryShares *self,
                                LlmApp                *app);

G_END_DECLS
