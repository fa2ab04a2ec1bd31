/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * An application of one user. Interned: as long as a reference is held, there is one object for
 * each (uid, id), so that two are the same application exactly when the pointers are equal.
 * Immutable and reference-counted; any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  gint ref_count;  /* guarded by the table's lock */
  guint32 uid;
  char id[];       /* "" when the application is not identified */
} LlmApp;

/* (transfer full) */
LlmApp *llm_app_intern (guint32     uid,
                        const char *id);
LlmApp *llm_app_ref    (LlmApp     *self);
void    llm_app_unref  (LlmApp     *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmApp, llm_app_unref)

G_END_DECLS
