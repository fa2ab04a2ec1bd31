/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Checks whether the KV cache on storage was computed with these weights. A sample of the weights
 * is part of the identity of all K and V. A file with the same sample may still be another one, or
 * was changed: then its checksum decides, which is computed while nothing runs. Until then nothing
 * on storage is used. */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-upkeep.h"

/* The file is read when no request has run for this time. */
#define CHECK_IDLE_US (2 * G_USEC_PER_SEC)

static void
set_lineage (LlmWeightRecord *record)
{
  *record = (LlmWeightRecord) { 0 };
  while (record->lineage == 0)
    record->lineage = (guint64) g_random_int () << 32 | g_random_int ();
}

/* Called when the checksum of the file is known to be @digits. */
static void
save_record (LlmRunner  *self,
             const char *digits)
{
  g_autoptr(GError) error = NULL;

  self->check.record.file = self->check.file;
  g_strlcpy (self->check.record.checksum, digits, sizeof self->check.record.checksum);
  if (!llm_weight_record_save (self->executor->config.chunks_folder,
                               llm_model_get_weight_identity (self->instance->model),
                               &self->check.record, &error))
    g_message ("What contexts remember is computed again after the next start: %s", error->message);
}

static void
warn (LlmRunner *self)
{
  g_warning ("The model “%s” has other weights than the one that contexts were computed with, "
             "though it looks alike: what is kept of them is computed again",
             llm_model_get_gguf (self->instance->model)->path);
}

/* The known checksum of the file: that of this very file, or that of the record's file, if it is
 * the same file on a device with another number. */
static gboolean
find_checksum (LlmRunner             *self,
               const LlmWeightRecord *known,
               char                  *digits)
{
  if (known->lineage != 0 && known->checksum[0] != '\0'
      && llm_file_identity_equal (&known->file, &self->check.file, FALSE))
    {
      g_strlcpy (digits, known->checksum, LLM_FILE_SUM_DIGITS + 1);
      return TRUE;
    }
  return llm_checksum_load (self->executor->config.cache_folder, &self->check.file, digits);
}

void
llm_runner_begin_check (LlmRunner *self)
{
  LlmWeightCheck *check = &self->check;
  LlmWeightRecord known = { 0 };
  char digits[LLM_FILE_SUM_DIGITS + 1] = "";
  gboolean is_known, is_same;

  g_assert (check->sum == NULL);
  *check = (LlmWeightCheck) { .is_done = TRUE };
  if (self->executor->upkeep.storage == NULL
      || !llm_file_map_get_identity (llm_model_get_gguf (self->instance->model)->map,
                                     &check->file))
    return;

  if (!llm_weight_record_load (self->executor->config.chunks_folder,
                               llm_model_get_weight_identity (self->instance->model), &known))
    known.lineage = 0;
  is_known = find_checksum (self, &known, digits);
  is_same = known.lineage != 0 && llm_file_identity_equal (&known.file, &check->file, FALSE);
  check->is_done = is_known;
  check->record = known;
  check->holds_back = known.lineage != 0 && !is_same && known.checksum[0] != '\0' && !is_known;
  if (check->holds_back)
    {
      g_message ("The model's file is another one or was changed: what is kept of contexts is not "
                 "used until its checksum is known");
      return;
    }

  if (known.lineage == 0 || (!is_same && known.checksum[0] == '\0'))
    set_lineage (&check->record);
  else if (is_known && known.checksum[0] != '\0' && !g_str_equal (known.checksum, digits))
    {
      warn (self);
      set_lineage (&check->record);
    }
  save_record (self, digits);
}

gint64
llm_runner_get_check_time (LlmRunner *self)
{
  if (self->check.is_done
      || __atomic_load_n (&self->executor->steps.pace, __ATOMIC_ACQUIRE) == LLM_PACE_WAIT
      || __atomic_load_n (&self->executor->memory.is_pressed, __ATOMIC_ACQUIRE))
    return 0;
  return self->executor->steps.ran_us + CHECK_IDLE_US;
}

/* The file's checksum is @digits. TRUE when storage may be used from now on: what was computed
 * since is computed once more, or found there. */
static gboolean
settle (LlmRunner  *self,
        const char *digits)
{
  LlmWeightCheck *check = &self->check;
  const LlmExecutorConfig *config = &self->executor->config;
  gboolean held_back = check->holds_back;
  g_autoptr(GError) error = NULL;

  if (config->cache_folder != NULL
      && !llm_checksum_save (config->cache_folder, config->shares_cache, &check->file, digits,
                             &error))
    g_message ("The model's checksum is computed again with the next start: %s", error->message);
  if (held_back && !g_str_equal (check->record.checksum, digits))
    {
      warn (self);
      set_lineage (&check->record);
    }
  save_record (self, digits);
  check->holds_back = FALSE;
  return held_back;
}

gboolean
llm_runner_work_check (LlmRunner *self,
                       gboolean  *reopens)
{
  LlmWeightCheck *check = &self->check;
  gint64 then_us = llm_runner_get_check_time (self);
  LlmDisk *disk;
  char digits[LLM_FILE_SUM_DIGITS + 1];
  g_autoptr(GError) error = NULL;
  LlmStatus status = LLM_FAILED;

  *reopens = FALSE;
  if (self->executor->requests->len > 0 || then_us == 0 || llm_clock_now_us () < then_us)
    return FALSE;

  disk = llm_kv_storage_get_disk (self->executor->upkeep.storage);
  if (check->sum == NULL)
    check->sum = llm_file_sum_new (
      disk, llm_model_get_gguf (self->instance->model)->map, &error);
  if (check->sum != NULL)
    status = llm_file_sum_work (check->sum, digits, &error);
  if (status == LLM_PENDING)
    {
      llm_disk_poll (disk, DISK_WAIT_US);
      return TRUE;
    }

  g_clear_pointer (&check->sum, llm_file_sum_free);
  check->is_done = TRUE;
  if (status == LLM_READY)
    *reopens = settle (self, digits);
  else
    g_message ("The checksum of the model's file is not known: %s", error->message);
  llm_disk_trim (disk);
  return FALSE;
}
