/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Applications: what they use. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/apps/llm-engine-apps.h"

/* Limit of remembered applications that hold nothing. */
#define MAX_UNNEEDED_APPS 64

/* Forgets an unneeded application when many are remembered, so that a caller that registers under
 * ever new names can't fill the table. */
static void
forget_unneeded_app (LlmEngine *self)
{
  GHashTableIter iter;
  LlmAppAccount *app;
  LlmAppAccount *oldest = NULL;
  guint n_unneeded = 0;

  g_hash_table_iter_init (&iter, self->accounts.apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &app))
    {
      if (llm_app_account_is_needed (app))
        continue;
      n_unneeded++;
      if (oldest == NULL || app->looked_up < oldest->looked_up)
        oldest = app;
    }
  if (n_unneeded >= MAX_UNNEEDED_APPS)
    g_hash_table_remove (self->accounts.apps, oldest->app);
}

LlmAppAccount *
llm_engine_get_app (LlmEngine *self,
                    LlmApp    *of)
{
  LlmAppAccount *app = g_hash_table_lookup (self->accounts.apps, of);

  if (app == NULL)
    {
      if (g_hash_table_size (self->accounts.apps) >= MAX_UNNEEDED_APPS)
        forget_unneeded_app (self);
      app = llm_app_account_new (of);
      g_hash_table_insert (self->accounts.apps, app->app, app);
    }
  app->looked_up = ++self->accounts.n_app_lookups;
  return app;
}

void
llm_engine_add_context (LlmEngine  *self,
                        LlmContext *context)
{
  LlmAppAccount *app = llm_engine_get_app (self, context->app);

  g_assert (!g_hash_table_contains (self->store.contexts, context->id));
  g_hash_table_insert (self->store.contexts, context->id, g_object_ref (context));
  app->n_contexts++;
  app->n_named += llm_context_is_named (context);
}

void
llm_engine_remove_context (LlmEngine  *self,
                           LlmContext *context)
{
  LlmAppAccount *app;

  if (!g_hash_table_contains (self->store.contexts, context->id))
    return;
  app = llm_engine_get_app (self, context->app);
  g_assert (app->n_contexts > 0);
  app->n_contexts--;
  app->n_named -= llm_context_is_named (context);
  g_hash_table_remove (self->store.contexts, context->id);
}

LlmUserSums
llm_engine_sum_user (LlmEngine *self,
                     guint32    uid)
{
  LlmUserSums sums = { 0 };
  GHashTableIter iter;
  LlmAppAccount *app;

  g_hash_table_iter_init (&iter, self->accounts.apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &app))
    {
      if (app->app->uid != uid)
        continue;
      sums.named += app->n_named + app->n_coming_named;
      sums.apps += llm_app_account_is_needed (app);
      sums.queue += app->n_calls;
    }
  return sums;
}

void
llm_engine_sum_contexts (LlmEngine     *self,
                         LlmAppAccount *only)
{
  GHashTableIter iter;
  LlmContext *context;
  LlmAppAccount *app;

  g_hash_table_iter_init (&iter, self->accounts.apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &app))
    app->tokens = app->memory = app->disk = 0;

  g_hash_table_iter_init (&iter, self->store.contexts);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    {
      app = only != NULL ? only : g_hash_table_lookup (self->accounts.apps, context->app);
      if (app == NULL || context->app != app->app)
        continue;
      app->tokens += llm_context_get_tokens (context);
      app->memory += context->session_bytes;
      app->disk += llm_context_is_named (context) ? llm_context_get_bytes (context) : 0;
    }
}
