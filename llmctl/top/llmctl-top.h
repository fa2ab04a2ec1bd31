/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What “llmctl top” shows of a sample, as lines of text and as JSON. Main thread. */

#pragma once

#include "llmctl/output/llmctl-screen.h"
#include "llmctl/top/llmctl-sample.h"

G_BEGIN_DECLS

typedef enum
{
  LLMCTL_TOP_BY_MEMORY,
  LLMCTL_TOP_BY_TOKENS,
  LLMCTL_TOP_BY_NAME,
  LLMCTL_N_TOP_ORDERS,
} LlmctlTopOrder;

typedef struct
{
  GVariant *sample;            /* (nullable) (owned): NULL before the first one */
  LlmctlHistory history;
  gboolean is_system;          /* the bus */
  LlmctlTopOrder order;
  gboolean is_paused;
  gboolean is_help;
  gboolean has_keys;           /* somebody can press them: they are named in the last line */
} LlmctlTopView;

/* (transfer full): no more than @rows lines. */
LlmctlFrame *llmctl_top_view_draw      (LlmctlTopView *self,
                                        guint          columns,
                                        guint          rows,
                                        gboolean       has_styles);
/* (transfer floating): `a{sv}`. */
GVariant    *llmctl_top_view_make_json (LlmctlTopView *self);

/* Adds the tables of applications and contexts, sorted, as far as the frame may have @rows lines
 * in all. */
void         llmctl_top_tables_draw    (GVariant       *sample,
                                        LlmctlTopOrder  order,
                                        LlmctlFrame    *frame,
                                        guint           rows);

G_END_DECLS
