/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl doctor: how fast memory and the disk are, which decides what models are of use here. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/doctor/llmctl-doctor.h"

#include <errno.h>
#include <glib/gi18n.h>
#include <glib/gstdio.h>
#include <string.h>

#include "llmctl/output/llmctl-output.h"

#define MAX_FILE 65536

/* What is read to measure: more than caches hold. Nothing is measured where less than so many times
 * as much is free. */
#define BLOCK_BYTES    ((gsize) 4 << 20)
#define N_BLOCKS       64
#define LEAST_FREE     4
#define MEASURE_ROUNDS 4

/* Below it, in bytes for each µs, a disk is slow. */
#define SLOW_DISK 50

/* --- memory --- */

typedef struct
{
  const char *bytes;
  guint n_blocks;
  guint n_found;
  GArray *times;               /* (element-type gint64): µs of each block in each round */
} Part;

static int
compare_times (gconstpointer first,
               gconstpointer second)
{
  gint64 a = *(const gint64 *) first;
  gint64 b = *(const gint64 *) second;

  return (a > b) - (a < b);
}

static void *
read_part (void *data)
{
  Part *part = data;

  for (guint i = 0; i < part->n_blocks * MEASURE_ROUNDS; i++)
    {
      gint64 start = g_get_monotonic_time ();
      gint64 us;

      part->n_found += memchr (part->bytes + i % part->n_blocks * BLOCK_BYTES, 2, BLOCK_BYTES) != NULL;
      us = g_get_monotonic_time () - start;
      g_array_append_val (part->times, us);
    }

  return NULL;
}

double
llmctl_doctor_get_memory_speed (LlmctlDoctor *self)
{
  guint n_parts = CLAMP (g_get_num_processors (), 1, N_BLOCKS);
  g_autofree Part *parts = g_new0 (Part, n_parts);
  g_autofree GThread **threads = g_new0 (GThread *, n_parts);
  g_autofree char *bytes = NULL;

  if (self->memory_speed > 0
      || llmctl_doctor_read_meminfo (self, "MemAvailable:") < LEAST_FREE * N_BLOCKS * BLOCK_BYTES)
    return self->memory_speed;
  bytes = g_try_malloc (N_BLOCKS * BLOCK_BYTES);
  if (bytes == NULL)
    return 0;

  /* pages that were never written are all the same one */
  memset (bytes, 1, N_BLOCKS * BLOCK_BYTES);
  for (guint i = 0; i < n_parts; i++)
    {
      guint n_blocks = N_BLOCKS / n_parts;

      parts[i] = (Part) { .bytes = bytes + i * n_blocks * BLOCK_BYTES, .n_blocks = n_blocks };
      parts[i].times = g_array_new (FALSE, FALSE, sizeof (gint64));
      threads[i] = g_thread_try_new ("llmctl-doctor", read_part, &parts[i], NULL);
    }
  for (guint i = 0; i < n_parts; i++)
    {
      if (threads[i] != NULL)
        g_thread_join (threads[i]);
      else
        read_part (&parts[i]);
      g_array_sort (parts[i].times, compare_times);
      /* the median: other programs ran during some blocks */
      self->memory_speed += (double) BLOCK_BYTES * G_USEC_PER_SEC
        / (double) MAX (g_array_index (parts[i].times, gint64, parts[i].times->len / 2), 1);
      g_array_unref (parts[i].times);
    }

  return self->memory_speed;
}

/* --- the disk --- */

/* (transfer full) (nullable): the newest profile of @folder. */
static GKeyFile *
load_profile (const char *folder)
{
  g_autoptr(GDir) dir = g_dir_open (folder, 0, NULL);
  g_autoptr(GKeyFile) found = NULL;
  const char *name;
  gint64 newest = G_MININT64;

  for (guint i = 0; dir != NULL && i < 1000 && (name = g_dir_read_name (dir)) != NULL; i++)
    {
      g_autofree char *path = g_build_filename (folder, name, NULL);
      g_autoptr(GKeyFile) file = g_key_file_new ();
      GStatBuf status;

      if (!g_str_has_prefix (name, "profile-") || !g_str_has_suffix (name, ".ini") ||
          g_stat (path, &status) != 0 || !S_ISREG (status.st_mode) || status.st_size > MAX_FILE ||
          status.st_mtime <= newest || !g_key_file_load_from_file (file, path, 0, NULL))
        continue;
      newest = status.st_mtime;
      g_clear_pointer (&found, g_key_file_unref);
      found = g_steal_pointer (&file);
    }

  return g_steal_pointer (&found);
}

static void
tell_of_disk (LlmctlDoctor *self)
{
  g_autofree char *path = llmctl_doctor_make_path (self, TRUE);
  g_autofree char *folder = g_strconcat (self->root, path, NULL);
  g_autoptr(GKeyFile) profile = load_profile (folder);
  double bytes_per_us =
      profile != NULL ? g_key_file_get_double (profile, "times", "read-bytes-per-us", NULL) : 0;
  gboolean is_known = bytes_per_us > 0 && bytes_per_us < 1e6;
  g_autofree char *read =
      llmctl_format_bytes (is_known ? (guint64) (bytes_per_us * G_USEC_PER_SEC) : 0);

  if (!is_known && g_access (folder, R_OK | X_OK) != 0 && errno == EACCES)
    tell_note (self, _("How fast the disk is lies in %s, which only root and the service may read"),
               path);
  else if (!is_known)
    tell_note (self,
               _("How fast the disk is, is not known yet: the service measures it when it has "
                 "answered and nothing was asked for 20 seconds"));
  else if (bytes_per_us < SLOW_DISK)
    tell_warn (self,
               _("With such a disk contexts come back by being computed again, and models load "
                 "slowly"), _("The disk reads %s/s only"), read);
  else
    tell_ok (self, _("The disk reads %s/s"), read);
}

void
llmctl_doctor_check_speed (LlmctlDoctor *self)
{
  double speed = llmctl_doctor_get_memory_speed (self);
  g_autofree char *read = llmctl_format_bytes ((guint64) speed);

  if (speed > 0)
    tell_ok (self, _("Memory is read at %s/s"), read);
  else
    tell_note (self, _("Too little memory is free to measure how fast it is"));
  tell_of_disk (self);
}
