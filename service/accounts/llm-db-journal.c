/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A journal that was overwritten: SQLite takes it for one that ends there, and what was
 * acknowledged after it would be lost without a message. Database thread.
 * 
 * The format is that of https://www.sqlite.org/fileformat2.html#walformat: a header, and frames of
 * one page each, whose checksums go on from frame to frame. When the database has all of a journal,
 * it is written from its beginning again, with another salt. Old frames may follow its end, and a
 * crash may leave frames there whose transaction was never acknowledged. Neither is damage. */

#define G_LOG_DOMAIN "llm-engine"

#include "accounts/llm-db-file.h"

#include <fcntl.h>
#include <gio/gio.h>
#include <string.h>
#include <unistd.h>

#include "base/llm-fail.h"

#define MAGIC 0x377f0682u /* the lowest bit: checksums of big-endian numbers */
#define HEADER_BYTES 32
#define FRAME_BYTES 24    /* before its page */
#define MAX_PAGE_BYTES 65536
/* A salt counts the times that the journal began again; more than it does in years. */
#define MAX_SALT_STEPS (1u << 24)

typedef struct
{
  guint32 n[2];
} Sum;

static guint32
get_number (const guint8 *bytes)
{
  guint32 number;

  memcpy (&number, bytes, sizeof number);
  return GUINT32_FROM_BE (number);
}

static Sum
get_sum (const guint8 *bytes)
{
  return (Sum) { { get_number (bytes), get_number (bytes + 4) } };
}

static gboolean
is_same (Sum a,
         Sum b)
{
  return a.n[0] == b.n[0] && a.n[1] == b.n[1];
}

static Sum
add_up (Sum           sum,
        gboolean      is_big,
        const guint8 *bytes,
        gsize         n_bytes)
{
  for (gsize i = 0; i < n_bytes; i += 8)
    {
      guint32 first = get_number (bytes + i);
      guint32 second = get_number (bytes + i + 4);

      sum.n[0] += (is_big ? first : GUINT32_SWAP_LE_BE (first)) + sum.n[1];
      sum.n[1] += (is_big ? second : GUINT32_SWAP_LE_BE (second)) + sum.n[0];
    }
  return sum;
}

/* Whether SQLite can have written a frame that is not of this journal: one of an earlier use, or
 * room that a crash left empty. */
static gboolean
is_of_earlier_use (const guint8 *frame,
                   const guint8 *header)
{
  static const guint8 empty[FRAME_BYTES];
  guint32 n_steps = get_number (header + 16) - get_number (frame + 8);

  return memcmp (frame, empty, FRAME_BYTES) == 0 || (n_steps > 0 && n_steps < MAX_SALT_STEPS);
}

/* After the last frame that is whole: one that was written over, or a later one that ends a
 * transaction. */
static gboolean
is_damaged (int fd)
{
  guint8 frame[FRAME_BYTES + MAX_PAGE_BYTES];
  guint8 header[HEADER_BYTES];
  off_t end = lseek (fd, 0, SEEK_END);
  gboolean is_behind = FALSE;
  gboolean is_big;
  guint32 page_bytes;
  Sum sum;

  if (end <= HEADER_BYTES || pread (fd, header, HEADER_BYTES, 0) != HEADER_BYTES)
    return FALSE;
  is_big = (get_number (header) & 1) != 0;
  page_bytes = get_number (header + 8);
  sum = add_up ((Sum) { { 0, 0 } }, is_big, header, 24);
  if ((get_number (header) & ~1u) != MAGIC || !is_same (sum, get_sum (header + 24))
      || page_bytes < 512 || page_bytes > MAX_PAGE_BYTES)
    return TRUE;
  for (off_t at = HEADER_BYTES; at + FRAME_BYTES + page_bytes <= end;
       at += FRAME_BYTES + page_bytes)
    {
      gboolean is_whole;

      /* a bad sector is told by SQLite */
      if (pread (fd, frame, FRAME_BYTES + page_bytes, at) != (ssize_t) (FRAME_BYTES + page_bytes))
        return FALSE;
      sum = add_up (sum, is_big, frame, 8);
      sum = add_up (sum, is_big, frame + FRAME_BYTES, page_bytes);
      is_whole = is_same (sum, get_sum (frame + 16))
                 && memcmp (frame + 8, header + 16, 8) == 0;
      if (!is_whole && !is_behind && memcmp (frame + 8, header + 16, 8) != 0
          && !is_of_earlier_use (frame, header))
        return TRUE;
      if (is_whole && is_behind && get_number (frame + 4) != 0)
        return TRUE;
      is_behind |= !is_whole;
      sum = get_sum (frame + 16);
    }
  return FALSE;
}

gboolean
llm_db_check_journal (const char *path,
                      sqlite3    *db,
                      GError    **error)
{
  g_autofree char *journal = g_strconcat (path, "-wal", NULL);
  g_autofree char *copy = NULL;
  g_autoptr(GFile) from = NULL;
  g_autoptr(GFile) to = NULL;
  g_autoptr(GError) local = NULL;
  int fd = open (journal, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  gboolean is_good;

  if (fd < 0)
    return TRUE;
  is_good = !is_damaged (fd);
  close (fd);
  if (is_good)
    return TRUE;
  copy = llm_db_find_copy_path (journal);
  from = g_file_new_for_path (journal);
  to = g_file_new_for_path (copy);
  if (!g_file_copy (from, to, G_FILE_COPY_NOFOLLOW_SYMLINKS, NULL, NULL, NULL, &local))
    {
      unlink (copy);
      return llm_fail (error, LLMSVC_ERROR_STORAGE,
                       "The journal of the context database, “%s”, is damaged, and can't be kept "
                       "as “%s”: %s", journal, copy, local->message);
    }
  g_warning ("The journal of the context database, %s, was written over by another program or its "
             "disk: what was stored last is lost, what came before the damage is there. The "
             "damaged journal was kept as %s", journal, copy);
  /* truncated, so that its damage is not reported again */
  sqlite3_wal_checkpoint_v2 (db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
  return TRUE;
}
