/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The draft of the model in use: which model the configuration names, when it is loaded and
 * unloaded, and how many drafted tokens are accepted. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "engine/models/llm-engine-models.h"

#include <string.h>

#include "common/llmsvc-error.h"
#include "decoding/draft/llm-draft-decoder.h"
#include "decoding/draft/llm-lookup-source.h"
#include "runtime/llm-own-draft.h"
#include "weights/llm-repacked-cache.h"

const char *
llm_engine_find_draft (LlmEngine  *self,
                       const char *model)
{
  const char *of_all = NULL;

  for (guint i = 0; self->settings->drafts != NULL && self->settings->drafts[i] != NULL; i++)
    {
      const char *entry = self->settings->drafts[i];
      const char *colon = strrchr (entry, ':');
      gsize n = colon != NULL ? (gsize) (colon - entry) : 0;

      if (colon == NULL && *entry != '\0')
        of_all = entry;
      else if (colon != NULL && n == strlen (model) && strncmp (entry, model, n) == 0)
        return colon + 1;
    }
  /* a model is not its own draft */
  return g_strcmp0 (of_all, model) != 0 ? of_all : NULL;
}

gboolean
llm_engine_is_draft (LlmEngine  *self,
                     const char *id)
{
  for (guint i = 0; self->settings->drafts != NULL && self->settings->drafts[i] != NULL; i++)
    {
      const char *entry = self->settings->drafts[i];
      const char *colon = strrchr (entry, ':');

      if (g_str_equal (colon != NULL ? colon + 1 : entry, id))
        return TRUE;
    }
  return FALSE;
}

void
llm_engine_check_drafts (LlmEngine *self)
{
  for (guint i = 0; !self->drafts.has_checked_drafts && self->settings->drafts != NULL
                    && self->settings->drafts[i] != NULL; i++)
    {
      g_auto(GStrv) names = g_strsplit (self->settings->drafts[i], ":", -1);

      for (guint k = 0; names[k] != NULL; k++)
        if (*names[k] != '\0' && llm_catalogue_find (self->catalogue.models, names[k]) == NULL)
          g_message ("“draft” of [model] in the configuration names “%s”, and there is no such model",
                     names[k]);
    }
  self->drafts.has_checked_drafts = TRUE;
}

char *
llm_engine_explain_draft (LlmEngine          *self,
                          const LlmModelInfo *info)
{
  const char *id = llm_engine_find_draft (self, info->id);
  const LlmModelInfo *draft = id != NULL ? llm_catalogue_find (self->catalogue.models, id) : NULL;

  if (id == NULL)
    return g_strdup ("");
  if (draft == NULL)
    return g_strdup_printf ("There is no model “%s”, which the configuration names as a draft", id);
  if (draft->error != NULL)
    return g_strdup (draft->error->message);
  if (info == self->use.active && self->drafts.draft_error != NULL)
    return g_strdup (self->drafts.draft_error->message);
  return g_strdup ("");
}

/* (transfer none): of @source, `lookup`, `own` or the id of a model, for the model in use. */
static LlmDraftRecord *
get_record (LlmEngine  *self,
            const char *source)
{
  const char *id = self->use.active != NULL ? self->use.active->id : "";
  g_autofree char *key = g_strdup_printf ("%s\n%s", id, source);
  LlmDraftRecord *record = g_hash_table_lookup (self->drafts.draft_records, key);

  if (record == NULL)
    {
      record = llm_draft_record_new ();
      g_hash_table_insert (self->drafts.draft_records, g_steal_pointer (&key), record);
    }
  return record;
}

LlmDraftSums
llm_engine_sum_drafts (LlmEngine  *self,
                       const char *model)
{
  g_autofree char *prefix = g_strdup_printf ("%s\n", model != NULL ? model : "");
  GHashTableIter iter;
  const char *key;
  const LlmDraftRecord *record;
  LlmDraftSums sums = { 0 };

  g_hash_table_iter_init (&iter, self->drafts.draft_records);
  while (g_hash_table_iter_next (&iter, (gpointer *) &key, (gpointer *) &record))
    if (model == NULL || g_str_has_prefix (key, prefix))
      {
        sums.n_drafted += record->n_drafted;
        sums.n_accepted += record->n_accepted;
        sums.n_passes += record->n_passes;
      }
  return sums;
}

/* --- loading --- */

/* The thread that loads reads the settings, which do not change, and counts in the ledger. */
typedef struct
{
  LlmModelInfo *info;      /* (owned) */
  LlmModel *target;        /* (owned): the model that it drafts for */
  LlmDraftModel *draft;    /* (nullable) (owned) */
} DraftLoad;

static void
draft_load_free (DraftLoad *load)
{
  llm_model_info_unref (load->info);
  llm_model_unref (load->target);
  g_clear_pointer (&load->draft, llm_draft_model_unref);
  g_free (load);
}

static void
run_load (GTask        *task,
          gpointer      source,
          gpointer      data,
          GCancellable *cancellable)
{
  LlmEngine *self = source;
  const LlmSettings *settings = self->settings;
  DraftLoad *load = data;
  g_autoptr(LlmRepackedCache) cache = llm_engine_open_cache (settings);
  GError *error = NULL;
  g_autoptr(LlmModel) model = llm_model_info_open (load->info, &error);
  LlmWeights *weights = NULL;

  if (model != NULL)
    weights = llm_weights_new_repacked (llm_model_get_gguf (model), llm_model_get_hparams (model),
                                        NULL, cache, settings->n_threads, self->ledger, &error);
  if (weights != NULL)
    {
      load->draft = llm_draft_model_new (model, weights,
                                         settings->kernels != NULL
                                           ? llk_ops_find (settings->kernels)
                                           : llk_ops_best (),
                                         settings->n_threads, self->ledger);
      if (llm_draft_model_check (load->draft, load->target, &error))
        {
          g_task_return_boolean (task, TRUE);
          return;
        }
    }
  g_task_return_error (task, error);
}

static void
on_loaded (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  LlmEngine *self = (LlmEngine *) source;
  DraftLoad *load = g_task_get_task_data (G_TASK (result));
  g_autoptr(GError) error = NULL;
  gboolean is_good = g_task_propagate_boolean (G_TASK (result), &error);

  self->drafts.is_loading_draft = FALSE;
  if (self->use.model != load->target)
    {
      llm_engine_load_draft (self);
      return;
    }
  if (is_good)
    {
      self->drafts.draft = g_steal_pointer (&load->draft);
      self->drafts.draft_target = self->use.model;
      g_free (self->drafts.draft_id);
      self->drafts.draft_id = g_strdup (load->info->id);
      self->counters.draft_loads++;
      return;
    }
  g_message ("%s can't guess for another model: %s", load->info->id, error->message);
  g_clear_error (&self->drafts.draft_error);
  self->drafts.draft_error = g_steal_pointer (&error);
}

void
llm_engine_load_draft (LlmEngine *self)
{
  const char *id = self->use.model != NULL && self->use.active != NULL
                     ? llm_engine_find_draft (self, self->use.active->id)
                     : NULL;
  LlmModelInfo *info = NULL;
  g_autoptr(GTask) task = NULL;
  DraftLoad *load;

  if (id == NULL || self->drafts.draft != NULL || self->drafts.draft_error != NULL
      || self->drafts.is_loading_draft)
    return;
  info = llm_catalogue_find (self->catalogue.models, id);
  if (info == NULL || info->error != NULL)
    {
      if (info != NULL)
        self->drafts.draft_error = g_error_copy (info->error);
      else
        llm_fail (&self->drafts.draft_error, LLMSVC_ERROR_NOT_FOUND,
                  "There is no model “%s”, which the configuration names as a draft", id);
      g_message ("%s can't guess for another model: %s", id, self->drafts.draft_error->message);
      return;
    }
  /* nothing is evicted for it */
  if (!llm_ledger_has_room (self->ledger, info->file_bytes))
    return;
  load = g_new0 (DraftLoad, 1);
  load->info = llm_model_info_ref (info);
  load->target = llm_model_ref (self->use.model);
  task = g_task_new (self, NULL, on_loaded, NULL);
  g_task_set_task_data (task, load, (GDestroyNotify) draft_load_free);
  self->drafts.is_loading_draft = TRUE;
  g_task_run_in_thread (task, run_load);
}

guint64
llm_engine_drop_draft (LlmEngine *self)
{
  guint64 bytes = llm_engine_get_draft_bytes (self);

  g_clear_pointer (&self->drafts.draft, llm_draft_model_unref);
  g_clear_pointer (&self->drafts.draft_id, g_free);
  self->drafts.draft_target = NULL;
  return bytes;
}

guint64
llm_engine_get_draft_bytes (LlmEngine *self)
{
  return self->drafts.draft != NULL ? llm_draft_model_get_bytes (self->drafts.draft) : 0;
}

/* Drops the configured draft: a later call loads it again when it fits. */
static guint64
get_idle_bytes (gpointer holder)
{
  LlmEngine *self = holder;

  return self->calls.n_requests_running == 0 && self->drafts.draft_id != NULL
           ? llm_engine_get_draft_bytes (self)
           : 0;
}

static void
give_draft (gpointer       holder,
            guint64        bytes,
            gint64         deadline_us,
            LlmReclaimDone done,
            gpointer       data)
{
  LlmEngine *self = holder;

  done (self->calls.n_requests_running == 0 ? llm_engine_drop_draft (self) : 0, data);
}

void
llm_engine_add_draft_reclaimer (LlmEngine *self)
{
  const LlmReclaimer reclaimer = {
    "draft", LLM_RECLAIM_COSTLY, get_idle_bytes, give_draft, .holder = self,
  };

  llm_ledger_add_reclaimer (self->ledger, &reclaimer);
}

void
llm_engine_set_draft (LlmEngine     *self,
                      LlmDraftModel *draft)
{
  llm_engine_drop_draft (self);
  self->drafts.draft = llm_draft_model_ref (draft);
}

/* --- an answer --- */

/* Whether a call may use the draft called @name. An application can't load a draft that the
 * administrator has not configured. */
static gboolean
check_name (LlmEngine  *self,
            const char *name,
            GError    **error)
{
  const char *model = self->use.active != NULL ? self->use.active->id : "";
  const char *own = llm_engine_find_draft (self, model);

  if (own == NULL)
    return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                     "draft: “%s” does not guess for the model “%s” here; use auto, off, own or "
                     "lookup, or name it as “draft” of [model] in the configuration", name, model);
  if (!g_str_equal (name, own))
    return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                     "draft: “%s” does not guess for the model “%s” here; “%s” does, or use "
                     "auto, off, own or lookup", name, model, own);
  if (self->drafts.draft_error != NULL)
    {
      g_propagate_error (error, g_error_copy (self->drafts.draft_error));
      return FALSE;
    }
  return TRUE;
}

/* Whether the model guesses for itself: where a call says so; or where it may be so, no draft is
 * configured, and its weights stream, so that steps of what stays of them cost little. */
static gboolean
drafts_itself (LlmEngine        *self,
               const LlmRequest *request,
               const char       *draft)
{
  const LlmSubModels *table = llm_engine_get_sub_models (self);

  return g_str_equal (draft, "own")
         || (g_str_equal (draft, "auto") && self->drafts.draft == NULL && table != NULL
             && llm_engine_find_draft (self, self->use.active != NULL ? self->use.active->id : "") == NULL
             && table->percent[0] < request->model.sub_model
             && llm_engine_get_figures (self).stream.pass_bytes > 0);
}

gboolean
llm_engine_add_draft (LlmEngine      *self,
                      LlmRequest     *request,
                      LlmCallOptions *options,
                      GError        **error)
{
  const char *draft = llm_call_options_get_string (options, LLMSVC_OPTION_DRAFT, "off");
  gboolean looks_up = g_str_equal (draft, "lookup");
  gboolean is_own = drafts_itself (self, request, draft);
  LlmDraftSource *source;

  /* a tree is verified in one step with all weights, while each row of a sparse answer leaves out
   * its own */
  if (g_str_equal (draft, "off") || request->model.sparsity > 0)
    return TRUE;
  if (is_own && llm_engine_get_sub_models (self) == NULL)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "draft: this model has no sub-model that could guess for it; prepare it with "
                     "llmsvc-elastic, or use auto, off or lookup");
  if (!looks_up && !is_own)
    llm_engine_load_draft (self);
  if (!looks_up && !is_own && !g_str_equal (draft, "auto") && !check_name (self, draft, error))
    return FALSE;
  if (is_own)
    {
      request->draft_record = llm_draft_record_ref (get_record (self, "own"));
      source = request->own_draft = llm_own_draft_new ();
    }
  else if (looks_up || self->drafts.draft == NULL)
    {
      request->draft_record = llm_draft_record_ref (get_record (self, "lookup"));
      source = llm_lookup_source_new ();
    }
  else
    {
      if (self->drafts.draft_target != self->use.model
          && !llm_draft_model_check (self->drafts.draft, self->use.model, error))
        return FALSE;
      self->drafts.draft_target = self->use.model;
      request->draft_record = llm_draft_record_ref (
        get_record (self, self->drafts.draft_id != NULL ? self->drafts.draft_id : "file"));
      source = llm_draft_model_new_source (self->drafts.draft);
    }
  request->decoder = llm_decoder_new_drafting (request->decoder, source, &LLM_GROWTH_CONFIG_BEST,
                                               request->draft_record);
  return TRUE;
}
