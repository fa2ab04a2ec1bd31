/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "accounts/llm-caller.h"

LlmCaller *
llm_caller_new (guint32       uid,
                const char   *app_id,
                const char   *connection,
                LlmCallerKind kind)
{
  LlmCaller *self = g_atomic_rc_box_new0 (LlmCaller);

  self->app = llm_app_intern (uid, app_id);
  self->connection = g_strdup (connection);
  self->kind = kind;
  self->is_sandboxed =
    kind == LLM_CALLER_FLATPAK || kind == LLM_CALLER_SNAP || kind == LLM_CALLER_DELEGATED;
  self->is_known = kind != LLM_CALLER_UNKNOWN;
  return self;
}

LlmCaller *
llm_caller_ref (LlmCaller *self)
{
  return g_atomic_rc_box_acquire (self);
}

static void
caller_clear (LlmCaller *self)
{
  llm_app_unref (self->app);
  g_free (self->connection);
}

void
llm_caller_unref (LlmCaller *self)
{
  g_atomic_rc_box_release_full (self, (GDestroyNotify) caller_clear);
}

const char *
llm_caller_kind_to_string (LlmCallerKind kind)
{
  static const char *const names[] = { "unknown",  "host",      "registered", "unit",
                                       "endpoint", "delegated", "flatpak",    "snap" };

  G_STATIC_ASSERT (G_N_ELEMENTS (names) == LLM_N_CALLER_KINDS);
  g_assert (kind < LLM_N_CALLER_KINDS);
  return names[kind];
}
