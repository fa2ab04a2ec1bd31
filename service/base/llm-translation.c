/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-base"

#include "base/llm-translation.h"

#include <string.h>

#include "base/llm-format.h"

#define MAX_MESSAGE_BYTES 4096
#define MAX_RESULT_BYTES  (4 * MAX_MESSAGE_BYTES)
/* A message, in a message, and what they quote. */
#define MAX_DEPTH         4
/* Bytes looked at for one message, all attempts together: below a millisecond. */
#define MAX_WORK          (512 * 1024)
/* Less fixed text says nothing about where a message comes from. */
#define MIN_FIXED_BYTES   2

typedef struct
{
  GArray *from;       /* (element-type LlmFormatPiece) */
  GArray *to;         /* (element-type LlmFormatPiece) */
  gsize fixed_bytes;  /* in @from */
  guint rank;         /* its place in the file */
} Pattern;

struct _LlmTranslation
{
  LlmMoFile *file;        /* (owned) */
  GHashTable *plain;      /* (element-type utf8 utf8) (unowned): messages without variable parts */
  GPtrArray *patterns;    /* (element-type Pattern) (owned): the most fixed text first */
};

typedef struct
{
  const char *text;
  gsize length;
} Capture;

/* One translation on its way. */
typedef struct
{
  const LlmTranslation *translation;
  gsize work;  /* how much may still be done */
} Attempt;

/* --- the formats --- */

static void
pattern_free (gpointer data)
{
  Pattern *pattern = data;

  g_clear_pointer (&pattern->from, g_array_unref);
  g_clear_pointer (&pattern->to, g_array_unref);
  g_free (pattern);
}

static int
compare_patterns (gconstpointer a,
                  gconstpointer b)
{
  const Pattern *left = *(const Pattern *const *) a;
  const Pattern *right = *(const Pattern *const *) b;

  if (left->fixed_bytes != right->fixed_bytes)
    return left->fixed_bytes > right->fixed_bytes ? -1 : 1;
  return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static void
add_pattern (LlmTranslation   *self,
             const LlmMoEntry *entry,
             guint             rank)
{
  Pattern *pattern = g_new0 (Pattern, 1);

  pattern->rank = rank;
  pattern->from = llm_format_parse (entry->id);
  pattern->to = llm_format_parse (entry->text);
  if (pattern->from != NULL)
    pattern->fixed_bytes = llm_format_count_fixed_bytes (pattern->from);

  if (pattern->from != NULL && pattern->to != NULL && pattern->fixed_bytes >= MIN_FIXED_BYTES &&
      llm_format_fits (pattern->from, pattern->to))
    g_ptr_array_add (self->patterns, pattern);
  else
    pattern_free (pattern);
}

LlmTranslation *
llm_translation_new (LlmMoFile *file)
{
  LlmTranslation *self = g_new0 (LlmTranslation, 1);
  guint n = llm_mo_file_get_n (file);

  self->file = file;
  self->plain = g_hash_table_new (g_str_hash, g_str_equal);
  self->patterns = g_ptr_array_new_with_free_func (pattern_free);
  for (guint i = 0; i < n; i++)
    {
      const LlmMoEntry *entry = llm_mo_file_get (file, i);

      if (strchr (entry->id, '%') == NULL)
        g_hash_table_insert (self->plain, (gpointer) entry->id, (gpointer) entry->text);
      else
        add_pattern (self, entry, i);
    }

  g_ptr_array_sort (self->patterns, compare_patterns);
  return self;
}

void
llm_translation_free (LlmTranslation *self)
{
  g_ptr_array_unref (self->patterns);
  g_hash_table_unref (self->plain);
  llm_mo_file_free (self->file);
  g_free (self);
}

/* (nullable): NULL for an index out of range; @index may be one less than 0. */
static const LlmFormatPiece *
get_piece (const GArray *pieces,
           guint         index)
{
  return index < pieces->len ? &g_array_index (pieces, LlmFormatPiece, index) : NULL;
}

/* --- matching --- */

/* FALSE when too much was done already. */
static gboolean
spend (Attempt *attempt,
       gsize    bytes)
{
  if (attempt->work < bytes + 1)
    {
      attempt->work = 0;
      return FALSE;
    }

  attempt->work -= bytes + 1;
  return TRUE;
}

/* How many bytes at the beginning of @text can be what @kind prints. */
static gsize
span_of (LlmFormatKind   kind,
         const char *text)
{
  gsize sign = *text == '-' ? 1 : 0;
  gsize n;

  switch (kind)
    {
    case LLM_FORMAT_CHARACTER:
      return *text != '\0' ? (gsize) (g_utf8_next_char (text) - text) : 0;
    case LLM_FORMAT_SIGNED:
      n = strspn (text + sign, "0123456789");
      return n > 0 ? sign + n : 0;
    case LLM_FORMAT_UNSIGNED:
      return strspn (text, "0123456789");
    case LLM_FORMAT_HEX:
      return strspn (text, "0123456789abcdefABCDEFx");
    case LLM_FORMAT_REAL:
      if (g_str_has_prefix (text + sign, "nan") || g_str_has_prefix (text + sign, "inf"))
        return sign + 3;
      n = strspn (text + sign, "0123456789");
      if (n == 0)
        return 0;
      if (text[sign + n] == '.' && g_ascii_isdigit (text[sign + n + 1]))
        n += 1 + strspn (text + sign + n + 1, "0123456789");
      if (text[sign + n] == 'e' && (text[sign + n + 1] == '-' || text[sign + n + 1] == '+'))
        n += 2 + strspn (text + sign + n + 2, "0123456789");
      return sign + n;
    case LLM_FORMAT_FIXED:
    case LLM_FORMAT_STRING:
    default:
      return 0;
    }
}

static gboolean match_pieces (Attempt      *attempt,
                              const GArray *pieces,
                              guint         index,
                              const char   *text,
                              Capture      *captures);

/* A string ends where the fixed text behind it begins, at the first place from
 * which the rest matches too. */
static gboolean
match_string (Attempt      *attempt,
              const GArray *pieces,
              guint         index,
              const char   *text,
              Capture      *captures)
{
  const LlmFormatPiece *piece = &g_array_index (pieces, LlmFormatPiece, index);
  const LlmFormatPiece *next = get_piece (pieces, index + 1);
  Capture *capture = &captures[piece->argument];

  capture->text = text;
  if (next == NULL)
    {
      capture->length = strlen (text);
      return spend (attempt, capture->length);
    }

  for (const char *end = text;; end++)
    {
      if (next->kind == LLM_FORMAT_FIXED)
        {
          const char *found = strstr (end, next->fixed);

          if (!spend (attempt, found != NULL ? (gsize) (found - end) : strlen (end)) ||
              found == NULL)
            return FALSE;
          end = found;
        }

      capture->length = (gsize) (end - text);
      if (match_pieces (attempt, pieces, index + 1, end, captures))
        return TRUE;
      if (*end == '\0' || attempt->work == 0)
        return FALSE;
    }
}

static gboolean
match_pieces (Attempt      *attempt,
              const GArray *pieces,
              guint         index,
              const char   *text,
              Capture      *captures)
{
  for (; index < pieces->len; index++)
    {
      const LlmFormatPiece *piece = &g_array_index (pieces, LlmFormatPiece, index);
      gsize length = piece->length;

      if (!spend (attempt, length))
        return FALSE;
      if (piece->kind == LLM_FORMAT_STRING)
        return match_string (attempt, pieces, index, text, captures);

      if (piece->kind != LLM_FORMAT_FIXED)
        {
          length = span_of (piece->kind, text);
          if (length == 0)
            return FALSE;
          captures[piece->argument] = (Capture) { text, length };
        }
      else if (strncmp (text, piece->fixed, length) != 0)
        {
          return FALSE;
        }
      text += length;
    }

  return *text == '\0';
}

/* Most patterns differ from a message in how they begin or end. */
static gboolean
can_match (const Pattern *pattern,
           const char    *message,
           gsize          length)
{
  const LlmFormatPiece *first = get_piece (pattern->from, 0);
  const LlmFormatPiece *last = get_piece (pattern->from, pattern->from->len - 1);

  if (pattern->fixed_bytes > length)
    return FALSE;
  if (first->kind == LLM_FORMAT_FIXED && strncmp (message, first->fixed, first->length) != 0)
    return FALSE;

  return last->kind != LLM_FORMAT_FIXED ||
         memcmp (message + length - last->length, last->fixed, last->length) == 0;
}

/* --- the translation --- */

static char *translate (Attempt    *attempt,
                        const char *message,
                        guint       depth);

/* Whether the argument at @index stands in quotation marks. */
static gboolean
is_quoted (const GArray *pieces,
           guint         index)
{
  const LlmFormatPiece *before = get_piece (pieces, index - 1);
  const LlmFormatPiece *after = get_piece (pieces, index + 1);

  return before != NULL && before->kind == LLM_FORMAT_FIXED && after != NULL &&
         after->kind == LLM_FORMAT_FIXED && g_str_has_suffix (before->fixed, "“") &&
         g_str_has_prefix (after->fixed, "”");
}

/* A single word is a name, even where a message of one word is spelled like it. */
static void
translate_captures (Attempt       *attempt,
                    const GArray  *pieces,
                    const Capture *captures,
                    char         **arguments,
                    guint          depth)
{
  for (guint i = 0; i < pieces->len; i++)
    {
      const LlmFormatPiece *piece = &g_array_index (pieces, LlmFormatPiece, i);
      g_autofree char *text = NULL;

      if (piece->kind == LLM_FORMAT_FIXED)
        continue;

      text = g_strndup (captures[piece->argument].text, captures[piece->argument].length);
      if (piece->kind == LLM_FORMAT_STRING && depth < MAX_DEPTH && strchr (text, ' ') != NULL &&
          !is_quoted (pieces, i))
        arguments[piece->argument] = translate (attempt, text, depth + 1);
      else
        arguments[piece->argument] = g_steal_pointer (&text);
    }
}

/* (nullable): NULL when it would be too long. */
static char *
fill_in (const GArray *pieces,
         char        **arguments)
{
  g_autoptr(GString) out = g_string_new (NULL);

  for (guint i = 0; i < pieces->len; i++)
    {
      const LlmFormatPiece *piece = &g_array_index (pieces, LlmFormatPiece, i);

      g_string_append (out, piece->kind == LLM_FORMAT_FIXED ? piece->fixed
                                                            : arguments[piece->argument]);
      if (out->len > MAX_RESULT_BYTES)
        return NULL;
    }

  return g_string_free (g_steal_pointer (&out), FALSE);
}

static char *
apply_pattern (Attempt       *attempt,
               const Pattern *pattern,
               const Capture *captures,
               guint          depth)
{
  char *arguments[LLM_FORMAT_MAX_ARGUMENTS] = { NULL };
  char *result;

  translate_captures (attempt, pattern->from, captures, arguments, depth);
  result = fill_in (pattern->to, arguments);
  for (guint i = 0; i < LLM_FORMAT_MAX_ARGUMENTS; i++)
    g_free (arguments[i]);

  return result;
}

static char *
translate (Attempt    *attempt,
           const char *message,
           guint       depth)
{
  const LlmTranslation *self = attempt->translation;
  const char *plain = g_hash_table_lookup (self->plain, message);
  gsize length = strlen (message);
  char *result = NULL;

  if (plain != NULL)
    return g_strdup (plain);

  for (guint i = 0; i < self->patterns->len && attempt->work > 0; i++)
    {
      const Pattern *pattern = g_ptr_array_index (self->patterns, i);
      Capture captures[LLM_FORMAT_MAX_ARGUMENTS] = { { NULL, 0 } };

      if (!can_match (pattern, message, length) ||
          !match_pieces (attempt, pattern->from, 0, message, captures))
        continue;

      result = apply_pattern (attempt, pattern, captures, depth);
      break;
    }

  return result != NULL ? result : g_strdup (message);
}

char *
llm_translation_apply (const LlmTranslation *self,
                       const char           *message)
{
  Attempt attempt = { self, MAX_WORK };
  g_autofree char *result = NULL;

  g_return_val_if_fail (self != NULL, NULL);
  g_return_val_if_fail (message != NULL, NULL);

  if (strlen (message) <= MAX_MESSAGE_BYTES && g_utf8_validate (message, -1, NULL))
    result = translate (&attempt, message, 0);

  return result != NULL && attempt.work > 0 ? g_steal_pointer (&result) : g_strdup (message);
}
