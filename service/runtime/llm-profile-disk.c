/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "runtime/llm-profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/llm-clock.h"
#include "base/llm-fail.h"
#include "common/llmsvc-error.h"

/* Enough to hide the overhead of a single request, few enough for a slow card. */
#define ROUND_REQUESTS 16
#define ROUND_BYTES ((gsize) ROUND_REQUESTS * LLM_DISK_MAX_BYTES)
/* The median of so many rounds counts, because a round may be disturbed. */
#define N_ROUNDS 5
/* Single blocks, each of which is read after the one before has arrived. */
#define N_SINGLES 15
/* Distance of rounds: any odd number spreads the single blocks over the file. */
#define SPREAD 1237

typedef enum
{
  PHASE_WRITE,
  PHASE_READ,
  PHASE_SINGLE,
  N_PHASES,
} Phase;

static const guint n_rounds[N_PHASES] = { N_ROUNDS, N_ROUNDS, N_SINGLES };

/* Held by its owner, and by each request under way. */
struct _LlmDiskProbe
{
  guint n_holders;
  LlmDisk *disk;           /* (unowned) */
  char *folder;            /* as people read it */
  int fd;
  Phase phase;
  guint round;
  guint n_pending;
  int error;               /* errno of what failed, 0 */
  gint64 begun_us;
  double us[N_PHASES][MAX (N_ROUNDS, N_SINGLES)];
};

/* --- the file --- */

static int
open_file (LlmDisk    *disk,
           const char *folder)
{
  g_autofree char *name = g_strdup_printf (".probe-%08x%08x", g_random_int (), g_random_int ());
  int folder_fd = open (folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int fd;

  if (folder_fd < 0)
    return -errno;
  fd = llm_disk_open (disk, folder_fd, name, O_RDWR | O_CREAT | O_EXCL);
  if (fd >= 0)
    unlinkat (folder_fd, name, 0);
  close (folder_fd);
  return fd;
}

LlmDiskProbe *
llm_disk_probe_new (LlmDisk     *disk,
                    const char  *folder,
                    GError     **error)
{
  g_autofree char *shown = g_filename_display_name (folder);
  LlmDiskProbe *self;
  int fd = open_file (disk, folder);

  if (fd < 0)
    return llm_fail_null (error, LLMSVC_ERROR_STORAGE,
                          "The disk under “%s” can't be timed, since no file can be made there: %s",
                          shown, g_strerror (-fd));

  self = g_new0 (LlmDiskProbe, 1);
  self->n_holders = 1;
  self->disk = disk;
  self->folder = g_steal_pointer (&shown);
  self->fd = fd;
  return self;
}

static void
let_go (LlmDiskProbe *self)
{
  if (--self->n_holders > 0)
    return;

  close (self->fd);
  g_free (self->folder);
  g_free (self);
}

void
llm_disk_probe_free (LlmDiskProbe *self)
{
  if (self == NULL)
    return;

  if (self->n_pending > 0)
    llm_disk_cancel (self->disk, self);
  let_go (self);
}

/* --- rounds --- */

/* Not zeros: a file system that compresses would be timed without its disk. */
static void
fill_noise (guint8  *buffer,
            gsize    length,
            gpointer data)
{
  guint64 state = (guint64) (guintptr) buffer | 1;

  for (gsize i = 0; i + sizeof state <= length; i += sizeof state)
    {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      memcpy (buffer + i, &state, sizeof state);
    }
}

static void
on_done (gssize        n,
         const guint8 *buffer,
         gpointer      data)
{
  LlmDiskProbe *self = data;
  gssize expected = self->phase == PHASE_SINGLE ? LLM_DISK_BLOCK : LLM_DISK_MAX_BYTES;

  if (n != expected && self->error == 0)
    self->error = n < 0 ? (int) -n : EIO;
  if (--self->n_pending == 0)
    self->us[self->phase][self->round] = (double) (llm_clock_now_us () - self->begun_us);
  let_go (self);
}

static void
begin_round (LlmDiskProbe *self)
{
  guint64 first = (guint64) self->round * ROUND_BYTES;
  guint n = self->phase == PHASE_SINGLE ? 1 : ROUND_REQUESTS;

  self->n_pending = n;
  self->n_holders += n;
  self->begun_us = llm_clock_now_us ();
  for (guint i = 0; i < n; i++)
    if (self->phase == PHASE_WRITE)
      llm_disk_write (self->disk, LLM_DISK_AHEAD, self->fd, first + i * LLM_DISK_MAX_BYTES,
                      LLM_DISK_MAX_BYTES, fill_noise, on_done, self);
    else if (self->phase == PHASE_READ)
      llm_disk_read (self->disk, LLM_DISK_RESTORE, self->fd, first + i * LLM_DISK_MAX_BYTES,
                     LLM_DISK_MAX_BYTES, on_done, self);
    else
      llm_disk_read (self->disk, LLM_DISK_RESTORE, self->fd,
                     (guint64) self->round * SPREAD % (N_ROUNDS * ROUND_BYTES / LLM_DISK_BLOCK)
                       * LLM_DISK_BLOCK,
                     LLM_DISK_BLOCK, on_done, self);
}

static int
compare_doubles (gconstpointer a,
                 gconstpointer b)
{
  double x = *(const double *) a;
  double y = *(const double *) b;

  return (x > y) - (x < y);
}

/* Not 0: the clock counts microseconds. */
static double
get_median (LlmDiskProbe *self,
            Phase         phase)
{
  qsort (self->us[phase], n_rounds[phase], sizeof (double), compare_doubles);
  return MAX (self->us[phase][n_rounds[phase] / 2], 1);
}

LlmStatus
llm_disk_probe_work (LlmDiskProbe  *self,
                     gint64         until_us,
                     LlmKvProfile  *profile,
                     GError       **error)
{
  while (TRUE)
    {
      if (self->n_pending == 0 && self->error != 0)
        {
          llm_fail (error, LLMSVC_ERROR_STORAGE, "The disk under “%s” can't be timed: %s",
                    self->folder, g_strerror (self->error));
          return LLM_FAILED;
        }
      if (self->n_pending == 0 && self->phase == N_PHASES)
        break;
      if (self->n_pending == 0)
        begin_round (self);

      llm_disk_poll (self->disk, MAX (until_us - llm_clock_now_us (), 0));
      if (self->n_pending == 0 && ++self->round == n_rounds[self->phase])
        {
          self->round = 0;
          self->phase++;
        }
      if (llm_clock_now_us () >= until_us && (self->n_pending > 0 || self->phase < N_PHASES))
        return LLM_PENDING;
    }

  profile->write_bytes_per_us = (double) ROUND_BYTES / get_median (self, PHASE_WRITE);
  profile->read_bytes_per_us = (double) ROUND_BYTES / get_median (self, PHASE_READ);
  profile->read_latency_us = get_median (self, PHASE_SINGLE);
  return LLM_READY;
}
