/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Token counts are those of the model in use, and models differ: after a change of the model,
 * contexts are counted again, one after the other, in a thread of GLib's pool. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/contexts/llm-engine-contexts.h"
#include "engine/calls/llm-call.h"

typedef struct
{
  LlmEngine *engine;      /* (owned) */
  LlmContext *context;    /* (owned) */
  LlmModel *model;        /* (nullable) (owned) */
  guint64 revision;
  guint n_turns;
  gboolean was_read;      /* its text was in memory before */
} Count;

static void count_next (LlmEngine *self);

/* Ends one count and begins the next. */
static void
end_count (Count *count)
{
  LlmEngine *engine = count->engine;
  LlmContext *context = count->context;

  context->is_counting = FALSE;
  if (!count->was_read && context->conversation != NULL && llm_context_is_named (context)
      && !context->is_busy && context->n_loading == 0)
    llm_context_forget (context);
  engine->store.is_counting = FALSE;
  /* a turn was added meanwhile, or the model has changed */
  if (count->model != NULL
      && (context->revision != count->revision || engine->use.model != count->model))
    llm_engine_count_later (engine, context);
  count_next (engine);
  g_object_unref (context);
  g_clear_pointer (&count->model, llm_model_unref);
  g_free (count);
  g_object_unref (engine);
}

static void
ignore_stored (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  /* it is counted again after the next start */
}

static void
take_count (Count *count,
            guint  n_tokens)
{
  LlmEngine *engine = count->engine;
  LlmContext *context = count->context;
  const char *identity = llm_model_get_identity (count->model);

  if (context->is_closed || engine->store.db == NULL || count->n_turns == 0
      || context->revision != count->revision || engine->use.model != count->model)
    return;
  if (context->conversation != NULL)
    llm_conversation_set_count (context->conversation, identity, n_tokens);
  context->n_counted = n_tokens;
  g_free (context->counted_by);
  context->counted_by = g_strdup (identity);
  if (llm_context_is_named (context))
    {
      LlmStoredContext *stored = llm_stored_context_new ();

      stored->id = g_strdup (context->id);
      stored->n_turns = count->n_turns;
      stored->n_tokens = n_tokens;
      stored->counted_by = g_strdup (identity);
      llm_db_run_async (engine->store.db, llm_store_set_count, stored,
                        (GDestroyNotify) llm_stored_context_free, ignore_stored, NULL);
    }
}

static void
on_prepared (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  Count *count = data;
  /* if the model can't express the messages, the next call reports it */
  g_autoptr(GArray) tokens = llm_prepare_finish (result, NULL, NULL, NULL);

  if (tokens != NULL)
    take_count (count, tokens->len);
  end_count (count);
}

static void
on_read (GObject      *source,
         GAsyncResult *result,
         gpointer      data)
{
  Count *count = data;
  LlmContext *context = count->context;
  LlmEngine *engine = count->engine;

  if (!llm_context_load_finish (context, result, NULL) || engine->use.model == NULL
      || llm_conversation_is_counted (context->conversation,
                                      llm_model_get_identity (engine->use.model)))
    {
      end_count (count);
      return;
    }
  count->model = llm_model_ref (engine->use.model);
  count->revision = context->revision;
  count->n_turns = context->conversation->turns->len;
  llm_prepare_async (count->model,
                     llm_context_make_input (context, count->model,
                                             llm_model_get_template (count->model, NULL), NULL,
                                             LLM_THINKING_AUTO, 100, NULL, FALSE),
                     on_prepared, count);
}

static void
count_next (LlmEngine *self)
{
  LlmContext *context;
  Count *count;

  if (self->store.is_counting || self->store.db == NULL || self->use.model == NULL)
    return;
  while ((context = g_queue_pop_head (&self->store.uncounted)) != NULL && context->is_closed)
    g_object_unref (context);
  if (context == NULL)
    return;
  self->store.is_counting = TRUE;
  count = g_new0 (Count, 1);
  count->engine = g_object_ref (self);
  count->context = context;
  count->was_read = context->conversation != NULL;
  llm_context_load (context, on_read, count);
}

void
llm_engine_count_later (LlmEngine  *self,
                        LlmContext *context)
{
  if (context->is_counting || context->is_closed || context->damage != NULL
      || llm_context_is_counted (context))
    return;
  context->is_counting = TRUE;
  g_queue_push_tail (&self->store.uncounted, g_object_ref (context));
  count_next (self);
}

void
llm_engine_count_all (LlmEngine *self)
{
  GHashTableIter iter;
  LlmContext *context;

  g_hash_table_iter_init (&iter, self->store.contexts);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    llm_engine_count_later (self, context);
  /* some may wait since the last model was unloaded */
  count_next (self);
}
