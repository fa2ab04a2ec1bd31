/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A damaged database: what can be read of it goes into a new one. Database thread.
 *
 * The format of pages is that of https://www.sqlite.org/fileformat2.html: tables without a rowid
 * and indexes, which have their rows in pages of two kinds. Every number in the file is doubted: it
 * may be what was damaged. */

#define G_LOG_DOMAIN "llm-engine"

#include "accounts/llm-db-file.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "base/llm-clock.h"
#include "base/llm-fail.h"

#define MAGIC "SQLite format 3"
#define DEFAULT_PAGE_BYTES 4096
#define FILE_HEADER_BYTES 100
#define MAX_PAGE_BYTES 65536
/* more than a row of ours can have */
#define MAX_ROW_BYTES (64 * 1024 * 1024)

#define INDEX_LEAF 0x0a
#define INDEX_INNER 0x02

/* A search through all pages for the rows of one kind. */
typedef struct
{
  const LlmDbRows *rows;
  sqlite3_stmt *insert;
  int fd;
  guint64 n_bytes;
  gsize page_bytes;
  GByteArray *payload;  /* of a row that goes over several pages */
} Scan;

static guint64
get_number (const guint8 *bytes,
            gsize         n_bytes)
{
  guint64 number = 0;

  for (gsize i = 0; i < n_bytes; i++)
    number = number << 8 | bytes[i];
  return number;
}

/* Returns the bytes that it takes, 0 when it goes over the end. */
static gsize
get_varint (const guint8 *bytes,
            gsize         n_bytes,
            guint64      *number)
{
  *number = 0;
  for (gsize i = 0; i < n_bytes && i < 9; i++)
    {
      if (i == 8)
        *number = *number << 8 | bytes[i];
      else
        *number = *number << 7 | (bytes[i] & 0x7f);
      if (i == 8 || bytes[i] < 0x80)
        return i + 1;
    }
  return 0;
}

/* --- a row --- */

/* Binds value @place, of a serial type, which takes @n_bytes. FALSE for one that no row of this
 * kind has. */
static gboolean
bind_value (Scan         *self,
            int           place,
            guint64       type,
            const guint8 *bytes,
            gsize         n_left,
            gsize        *n_bytes)
{
  static const guint8 sizes[] = { 0, 1, 2, 3, 4, 6, 8, 8, 0, 0 };
  guint64 size = type < G_N_ELEMENTS (sizes) ? sizes[type] : (type - 12) / 2;
  gsize n_types = strlen (self->rows->types);
  char wanted = (gsize) place <= n_types ? self->rows->types[place - 1] : 0;
  char letter = type >= 12 ? (type % 2 == 0 ? 'b' : 't') : type == 7 ? 'n' : type != 0 ? 'i' : '0';

  if (type == 10 || type == 11 || size > n_left
      || (wanted != 0 && letter != wanted && !(wanted == 'n' && letter == 'i')))
    return FALSE;
  *n_bytes = (gsize) size;
  if (letter == 'b')
    sqlite3_bind_blob (self->insert, place, bytes, (int) size, SQLITE_STATIC);
  else if (letter == 't')
    sqlite3_bind_text (self->insert, place, (const char *) bytes, (int) size, SQLITE_STATIC);
  else if (letter == 'n')
    {
      guint64 bits = get_number (bytes, 8);
      double real;

      memcpy (&real, &bits, sizeof real);
      sqlite3_bind_double (self->insert, place, real);
    }
  else if (letter == 'i')
    {
      guint64 number = size > 0 ? get_number (bytes, *n_bytes) : type - 8;

      if (size > 0 && size < 8 && (bytes[0] & 0x80) != 0)
        number |= G_MAXUINT64 << (8 * size);
      sqlite3_bind_int64 (self->insert, place, (gint64) number);
    }
  return TRUE;
}

static void
take_row (Scan         *self,
          const guint8 *bytes,
          gsize         n_bytes)
{
  guint64 header_bytes;
  gsize at = get_varint (bytes, n_bytes, &header_bytes);
  gsize body = (gsize) header_bytes;
  guint n = 0;

  if (at == 0 || header_bytes > n_bytes)
    return;
  sqlite3_clear_bindings (self->insert);
  while (at < header_bytes)
    {
      guint64 type;
      gsize length = get_varint (bytes + at, (gsize) header_bytes - at, &type);
      gsize n_value;

      if (length == 0 || n++ == self->rows->n_max
          || !bind_value (self, (int) n, type, bytes + body, n_bytes - body, &n_value))
        return;
      at += length;
      body += n_value;
    }
  if (body != n_bytes || n < self->rows->n_min)
    return;
  sqlite3_step (self->insert);
  sqlite3_reset (self->insert);
}

/* --- a page --- */

/* A page on a bad sector counts as missing. */
static gboolean
read_page (Scan    *self,
           guint64  number,
           guint8  *page)
{
  return number > 0 && number <= self->n_bytes / self->page_bytes
         && pread (self->fd, page, self->page_bytes, (off_t) ((number - 1) * self->page_bytes))
              == (gssize) self->page_bytes;
}

static void
take_cell (Scan         *self,
           const guint8 *page,
           gsize         at)
{
  const gsize max_local = (self->page_bytes - 12) * 64 / 255 - 23;
  const gsize min_local = (self->page_bytes - 12) * 32 / 255 - 23;
  guint64 n_bytes;
  gsize length = get_varint (page + at, self->page_bytes - at, &n_bytes);
  gsize n_local;
  guint8 more[MAX_PAGE_BYTES];
  guint64 next;

  at += length;
  if (length == 0 || n_bytes == 0 || n_bytes > MIN (self->n_bytes, MAX_ROW_BYTES))
    return;
  if (n_bytes <= max_local)
    {
      if (at + n_bytes <= self->page_bytes)
        take_row (self, page + at, (gsize) n_bytes);
      return;
    }
  n_local = min_local + (gsize) (n_bytes - min_local) % (self->page_bytes - 4);
  if (n_local > max_local)
    n_local = min_local;
  if (at + n_local + 4 > self->page_bytes)
    return;
  g_byte_array_set_size (self->payload, 0);
  g_byte_array_append (self->payload, page + at, (guint) n_local);
  next = get_number (page + at + n_local, 4);
  while (self->payload->len < n_bytes)
    {
      if (!read_page (self, next, more))
        return;
      g_byte_array_append (self->payload, more + 4,
                           (guint) MIN (self->page_bytes - 4, n_bytes - self->payload->len));
      next = get_number (more, 4);
    }
  take_row (self, self->payload->data, self->payload->len);
}

static void
take_page (Scan         *self,
           const guint8 *page,
           gsize         header)
{
  gboolean is_inner = page[header] == INDEX_INNER;
  gsize pointers = header + (is_inner ? 12 : 8);
  gsize n_cells = (gsize) get_number (page + header + 3, 2);

  if (!is_inner && page[header] != INDEX_LEAF)
    return;
  for (gsize i = 0; i < n_cells && pointers + 2 * i + 2 <= self->page_bytes; i++)
    {
      gsize at = (gsize) get_number (page + pointers + 2 * i, 2) + (is_inner ? 4 : 0);

      if (at < self->page_bytes)
        take_cell (self, page, at);
    }
}

/* Copies all rows of one kind that can be read of the file @path. */
static void
copy_rows (const char      *path,
           sqlite3         *target,
           const LlmDbRows *rows)
{
  g_autoptr(sqlite3_stmt) insert = llm_db_query (target, NULL, rows->insert, "");
  g_autoptr(GByteArray) payload = g_byte_array_new ();
  guint8 page[MAX_PAGE_BYTES];
  Scan self = {
    .rows = rows,
    .insert = insert,
    .fd = open (path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW),
    .page_bytes = DEFAULT_PAGE_BYTES,
    .payload = payload,
  };
  off_t end;

  if (insert == NULL || self.fd < 0)
    return;
  end = lseek (self.fd, 0, SEEK_END);
  self.n_bytes = end > 0 ? (guint64) end : 0;
  if (read_page (&self, 1, page) && memcmp (page, MAGIC, sizeof MAGIC) == 0)
    {
      gsize page_bytes = (gsize) get_number (page + 16, 2);

      /* the service writes no others */
      if (page_bytes >= 512 && (page_bytes & (page_bytes - 1)) == 0)
        self.page_bytes = page_bytes;
    }
  for (guint64 number = 1; number <= self.n_bytes / self.page_bytes; number++)
    if (read_page (&self, number, page))
      take_page (&self, page, number == 1 ? FILE_HEADER_BYTES : 0);
  close (self.fd);
}

/* --- files --- */

char *
llm_db_find_copy_path (const char *path)
{
  for (gint64 now = llm_clock_wall_s ();; now++)
    {
      char *copy = g_strdup_printf ("%s.damaged-%" G_GINT64_FORMAT, path, now);
      GStatBuf status;

      if (g_lstat (copy, &status) < 0)
        return copy;
      g_free (copy);
    }
}

/* The file and its journal, which would otherwise be played into the next file, are kept as @copy.
 * @target (nullable) takes its place: a database left by a crash in between is whole, the old one
 * until the last rename. */
static gboolean
put_aside (const char *path,
           const char *copy,
           const char *target,
           GError    **error)
{
  static const char *const suffixes[] = { "", "-wal", "-shm" };
  g_autofree char *folder = g_path_get_dirname (path);
  gboolean is_kept = TRUE;
  int fd;

  for (guint i = 0; is_kept && i < G_N_ELEMENTS (suffixes); i++)
    {
      g_autofree char *from = g_strconcat (path, suffixes[i], NULL);
      g_autofree char *to = g_strconcat (copy, suffixes[i], NULL);

      is_kept = (i == 0 && target != NULL && link (from, to) == 0) || g_rename (from, to) == 0
                || errno == ENOENT;
    }
  if (!is_kept || (target != NULL && g_rename (target, path) != 0))
    return llm_fail (error, LLMSVC_ERROR_STORAGE,
                     "The damaged context database %s can't be moved aside: %s", path,
                     g_strerror (errno));
  fd = open (folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0)
    {
      fsync (fd);
      close (fd);
    }
  return TRUE;
}

static gboolean
has_journal (const char *path)
{
  g_autofree char *journal = g_strconcat (path, "-wal", NULL);
  GStatBuf status;

  return g_stat (journal, &status) == 0 && status.st_size > 0;
}

/* Makes the database @target of what can be read of @path. @n_rows: of that; 0 when there is
 * nothing. @n_lost: what schema->set_aside() says. */
static gboolean
make_target (const char        *path,
             const char        *target,
             const char        *copy,
             const LlmDbSchema *schema,
             int               *n_rows,
             guint             *n_lost,
             GError           **error)
{
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
  g_autoptr(sqlite3) source = NULL;
  g_autoptr(sqlite3) db = NULL;
  gboolean is_damaged;
  int code;

  if (sqlite3_open_v2 (path, &source, flags, NULL) != SQLITE_OK
      || sqlite3_open_v2 (target, &db, flags | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
    return llm_fail (error, LLMSVC_ERROR_STORAGE,
                     "The damaged context database %s can't be copied: %s", path,
                     sqlite3_errmsg (db != NULL ? db : source));
  /* what is in the journal belongs to it: afterwards it has none */
  code = sqlite3_exec (source, "PRAGMA trusted_schema=OFF; PRAGMA locking_mode=EXCLUSIVE;"
                               "SELECT count (*) FROM sqlite_schema", NULL, NULL, NULL);
  is_damaged = llm_db_find_fault (source) == LLM_DB_FAULT_DAMAGED;
  sqlite3_wal_checkpoint_v2 (source, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
  if ((code & 0xff) == SQLITE_BUSY || has_journal (path))
    return is_damaged || llm_fail (error, LLMSVC_ERROR_STORAGE,
                                   "The damaged context database %s can't be copied: %s", path,
                                   sqlite3_errmsg (source));
  /* nothing of a journal stays behind for the next try */
  if (!llm_db_run_script (db, "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = FULL", error)
      || !llm_db_upgrade_schema (db, schema, 0, error) || !llm_db_run_script (db, "BEGIN", error))
    return FALSE;
  for (guint i = 0; schema->rows[i].insert != NULL; i++)
    copy_rows (path, db, &schema->rows[i]);
  *n_rows = sqlite3_total_changes (db);
  *n_lost = schema->set_aside (db, source, copy);
  return llm_db_run_script (db, "COMMIT", error);
}

gboolean
llm_db_salvage (const char        *path,
                const LlmDbSchema *schema,
                GError           **error)
{
  g_autofree char *copy = llm_db_find_copy_path (path);
  g_autofree char *target = g_strconcat (path, ".salvage", NULL);
  g_autoptr(GError) local = NULL;
  int n_rows = 0;
  guint n_lost = 0;
  gboolean is_good;

  g_unlink (target);
  is_good = make_target (path, target, copy, schema, &n_rows, &n_lost, &local)
            && put_aside (path, copy, n_rows > 0 ? target : NULL, &local);
  if (!is_good || n_rows == 0)
    g_unlink (target);
  if (!is_good)
    g_propagate_error (error, g_steal_pointer (&local));
  else if (n_rows == 0)
    g_warning ("The context database %s is damaged; it was kept as %s, and a new one begins", path,
               copy);
  else
    g_warning ("The context database %s is damaged: what could be read was copied to a new one; "
               "the text of %u contexts was lost. The damaged one was kept as %s", path, n_lost,
               copy);
  return is_good;
}
