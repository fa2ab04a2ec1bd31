/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The format is that of https://www.sqlite.org/fileformat2.html. Every number in the file is
 * doubted: it may be what was damaged. */

#include "contexts/llm-db-pages.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "SQLite format 3"
#define DEFAULT_PAGE_BYTES 4096
#define FILE_HEADER_BYTES 100
#define MAX_PAGE_BYTES 65536
/* more than a row of ours can have */
#define MAX_ROW_BYTES (64 * 1024 * 1024)

#define INDEX_LEAF 0x0a
#define INDEX_INNER 0x02

typedef struct
{
  int fd;
  guint64 n_bytes;
  gsize page_bytes;
  LlmDbRow func;
  gpointer data;
  GByteArray *payload;  /* of a row that goes over several pages */
} Scan;

static guint64
get_number (const guint8 *bytes,
            guint         n_bytes)
{
  guint64 number = 0;

  for (guint i = 0; i < n_bytes; i++)
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

static gint64
get_integer (const guint8 *bytes,
             guint         n_bytes)
{
  guint64 number = get_number (bytes, n_bytes);

  if (n_bytes < 8 && (bytes[0] & 0x80) != 0)
    number |= G_MAXUINT64 << (8 * n_bytes);
  return (gint64) number;
}

/* A value of a serial type, which takes value->n_bytes. FALSE for a type that there is not. */
static gboolean
get_value (guint64       type,
           const guint8 *bytes,
           gsize         n_left,
           LlmDbValue   *value)
{
  static const guint8 sizes[] = { 0, 1, 2, 3, 4, 6, 8, 8, 0, 0 };
  guint64 n_bytes = type < G_N_ELEMENTS (sizes) ? sizes[type] : (type - 12) / 2;

  if (type == 10 || type == 11 || n_bytes > n_left)
    return FALSE;
  *value = (LlmDbValue) { .bytes = bytes, .n_bytes = (gsize) n_bytes };
  if (type >= 12)
    {
      value->type = type % 2 == 0 ? LLM_DB_BLOB : LLM_DB_TEXT;
    }
  else if (type == 7)
    {
      guint64 bits = get_number (bytes, 8);

      value->type = LLM_DB_REAL;
      memcpy (&value->real, &bits, sizeof bits);
    }
  else if (type != 0)
    {
      value->type = LLM_DB_INTEGER;
      value->integer = n_bytes > 0 ? get_integer (bytes, (guint) n_bytes) : (gint64) type - 8;
    }
  return TRUE;
}

static void
take_payload (Scan         *self,
              const guint8 *bytes,
              gsize         n_bytes)
{
  LlmDbValue values[LLM_DB_MAX_COLUMNS];
  guint64 header_bytes;
  gsize at = get_varint (bytes, n_bytes, &header_bytes);
  gsize body = (gsize) header_bytes;
  guint n = 0;

  if (at == 0 || header_bytes > n_bytes)
    return;
  while (at < header_bytes)
    {
      guint64 type;
      gsize length = get_varint (bytes + at, (gsize) header_bytes - at, &type);

      if (length == 0 || n == LLM_DB_MAX_COLUMNS
          || !get_value (type, bytes + body, n_bytes - body, &values[n]))
        return;
      at += length;
      body += values[n++].n_bytes;
    }
  if (body == n_bytes)
    self->func (values, n, self->data);
}

/* --- a page --- */

/* A page on a bad sector is one that is not there. */
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
        take_payload (self, page + at, (gsize) n_bytes);
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
  take_payload (self, self->payload->data, self->payload->len);
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

void
llm_db_pages_scan (const char *path,
                   LlmDbRow    func,
                   gpointer    data)
{
  g_autoptr(GByteArray) payload = g_byte_array_new ();
  guint8 page[MAX_PAGE_BYTES];
  struct stat status;
  Scan self = {
    .fd = open (path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW),
    .page_bytes = DEFAULT_PAGE_BYTES,
    .func = func,
    .data = data,
    .payload = payload,
  };

  if (self.fd < 0)
    return;
  if (fstat (self.fd, &status) == 0)
    self.n_bytes = (guint64) status.st_size;
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
