/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "weights/llm-prepared-cache.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "io/llm-cache-folder.h"
#include "weights/llm-prepare-weights.h"

/* Below the cache folder of all of llmsvc. */
#define SUBFOLDER "weights"
/* Whom the system's service runs as. */
#define SERVICE_USER "llmsvc"

struct _LlmPreparedCache
{
  gatomicrefcount ref_count;

  char *folder;          /* (nullable) */
  gboolean is_shared;
  char *system_folder;   /* (nullable) */
  guint64 limit;
};

LlmPreparedCache *
llm_prepared_cache_new (const char *folder,
                        gboolean    is_shared,
                        const char *system_folder,
                        guint64     limit)
{
  LlmPreparedCache *self = g_new0 (LlmPreparedCache, 1);

  g_atomic_ref_count_init (&self->ref_count);
  self->folder = folder != NULL ? g_build_filename (folder, SUBFOLDER, NULL) : NULL;
  self->is_shared = is_shared;
  if (system_folder != NULL && g_strcmp0 (folder, system_folder) != 0)
    self->system_folder = g_build_filename (system_folder, SUBFOLDER, NULL);
  self->limit = limit;
  return self;
}

LlmPreparedCache *
llm_prepared_cache_ref (LlmPreparedCache *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_prepared_cache_unref (LlmPreparedCache *self)
{
  if (self == NULL || !g_atomic_ref_count_dec (&self->ref_count))
    return;
  g_free (self->folder);
  g_free (self->system_folder);
  g_free (self);
}

gboolean
llm_prepared_is_trusted (uid_t  owner,
                         mode_t mode,
                         uid_t  self,
                         uid_t  service)
{
  if ((mode & (S_IWGRP | S_IWOTH)) != 0)
    return FALSE;
  return owner == 0 || owner == self || (service != (uid_t) -1 && owner == service);
}

static uid_t
find_service_user (void)
{
  char buffer[4096];
  struct passwd entry;
  struct passwd *found = NULL;

  if (getpwnam_r (SERVICE_USER, &entry, buffer, sizeof buffer, &found) != 0 || found == NULL)
    return (uid_t) -1;
  return found->pw_uid;
}

/* --- a file that is there --- */

/* The same for the file that is being written: its time must be one that nothing
 * but its head can know. */
static gboolean
is_untouched (const LlmFileIdentity *identity,
              const LlmPreparedHead *head)
{
  return identity->modified_s == head->modified_s && identity->modified_ns == 0;
}

/* NULL without a word when there is no file, and with one when it is no good. */
static LlmPreparedCopy *
open_file (const LlmPreparedPlan *plan,
           const char            *path,
           gboolean               is_system)
{
  g_autoptr(LlmFileMap) map = NULL;
  g_autoptr(GError) error = NULL;
  LlmFileIdentity identity;
  LlmPreparedHead head;
  const char *reason = NULL;
  int kept_fd;
  int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

  if (fd < 0)
    return NULL;
  kept_fd = fcntl (fd, F_DUPFD_CLOEXEC, 3);
  map = llm_file_map_new_for_fd (fd, path, &error);
  if (map == NULL || kept_fd < 0)
    {
      g_message ("A prepared model is not used: %s",
                 error != NULL ? error->message : g_strerror (errno));
      if (kept_fd >= 0)
        close (kept_fd);
      return NULL;
    }

  llm_file_map_get_identity (map, &identity);
  if (!llm_prepared_is_trusted (identity.uid, identity.mode, geteuid (),
                                is_system ? find_service_user () : (uid_t) -1))
    reason = "others may have written it";
  else if (llm_prepared_head_check (plan, llm_file_map_get_data (map), identity.size, &head,
                                    &reason) &&
           !is_untouched (&identity, &head))
    reason = "it was changed since it was made";
  if (reason != NULL)
    {
      g_message ("The prepared model “%s” is not used: %s", path, reason);
      close (kept_fd);
      return NULL;
    }

  llm_cache_folder_touch (kept_fd);
  /* What this start of the machine has written comes from memory, not from the disk. */
  if (head.boot == llm_prepared_get_boot () ||
      fgetxattr (kept_fd, LLM_PREPARED_VERIFIED, NULL, 0) >= 0)
    {
      close (kept_fd);
      kept_fd = -1;
    }
  return llm_prepared_copy_new_for_file (plan, map, &head, kept_fd, path);
}

/* --- a new one --- */

/* The head goes last: without it the file is nothing. */
static gboolean
write_file (const LlmPreparedPlan  *plan,
            LlmGguf                *gguf,
            guint                   n_threads,
            int                     fd,
            GError                **error)
{
  g_autofree guint64 *checksums = g_new0 (guint64, plan->n_pieces);
  g_autoptr(GBytes) head = NULL;
  struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, { 0 } };
  gconstpointer bytes;
  gsize size;

  if (!llm_prepare_in_file (plan, gguf, n_threads, fd, checksums, error))
    return FALSE;

  times[1].tv_sec = g_get_real_time () / G_USEC_PER_SEC;
  head = llm_prepared_head_new (plan, checksums, times[1].tv_sec, llm_prepared_get_boot ());
  bytes = g_bytes_get_data (head, &size);
  if (!llm_prepare_write (fd, bytes, size, 0) || futimens (fd, times) < 0)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED, "Can't write: %s",
                   g_strerror (errno));
      return FALSE;
    }
  return TRUE;
}

/* The file is used at once, from where its pages are: in memory. */
static LlmPreparedCopy *
map_part (const LlmPreparedPlan  *plan,
          int                     fd,
          const char             *part,
          const char             *path,
          GError                **error)
{
  g_autoptr(LlmFileMap) map = NULL;
  int map_fd = fcntl (fd, F_DUPFD_CLOEXEC, 3);

  if (map_fd < 0)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED, "Can't map “%s”: %s", path,
                   g_strerror (errno));
      return NULL;
    }
  map = llm_file_map_new_for_fd (map_fd, part, error);
  return map != NULL ? llm_prepared_copy_new_for_part (plan, map, fd, part, path) : NULL;
}

/* A model that only some may read is not given to all. */
static gboolean
may_share (const LlmPreparedCache *self,
           const LlmPreparedPlan  *plan)
{
  return self->is_shared && (plan->source.mode & S_IROTH) != 0;
}

static LlmPreparedCopy *
make_file (LlmPreparedCache       *self,
           const LlmPreparedPlan  *plan,
           LlmGguf                *gguf,
           guint                   n_threads,
           const char             *path,
           GError                **error)
{
  g_autofree char *part = NULL;
  LlmPreparedCopy *copy = NULL;
  int fd;

  if (!llm_cache_folder_make (self->folder, self->is_shared, error) ||
      !llm_cache_folder_make_room (self->folder, plan->file_bytes, self->limit, error))
    return NULL;
  fd = llm_cache_folder_create (self->folder, may_share (self, plan), plan->file_bytes, &part,
                                error);
  if (fd < 0)
    return NULL;

  if (write_file (plan, gguf, n_threads, fd, error))
    copy = map_part (plan, fd, part, path, error);
  if (copy == NULL)
    {
      unlink (part);
      close (fd);
    }
  return copy;
}

/* (nullable): NULL without an error when there is none. */
static LlmPreparedCopy *
find_file (LlmPreparedCache      *self,
           const LlmPreparedPlan *plan,
           const char            *name,
           const char            *path)
{
  LlmPreparedCopy *copy = NULL;

  if (self->system_folder != NULL)
    {
      g_autofree char *system_path = g_build_filename (self->system_folder, name, NULL);

      copy = open_file (plan, system_path, TRUE);
    }
  if (copy == NULL && path != NULL)
    {
      copy = open_file (plan, path, self->is_shared);
      /* What is no good would stay in the way of a new one. */
      if (copy == NULL)
        unlink (path);
    }
  return copy;
}

static LlmPreparedCopy *
make_in_memory (const LlmPreparedPlan  *plan,
                LlmGguf                *gguf,
                guint                   n_threads,
                GError                **error)
{
  g_autoptr(LlmPreparedCopy) copy = llm_prepared_copy_new_in_memory (plan);

  if (copy == NULL)
    {
      llm_gguf_fail (gguf, error, LLMSVC_ERROR_NO_MEMORY,
                     "there is no memory for its %ju bytes of weights", plan->bytes);
      return NULL;
    }
  if (!llm_prepare_in_memory (plan, gguf, n_threads, llm_prepared_copy_get_memory (copy), error))
    return NULL;
  return g_steal_pointer (&copy);
}

LlmPreparedCopy *
llm_prepared_cache_get (LlmPreparedCache       *self,
                        const LlmPreparedPlan  *plan,
                        LlmGguf                *gguf,
                        guint                   n_threads,
                        GError                **error)
{
  g_autofree char *name = llm_prepared_plan_get_name (plan);
  g_autofree char *path = NULL;
  g_autoptr(GError) local_error = NULL;
  LlmPreparedCopy *copy = NULL;
  gboolean is_new = TRUE;

  /* A model in memory is no file that could be found again. */
  if (self != NULL && plan->source.inode != 0)
    {
      if (self->folder != NULL)
        path = g_build_filename (self->folder, name, NULL);
      copy = find_file (self, plan, name, path);
      is_new = copy == NULL;
      if (copy == NULL && path != NULL)
        copy = make_file (self, plan, gguf, n_threads, path, &local_error);
      /* no fault of the folder's */
      if (g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL))
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return NULL;
        }
      if (local_error != NULL)
        g_message ("The model is prepared anew with each start: %s", local_error->message);
    }
  if (copy == NULL)
    copy = make_in_memory (plan, gguf, n_threads, error);
  if (copy != NULL)
    llm_prepared_copy_start (copy, plan, is_new ? gguf : NULL);
  return copy;
}

char *
llm_prepared_cache_make (LlmPreparedCache       *self,
                         const LlmPreparedPlan  *plan,
                         LlmGguf                *gguf,
                         guint                   n_threads,
                         GError                **error)
{
  g_autofree char *name = llm_prepared_plan_get_name (plan);
  g_autofree char *path = g_build_filename (self->folder, name, NULL);
  g_autoptr(LlmPreparedCopy) copy = open_file (plan, path, self->is_shared);

  if (copy != NULL)
    return g_steal_pointer (&path);
  unlink (path);
  copy = make_file (self, plan, gguf, n_threads, path, error);
  if (copy == NULL)
    return NULL;
  llm_prepared_copy_start (copy, plan, gguf);
  llm_prepared_copy_wait_for_all ();
  if (!g_file_test (path, G_FILE_TEST_IS_REGULAR))
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED, "“%s” could not be kept", path);
      return NULL;
    }
  return g_steal_pointer (&path);
}
