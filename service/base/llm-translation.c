/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-base"

#include "base/llm-translation.h"

#include <string.h>

#define MAGIC         0x950412deu
#define MAGIC_SWAPPED 0xde120495u
#define HEADER_BYTES  20
#define ENTRY_BYTES   8
#define MAX_ENTRIES   65536

/* Our longest format has nine. */
#define MAX_ARGUMENTS     16
#define MAX_MESSAGE_BYTES 4096
#define MAX_RESULT_BYTES  (4 * MAX_MESSAGE_BYTES)
/* A message, in a message, and what they quote. */
#define MAX_DEPTH         4
/* Bytes looked at for one message, all attempts together: below a millisecond. */
#define MAX_WORK          (512 * 1024)
/* Less fixed text says nothing about where a message comes from. */
#define MIN_FIXED_BYTES   2

#define OPEN_QUOTE  "“"
#define CLOSE_QUOTE "”"

typedef struct
{
  const char *from;   /* into the file */
  const char *to;     /* into the file */
  const char *tail;   /* of @from, behind its last conversion */
  gsize fixed_bytes;  /* in @from */
} Pattern;

struct _LlmTranslation
{
  GBytes *bytes;       /* (owned): the file */
  GHashTable *plain;   /* (element-type utf8 utf8) (unowned): messages without variable parts */
  GArray *patterns;    /* (element-type Pattern) (owned): the most fixed text first */
};

typedef struct
{
  const char *text;
  gsize length;
  char kind;            /* '\0': the message has no such argument */
  gboolean is_quoted;
} Argument;

/* One translation on its way. */
typedef struct
{
  const LlmTranslation *translation;
  gsize work;  /* how much may still be done */
} Attempt;

/* --- formats --- */

/* What numbers are printed with, and at least one of it a letter or digit. */
static const struct
{
  const char *letters;
  const char *bytes;
} numbers[] = {
  { "di", "-0123456789" },
  { "u", "0123456789" },
  { "xX", "0123456789abcdefABCDEFx" },
  { "gef", "-+.0123456789einaf" },
};

/* What stands behind a "%", up to its letter. The kind is the letter, or the first of those that
 * print alike. Widths and precisions that are arguments are not ours. (nullable): behind the
 * letter. */
static const char *
read_conversion (const char *p,
                 guint      *n_arguments,
                 guint      *argument,
                 char       *kind)
{
  char *end;
  guint64 position = g_ascii_strtoull (p, &end, 10);

  if (*end == '$')
    p = end + 1;
  else
    position = ++*n_arguments;
  p += strspn (p, "-+ #0'");
  p += strspn (p, "0123456789.");
  p += strspn (p, "hljzt");
  if (*p == '\0' || position == 0 || position > MAX_ARGUMENTS)
    return NULL;

  *argument = (guint) position - 1;
  *kind = *p;
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    if (strchr (numbers[i].letters, *p) != NULL)
      *kind = numbers[i].letters[0];
  return strchr ("scduxg", *kind) != NULL ? p + 1 : NULL;
}

/* Finds the kinds of the arguments; FALSE for what is no format of ours. */
static gboolean
scan_format (const char *format,
             char       *kinds,
             gsize      *fixed_bytes,
             const char **tail)
{
  guint n_arguments = 0;

  *fixed_bytes = 0;
  *tail = format;
  for (const char *p = format; *p != '\0';)
    {
      guint argument;
      char kind;

      if (p[0] != '%' || p[1] == '%')
        {
          p += p[0] == '%' ? 2 : 1;
          ++*fixed_bytes;
          continue;
        }
      p = read_conversion (p + 1, &n_arguments, &argument, &kind);
      if (p == NULL)
        return FALSE;
      kinds[argument] = kind;
      *tail = p;
    }
  return TRUE;
}

/* --- the file --- */

/* No byte at or after size is read. */
typedef struct
{
  const guint8 *data;
  gsize size;
  gboolean is_swapped;
} Reader;

static gboolean
read_uint32 (const Reader *reader,
             gsize         at,
             guint32      *value)
{
  if (at > reader->size || reader->size - at < sizeof *value)
    return FALSE;

  memcpy (value, reader->data + at, sizeof *value);
  if (reader->is_swapped)
    *value = GUINT32_SWAP_LE_BE (*value);
  return TRUE;
}

/* The string that the table at @table describes as its entry @index; its length
 * and place come from the file, and a NUL must follow it. (nullable) */
static const char *
read_string (const Reader *reader,
             guint32       table,
             guint         index)
{
  gsize at = (gsize) table + (gsize) index * ENTRY_BYTES;
  guint32 n, offset;

  if (!read_uint32 (reader, at, &n) || !read_uint32 (reader, at + 4, &offset) ||
      offset >= reader->size || n >= reader->size - offset || reader->data[offset + n] != '\0' ||
      !g_utf8_validate_len ((const char *) reader->data + offset, n, NULL))
    return NULL;

  return (const char *) reader->data + offset;
}

static void
add_message (LlmTranslation *self,
             const char     *from,
             const char     *to)
{
  Pattern pattern = { .from = from, .to = to };
  char has[MAX_ARGUMENTS] = { 0 }, wants[MAX_ARGUMENTS] = { 0 };
  const char *tail;
  gsize n;

  if (strchr (from, '%') == NULL)
    {
      g_hash_table_insert (self->plain, (gpointer) from, (gpointer) to);
      return;
    }
  if (!scan_format (to, wants, &n, &tail) ||
      !scan_format (from, has, &pattern.fixed_bytes, &pattern.tail) ||
      pattern.fixed_bytes < MIN_FIXED_BYTES)
    return;
  for (guint i = 0; i < MAX_ARGUMENTS; i++)
    if (wants[i] != '\0' && wants[i] != has[i])
      return;
  g_array_append_val (self->patterns, pattern);
}

/* FALSE when the file is not in UTF-8, which the message without a text of its own says. */
static gboolean
read_messages (LlmTranslation *self,
               const Reader   *reader,
               guint32         n_entries,
               guint32         ids,
               guint32         texts)
{
  gboolean is_utf8 = FALSE;

  for (guint i = 0; i < n_entries; i++)
    {
      const char *id = read_string (reader, ids, i);
      const char *text = read_string (reader, texts, i);

      if (id == NULL || text == NULL || *text == '\0')
        continue;
      if (*id == '\0')
        is_utf8 = strstr (text, "charset=UTF-8") != NULL || strstr (text, "charset=utf-8") != NULL;
      else if (strchr (id, '\004') == NULL)
        add_message (self, id, text);
    }

  return is_utf8;
}

/* GLib's sorting keeps the order of equals. */
static int
compare_patterns (gconstpointer a,
                  gconstpointer b)
{
  gsize left = ((const Pattern *) a)->fixed_bytes, right = ((const Pattern *) b)->fixed_bytes;

  return left > right ? -1 : left < right;
}

LlmTranslation *
llm_translation_new (GBytes *bytes)
{
  g_autoptr(LlmTranslation) self = NULL;
  Reader reader = { 0 };
  guint32 magic, revision, n_entries, ids, texts;

  reader.data = g_bytes_get_data (bytes, &reader.size);
  if (!read_uint32 (&reader, 0, &magic) || (magic != MAGIC && magic != MAGIC_SWAPPED))
    return NULL;

  reader.is_swapped = magic == MAGIC_SWAPPED;
  /* the minor number tells of messages that differ by platform, in tables of their own */
  if (!read_uint32 (&reader, 4, &revision) || revision >> 16 > 1 ||
      !read_uint32 (&reader, 8, &n_entries) || n_entries > MAX_ENTRIES ||
      !read_uint32 (&reader, 12, &ids) || !read_uint32 (&reader, 16, &texts) ||
      reader.size < HEADER_BYTES + (gsize) n_entries * 2 * ENTRY_BYTES)
    return NULL;

  self = g_new0 (LlmTranslation, 1);
  self->bytes = g_bytes_ref (bytes);
  self->plain = g_hash_table_new (g_str_hash, g_str_equal);
  self->patterns = g_array_new (FALSE, FALSE, sizeof (Pattern));
  if (!read_messages (self, &reader, n_entries, ids, texts))
    return NULL;

  g_array_sort (self->patterns, compare_patterns);
  return g_steal_pointer (&self);
}

void
llm_translation_free (LlmTranslation *self)
{
  g_array_unref (self->patterns);
  g_hash_table_unref (self->plain);
  g_bytes_unref (self->bytes);
  g_free (self);
}

/* --- matching --- */

/* How many bytes at the beginning of @text can be a number of @kind, or a character. */
static gsize
measure_value (char        kind,
               const char *text)
{
  gsize n = 0;

  if (kind == 'c')
    return *text != '\0' ? (gsize) (g_utf8_next_char (text) - text) : 0;
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    if (numbers[i].letters[0] == kind)
      n = strspn (text, numbers[i].bytes);
  while (n > 0 && !g_ascii_isalnum (text[n - 1]))
    n--;
  return n;
}

/* Whether @text can be what @format, from @p on, has printed. A string ends at the first place from
 * which the rest matches too. */
static gboolean
match (Attempt    *attempt,
       const char *format,
       const char *p,
       guint       n_arguments,
       const char *text,
       Argument   *arguments)
{
  while (*p != '\0' && attempt->work > 0)
    {
      Argument *argument;
      guint index;
      char kind;
      const char *next;

      attempt->work--;
      if (p[0] != '%' || p[1] == '%')
        {
          if (*text++ != *p)
            return FALSE;
          p += p[0] == '%' ? 2 : 1;
          continue;
        }

      next = read_conversion (p + 1, &n_arguments, &index, &kind);
      argument = &arguments[index];
      *argument = (Argument) {
        .text = text,
        .kind = kind,
        .is_quoted = g_str_has_prefix (next, CLOSE_QUOTE) &&
                     p >= format + strlen (OPEN_QUOTE) &&
                     g_str_has_prefix (p - strlen (OPEN_QUOTE), OPEN_QUOTE),
      };
      if (kind == 's' && *next == '\0')
        argument->length = strlen (text);
      else if (kind == 's')
        {
          while (!match (attempt, format, next, n_arguments, text + argument->length, arguments))
            {
              const char *end = text + argument->length;

              if (attempt->work == 0 || *end == '\0')
                return FALSE;
              argument->length = (gsize) (g_utf8_next_char (end) - text);
            }
          return TRUE;
        }
      else if ((argument->length = measure_value (kind, text)) == 0)
        return FALSE;
      text += argument->length;
      p = next;
    }

  return *p == '\0' && *text == '\0';
}

/* Most patterns differ from a message in how they end; how they begin is seen at once. */
static gboolean
can_match (const Pattern *pattern,
           const char    *message)
{
  return pattern->fixed_bytes <= strlen (message) &&
         (strchr (pattern->tail, '%') != NULL || g_str_has_suffix (message, pattern->tail));
}

/* --- the translation --- */

/* (nullable): NULL when it would be too long. */
static char *
fill_in (const char *format,
         char      **values)
{
  g_autoptr(GString) out = g_string_new (NULL);
  guint n_arguments = 0;

  for (const char *p = format; *p != '\0';)
    {
      guint index;
      char kind;

      if (p[0] != '%' || p[1] == '%')
        {
          g_string_append_c (out, *p);
          p += p[0] == '%' ? 2 : 1;
        }
      else
        {
          p = read_conversion (p + 1, &n_arguments, &index, &kind);
          g_string_append (out, values[index]);
        }
      if (out->len > MAX_RESULT_BYTES)
        return NULL;
    }

  return g_string_free (g_steal_pointer (&out), FALSE);
}

static char *
translate (Attempt    *attempt,
           const char *message,
           guint       depth)
{
  const LlmTranslation *self = attempt->translation;
  const char *plain = g_hash_table_lookup (self->plain, message);
  const Pattern *found = NULL;
  Argument arguments[MAX_ARGUMENTS] = { 0 };
  char *values[MAX_ARGUMENTS] = { NULL };
  char *result = NULL;

  if (plain != NULL)
    return g_strdup (plain);

  for (guint i = 0; i < self->patterns->len && found == NULL; i++)
    {
      const Pattern *pattern = &g_array_index (self->patterns, Pattern, i);

      memset (arguments, 0, sizeof arguments);
      if (can_match (pattern, message) &&
          match (attempt, pattern->from, pattern->from, 0, message, arguments))
        found = pattern;
    }
  if (found == NULL)
    return g_strdup (message);

  for (guint i = 0; i < MAX_ARGUMENTS; i++)
    {
      const Argument *argument = &arguments[i];
      g_autofree char *text = NULL;

      if (argument->kind == '\0')
        continue;
      text = g_strndup (argument->text, argument->length);
      /* a single word is a name, even where a message of one word is spelled like it */
      if (argument->kind == 's' && !argument->is_quoted && depth < MAX_DEPTH &&
          strchr (text, ' ') != NULL)
        values[i] = translate (attempt, text, depth + 1);
      else
        values[i] = g_steal_pointer (&text);
    }
  result = fill_in (found->to, values);
  for (guint i = 0; i < MAX_ARGUMENTS; i++)
    g_free (values[i]);

  return result != NULL ? result : g_strdup (message);
}

char *
llm_translation_apply (const LlmTranslation *self,
                       const char           *message)
{
  Attempt attempt = { self, MAX_WORK };
  g_autofree char *result = NULL;

  if (strlen (message) <= MAX_MESSAGE_BYTES && g_utf8_validate (message, -1, NULL))
    result = translate (&attempt, message, 0);

  return result != NULL && attempt.work > 0 ? g_steal_pointer (&result) : g_strdup (message);
}
