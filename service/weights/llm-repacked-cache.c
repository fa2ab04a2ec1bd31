/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-repacked-private.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/llm-fail.h"
#include "io/llm-cache-folder.h"

/* Below the cache folder that all of llmsvc uses. */
#define SUBFOLDER "weights"
/* The user of the system's service. */
#define SERVICE_USER "llmsvc"

struct _LlmRepackedCache
{
  char *folder;          /* (nullable) */
  gboolean is_shared;
  char *system_folder;   /* (nullable) */
  guint64 limit;
  guint margin;
  char *spared;          /* (nullable): name of a file that does not go for another */
  LlmRepackProgress *progress;  /* (nullable) (unowned) */
};

LlmRepackedCache *
llm_repacked_cache_new (const char *folder,
                        gboolean    is_shared,
                        const char *system_folder,
                        guint64     limit)
{
  LlmRepackedCache *self = g_new0 (LlmRepackedCache, 1);

  self->folder = folder != NULL ? g_build_filename (folder, SUBFOLDER, NULL) : NULL;
  self->is_shared = is_shared;
  if (system_folder != NULL && g_strcmp0 (folder, system_folder) != 0)
    self->system_folder = g_build_filename (system_folder, SUBFOLDER, NULL);
  self->limit = limit;
  self->margin = 1;
  return self;
}

void
llm_repacked_cache_free (LlmRepackedCache *self)
{
  if (self == NULL)
    return;
  g_free (self->folder);
  g_free (self->system_folder);
  g_free (self->spared);
  g_free (self);
}

gboolean
llm_repacked_is_trusted (uid_t  owner,
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

/* Why the mapped file at @path is not used; NULL when it is valid. */
static const char *
find_fault (const LlmRepackedPlan *plan,
            LlmFileMap            *map,
            gboolean               is_system,
            LlmRepackedHead       *head)
{
  LlmFileIdentity identity;
  const char *reason;

  llm_file_map_get_identity (map, &identity);
  if (!llm_repacked_is_trusted (identity.uid, identity.mode, geteuid (),
                                is_system ? find_service_user () : (uid_t) -1))
    return "others may have written it";
  if (!llm_repacked_head_check (plan, llm_file_map_get_data (map), identity.size, head, &reason))
    return reason;
  /* The same for a file that is being written: its time must be the random one in its head. */
  if (identity.modified_s != head->modified_s || identity.modified_ns != 0)
    return "it was changed since it was made";
  return NULL;
}

/* NULL without a message if the file is missing, and with one if it is not valid. */
static LlmRepacked *
open_file (LlmRepackedPlan *plan,
           const char      *path,
           gboolean         is_system)
{
  g_autoptr(LlmFileMap) map = NULL;
  g_autoptr(GError) error = NULL;
  LlmRepackedHead head;
  LlmRepacked *repacked;
  const char *reason;
  int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

  if (fd < 0)
    return NULL;
  map = llm_file_map_new_for_fd (fd, path, &error);
  if (map == NULL)
    {
      g_message ("A prepared model is not used: %s", error->message);
      return NULL;
    }
  reason = find_fault (plan, map, is_system, &head);
  if (reason != NULL)
    {
      g_message ("The prepared model “%s” is not used: %s", path, reason);
      return NULL;
    }

  llm_cache_folder_touch (fd);
  repacked = llm_repacked_new_for_map (plan, map, path);
  /* A file that was written since the machine started comes from memory, not from the disk. */
  if (head.boot != llm_repacked_get_boot () &&
      fgetxattr (fd, LLM_REPACKED_VERIFIED, NULL, 0) < 0)
    repacked->checksums = g_memdup2 (head.checksums, plan->n_pieces * sizeof (guint64));
  return repacked;
}

/* --- a new one --- */

/* The head is written last: without it the file is not valid. */
static gboolean
write_file (const LlmRepackedPlan  *plan,
            guint                   n_threads,
            int                     fd,
            const char             *path,
            GError                **error)
{
  g_autofree guint64 *checksums = g_new0 (guint64, plan->n_pieces);
  g_autoptr(GBytes) head = NULL;
  struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, { 0 } };
  gconstpointer bytes;
  gsize size;

  if (!llm_repack_in_file (plan, n_threads, fd, path, checksums, error))
    return FALSE;

  times[1].tv_sec = g_get_real_time () / G_USEC_PER_SEC;
  head = llm_repacked_head_new (plan, checksums, times[1].tv_sec, llm_repacked_get_boot ());
  bytes = g_bytes_get_data (head, &size);
  return (llm_cache_folder_write (fd, bytes, size, 0) && futimens (fd, times) == 0) ||
         llm_cache_folder_fail_write (path, errno, error);
}

static LlmRepacked *
make_file (LlmRepackedCache  *self,
           LlmRepackedPlan   *plan,
           guint              n_threads,
           const char        *path,
           GError           **error)
{
  g_autofree char *part = NULL;
  g_autoptr(LlmFileMap) map = NULL;
  LlmRepacked *repacked;
  /* The copy of a model that not all users may read is not shared. */
  gboolean may_share = self->is_shared && (plan->source.mode & S_IROTH) != 0;
  int fd;

  if (!llm_cache_folder_make (self->folder, self->is_shared, error) ||
      !llm_cache_folder_make_room (self->folder, plan->file_bytes, self->limit, self->spared,
                                   error))
    return NULL;
  fd = llm_cache_folder_create (self->folder, may_share, plan->file_bytes, &part, error);
  if (fd < 0)
    return NULL;

  if (write_file (plan, n_threads, fd, part, error))
    map = llm_file_map_new_for_fd (fd, part, error);
  else
    close (fd);
  if (map == NULL)
    {
      unlink (part);
      return NULL;
    }
  /* The file is used at once, while its pages are in memory. */
  repacked = llm_repacked_new_for_map (plan, map, path);
  repacked->part = g_steal_pointer (&part);
  return repacked;
}

/* From the cache's own folder, if it has one. */
static LlmRepacked *
open_or_make_file (LlmRepackedCache  *self,
                   LlmRepackedPlan   *plan,
                   guint              n_threads,
                   const char        *name,
                   GError           **error)
{
  g_autofree char *path = NULL;
  LlmRepacked *repacked;

  if (self->folder == NULL)
    return NULL;
  path = g_build_filename (self->folder, name, NULL);
  repacked = open_file (plan, path, self->is_shared);
  if (repacked != NULL)
    return repacked;

  /* An invalid file would block the new one. */
  unlink (path);
  return make_file (self, plan, n_threads, path, error);
}

void
llm_repacked_cache_set_progress (LlmRepackedCache  *self,
                                 LlmRepackProgress *progress)
{
  self->progress = progress;
}

void
llm_repacked_cache_spare (LlmRepackedCache      *self,
                          const LlmRepackedPlan *plan)
{
  g_free (self->spared);
  self->spared = llm_repacked_plan_get_name (plan);
}

void
llm_repacked_cache_set_margin (LlmRepackedCache *self,
                               guint             times)
{
  self->margin = times;
}

/* In memory that the kernel can't reclaim. @reason: (nullable): why no file is used. */
static LlmRepacked *
make_in_memory (LlmRepackedPlan  *plan,
                guint             n_threads,
                guint             margin,
                LlmLedger        *ledger,
                const GError     *reason,
                GError          **error)
{
  guint64 wanted = plan->bytes > G_MAXUINT64 / margin ? G_MAXUINT64 : plan->bytes * margin;

  if (ledger != NULL && !llm_ledger_has_room (ledger, wanted))
    return llm_gguf_fail_null (
      plan->gguf, error, LLMSVC_ERROR_NO_MEMORY,
      margin > 1 ? "the service crashed when it held its %ju bytes of weights in memory, and there is "
                   "not much more room now; they can't be read from a prepared copy piece by piece: %s"
                 : "its %ju bytes of weights have no room in memory, and can't be read from a prepared "
                   "copy piece by piece: %s",
      plan->bytes, reason != NULL ? reason->message : "no folder is set for copies");
  if (reason != NULL)
    g_message ("The model is prepared anew with each start: %s", reason->message);
  return llm_repacked_new_in_memory (plan, n_threads, error);
}

/* @name: of the file. */
static LlmRepacked *
open_system_file (LlmRepackedCache *self,
                  LlmRepackedPlan  *plan,
                  const char       *name)
{
  g_autofree char *path = NULL;

  if (self->system_folder == NULL)
    return NULL;
  path = g_build_filename (self->system_folder, name, NULL);
  return open_file (plan, path, TRUE);
}

LlmRepacked *
llm_repacked_cache_find (LlmRepackedCache *self,
                         LlmRepackedPlan  *plan)
{
  g_autofree char *name = llm_repacked_plan_get_name (plan);
  g_autofree char *path = self->folder != NULL ? g_build_filename (self->folder, name, NULL) : NULL;
  LlmRepacked *repacked = NULL;

  if (plan->source.inode != 0)
    repacked = open_system_file (self, plan, name);
  if (repacked == NULL && plan->source.inode != 0 && path != NULL)
    repacked = open_file (plan, path, self->is_shared);
  if (repacked == NULL)
    return NULL;
  llm_repacked_set_dropped (repacked, TRUE);
  llm_repacked_start (repacked);
  return repacked;
}

LlmRepacked *
llm_repacked_cache_get_file (LlmRepackedCache  *self,
                             LlmRepackedPlan   *plan,
                             guint              n_threads,
                             GError           **error)
{
  g_autofree char *name = llm_repacked_plan_get_name (plan);
  LlmRepacked *repacked = NULL;

  /* A model in memory can't be found again by its file. */
  if (plan->source.inode == 0)
    return NULL;
  repacked = open_system_file (self, plan, name);
  plan->progress = self->progress;
  if (repacked == NULL)
    repacked = open_or_make_file (self, plan, n_threads, name, error);
  plan->progress = NULL;
  if (repacked != NULL)
    llm_repacked_start (repacked);
  return repacked;
}

LlmRepacked *
llm_repacked_cache_get (LlmRepackedCache  *self,
                        LlmRepackedPlan   *plan,
                        guint              n_threads,
                        LlmLedger         *ledger,
                        GError           **error)
{
  g_autoptr(GError) local_error = NULL;
  LlmRepacked *repacked =
    self != NULL ? llm_repacked_cache_get_file (self, plan, n_threads, &local_error) : NULL;

  if (repacked != NULL)
    return repacked;
  /* the folder is not the cause */
  if (g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL))
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return NULL;
    }
  plan->progress = self != NULL ? self->progress : NULL;
  repacked = make_in_memory (plan, n_threads, self != NULL ? self->margin : 1, ledger, local_error,
                             error);
  plan->progress = NULL;
  if (repacked != NULL)
    llm_repacked_start (repacked);
  return repacked;
}

char *
llm_repacked_cache_make (LlmRepackedCache  *self,
                         LlmGguf           *gguf,
                         const LlmHparams  *hparams,
                         guint              n_threads,
                         GError           **error)
{
  g_autoptr(LlmRepackedPlan) plan = llm_repacked_plan_new (gguf, hparams, NULL, NULL, error);
  g_autoptr(LlmRepacked) repacked = NULL;
  g_autofree char *name = NULL;
  g_autofree char *path = NULL;

  if (plan == NULL)
    return NULL;
  name = llm_repacked_plan_get_name (plan);
  path = g_build_filename (self->folder, name, NULL);
  repacked = open_or_make_file (self, plan, n_threads, name, error);
  if (repacked == NULL)
    return NULL;
  if (repacked->part == NULL)
    return g_steal_pointer (&path);

  llm_repacked_start (repacked);
  llm_repacked_wait_for_all ();
  if (!g_file_test (path, G_FILE_TEST_IS_REGULAR))
    return llm_fail_null (error, LLMSVC_ERROR_FAILED, "“%s” could not be kept", path);
  return g_steal_pointer (&path);
}
