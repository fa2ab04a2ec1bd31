/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Applications: what they use. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/llm-context-private.h"

/* Applications to remember of which there is nothing but what they once did. */
#define MAX_UNNEEDED_APPS 64

/* Makes room for another application, unless few are there: whoever registers under ever
 * new names must not fill the table. */
static void
forget_unneeded_app (LlmEngine *self)
{
  GHashTableIter iter;
  LlmAppAccount *app;
  LlmAppAccount *oldest = NULL;
  guint n_unneeded = 0;

  g_hash_table_iter_init (&iter, self->apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &app))
    {
      if (llm_app_account_is_needed (app))
        continue;
      n_unneeded++;
      if (oldest == NULL || app->looked_up < oldest->looked_up)
        oldest = app;
    }
  if (n_unneeded >= MAX_UNNEEDED_APPS)
    g_hash_table_remove (self->apps, oldest->app);
}

LlmAppAccount *
llm_engine_get_app (LlmEngine *self,
                    LlmApp    *of)
{
  LlmAppAccount *app = g_hash_table_lookup (self->apps, of);

  if (app == NULL)
    {
      if (g_hash_table_size (self->apps) >= MAX_UNNEEDED_APPS)
        forget_unneeded_app (self);
      app = llm_app_account_new (of);
      g_hash_table_insert (self->apps, app->app, app);
    }
  app->looked_up = ++self->n_app_lookups;
  return app;
}

void
llm_engine_add_context (LlmEngine  *self,
                        LlmContext *context)
{
  LlmAppAccount *app = llm_engine_get_app (self, context->app);

  g_assert (!g_hash_table_contains (self->contexts, context->id));
  g_hash_table_insert (self->contexts, context->id, g_object_ref (context));
  app->n_contexts++;
  app->n_named += llm_context_is_named (context);
}

void
llm_engine_remove_context (LlmEngine  *self,
                           LlmContext *context)
{
  LlmAppAccount *app;

  if (!g_hash_table_contains (self->contexts, context->id))
    return;
  app = llm_engine_get_app (self, context->app);
  g_assert (app->n_contexts > 0);
  app->n_contexts--;
  app->n_named -= llm_context_is_named (context);
  g_hash_table_remove (self->contexts, context->id);
}

LlmUserSums
llm_engine_sum_user (LlmEngine *self,
                     guint32    uid)
{
  LlmUserSums sums = { 0 };
  GHashTableIter iter;
  LlmAppAccount *app;

  g_hash_table_iter_init (&iter, self->apps);
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

  g_hash_table_iter_init (&iter, self->apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &app))
    app->tokens = app->memory = app->disk = 0;

  g_hash_table_iter_init (&iter, self->contexts);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    {
      app = only != NULL ? only : g_hash_table_lookup (self->apps, context->app);
      if (app == NULL || context->app != app->app)
        continue;
      app->tokens += llm_context_get_tokens (context);
      app->memory += context->session_bytes;
      app->disk += llm_context_is_named (context) ? llm_context_get_bytes (context) : 0;
    }
}

/* Of one that has not called since the start, only what it left is known. */
static const char *
describe_kind (const LlmAppAccount *app)
{
  if (app->is_seen)
    return llm_caller_kind_to_string (app->kind);
  return *app->app->id != '\0' ? "" : llm_caller_kind_to_string (LLM_CALLER_HOST);
}

static GVariant *
describe_app (LlmEngine     *self,
              LlmAppAccount *app)
{
  const LlmUserSums sums = llm_engine_sum_user (self, app->app->uid);
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "app-id", "s", app->app->id);
  g_variant_dict_insert (&dict, "uid", "u", app->app->uid);
  g_variant_dict_insert (&dict, "kind", "s", describe_kind (app));
  g_variant_dict_insert (&dict, "contexts", "u", app->n_contexts);
  g_variant_dict_insert (&dict, "calls", "u", app->n_calls);
  g_variant_dict_insert (&dict, "tokens", "t", app->tokens);
  g_variant_dict_insert (&dict, "memory", "t", app->memory);
  g_variant_dict_insert (&dict, "disk", "t", app->disk);
  g_variant_dict_insert (&dict, "requests", "t", app->n_requests);
  g_variant_dict_insert (&dict, "last-used", "t", (guint64) app->last_used);
  g_variant_dict_insert (&dict, "named", "u", sums.named);
  g_variant_dict_insert (&dict, "apps", "u", sums.apps);
  g_variant_dict_insert (&dict, "queue", "u", sums.queue);
  for (guint i = 0; i < LLM_N_QUOTAS; i++)
    {
      double quota = llm_engine_get_quota (self, app, i);
      char type = llm_quotas[i].type;

      g_variant_dict_insert_value (&dict, llm_quotas[i].listed,
                                   type == 'd'   ? g_variant_new_double (quota)
                                   : type == 'u' ? g_variant_new_uint32 ((guint) quota)
                                                 : g_variant_new_uint64 ((guint64) quota));
    }
  return g_variant_dict_end (&dict);
}

GVariant *
llm_engine_list_apps (LlmEngine *self,
                      guint32    uid,
                      gboolean   all_users)
{
  GVariantBuilder builder;
  GHashTableIter iter;
  LlmAppAccount *app;

  llm_engine_sum_contexts (self, NULL);
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  g_hash_table_iter_init (&iter, self->apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &app))
    if (all_users || app->app->uid == uid)
      g_variant_builder_add_value (&builder, describe_app (self, app));
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}
