/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The caller, as the bus identified it: the engine separates contexts and counts by it. Immutable
 * and reference-counted. Main thread.
 */

#pragma once

#include <glib-object.h>

#include "base/llm-app.h"

G_BEGIN_DECLS

/* How the application is known. */
typedef enum
{
  LLM_CALLER_UNKNOWN,     /* reading its identity failed: it may be any application, and gets the
                           * smallest rights */
  LLM_CALLER_HOST,        /* outside a sandbox, no application known */
  LLM_CALLER_REGISTERED,  /* outside a sandbox, as it named itself */
  LLM_CALLER_UNIT,        /* outside a sandbox, a systemd unit named after a desktop file */
  LLM_CALLER_ENDPOINT,    /* the system's HTTP endpoint, which calls for others */
  LLM_CALLER_DELEGATED,   /* the endpoint, as the caller that it named: with the rights of an
                           * application in a sandbox */
  LLM_CALLER_FLATPAK,
  LLM_CALLER_SNAP,
  LLM_N_CALLER_KINDS
} LlmCallerKind;

typedef struct
{
  LlmApp *app;          /* (owned) */
  char *connection;     /* unique bus name: unnamed contexts and answers end with it */
  LlmCallerKind kind;
  gboolean is_sandboxed;
  gboolean is_known;
} LlmCaller;

LlmCaller  *llm_caller_new      (guint32        uid,
                                 const char    *app_id,
                                 const char    *connection,
                                 LlmCallerKind  kind);
LlmCaller  *llm_caller_ref      (LlmCaller     *self);
void        llm_caller_unref    (LlmCaller     *self);
/* "flatpak", "snap", "unit", "registered", "endpoint", "delegated", "host" or "unknown". */
const char *llm_caller_kind_to_string (LlmCallerKind kind);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmCaller, llm_caller_unref)

G_END_DECLS
