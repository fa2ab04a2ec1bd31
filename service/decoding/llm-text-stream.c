/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-exec"

#include "decoding/llm-text-stream.h"

#include <string.h>

#include "constraints/llm-token-trie.h"

/* U+FFFD, for what is no character, and for NUL, which would end the text for many a reader. */
#define REPLACEMENT "\xef\xbf\xbd"

/* A stop string, and how much of its beginning the text so far ends with. */
typedef struct
{
  char *text;
  gsize length;
  gsize matched;
  gboolean is_marker;       /* the end of the text, but not of the answer */
} Stop;

struct _LlmTextStream
{
  LlmTokenizer *tokenizer;  /* (unowned) */
  GArray *stops;            /* (element-type Stop) */
  gboolean strips_space;    /* until the first byte */
  gboolean is_stopped;
  gboolean is_muted;        /* behind the marker */
  char *control;            /* (nullable): a marker that is a control token */
  char *start;              /* (nullable): one that only the start may have, until that is over */

  GString *bytes;           /* of the token being pushed */
  char partial[4];          /* the beginning of a character */
  gsize n_partial;
  GString *held;            /* whole characters that may belong to a stop string */
};

static void
stop_clear (gpointer data)
{
  g_free (((Stop *) data)->text);
}

LlmTextStream *
llm_text_stream_new (LlmTokenizer      *tokenizer,
                     const char *const *stops,
                     gboolean           strip_leading_space)
{
  LlmTextStream *self = g_new0 (LlmTextStream, 1);

  self->tokenizer = tokenizer;
  self->strips_space = strip_leading_space;
  self->bytes = g_string_new (NULL);
  self->held = g_string_new (NULL);
  self->stops = g_array_new (FALSE, FALSE, sizeof (Stop));
  g_array_set_clear_func (self->stops, stop_clear);
  for (guint i = 0; stops != NULL && stops[i] != NULL; i++)
    if (*stops[i] != '\0' && g_utf8_validate (stops[i], -1, NULL))
      {
        Stop stop = { g_strdup (stops[i]), strlen (stops[i]), 0, FALSE };

        g_array_append_val (self->stops, stop);
      }
  return self;
}

void
llm_text_stream_free (LlmTextStream *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->stops);
  g_string_free (self->bytes, TRUE);
  g_string_free (self->held, TRUE);
  g_free (self->control);
  g_free (self->start);
  g_free (self);
}

void
llm_text_stream_set_marker (LlmTextStream *self,
                            const char    *marker,
                            gboolean       is_at_start)
{
  Stop stop = { NULL, strlen (marker), 0, TRUE };

  if (*marker == LLM_TRIE_CONTROL)
    {
      self->control = g_strdup (marker);
    }
  else if (is_at_start)
    {
      self->start = g_strdup (marker);
    }
  else
    {
      stop.text = g_strdup (marker);
      g_array_append_val (self->stops, stop);
    }
}

/* Returns the length of what matches, one byte having come: all of it is held back. */
static gsize
advance_stop (Stop          *stop,
              const GString *held)
{
  gsize n = stop->matched + 1;

  while (n > 0 && memcmp (held->str + held->len - n, stop->text, n) != 0)
    n--;
  stop->matched = n;
  return n;
}

/* Holds a character back, and lets go of what is in front of all matches. */
static void
take_character (LlmTextStream *self,
                const char    *character,
                gsize          length,
                GString       *out)
{
  for (gsize i = 0; i < length; i++)
    {
      gsize longest = 0, n_stopped = 0;
      gboolean is_marker = FALSE;

      g_string_append_c (self->held, character[i]);
      for (guint j = 0; j < self->stops->len; j++)
        {
          Stop *stop = &g_array_index (self->stops, Stop, j);
          gsize matched = advance_stop (stop, self->held);

          longest = MAX (longest, matched);
          if (matched == stop->length)
            {
              n_stopped = MAX (n_stopped, matched);
              is_marker |= stop->is_marker;
            }
        }

      if (n_stopped > 0)
        {
          g_string_append_len (out, self->held->str, (gssize) (self->held->len - n_stopped));
          g_string_truncate (self->held, 0);
          self->is_stopped = !is_marker;
          self->is_muted = is_marker;
          return;
        }
      if (i + 1 == length)
        {
          g_string_append_len (out, self->held->str, (gssize) (self->held->len - longest));
          g_string_erase (self->held, 0, (gssize) (self->held->len - longest));
        }
    }
}

static void
take_replacement (LlmTextStream *self,
                  GString       *out)
{
  take_character (self, REPLACEMENT, strlen (REPLACEMENT), out);
}

/* Whether the @n bytes begin a character: it is one with some continuation, the least or the
 * greatest. */
static gboolean
begins_character (const char *bytes,
                  gsize       n)
{
  gsize length = (gsize) (g_utf8_next_char (bytes) - bytes);

  for (const char *fill = "\x80\xbf"; length <= 4 && *fill != '\0'; fill++)
    {
      char character[4];

      memset (character, *fill, sizeof character);
      memcpy (character, bytes, n);
      if (g_utf8_validate_len (character, length, NULL))
        return TRUE;
    }
  return FALSE;
}

static void
take_byte (LlmTextStream *self,
           char           byte,
           GString       *out)
{
  self->partial[self->n_partial] = byte;
  if (self->n_partial > 0 && !begins_character (self->partial, self->n_partial + 1))
    {
      self->n_partial = 0;
      take_replacement (self, out);
      if (self->is_stopped || self->is_muted)
        return;
      self->partial[0] = byte;
    }
  if (self->n_partial == 0 && !begins_character (&byte, 1))
    {
      take_replacement (self, out);
      return;
    }

  self->n_partial++;
  if (g_utf8_next_char (self->partial) == self->partial + self->n_partial)
    {
      gsize length = self->n_partial;

      self->n_partial = 0;
      take_character (self, self->partial, length, out);
    }
}

gboolean
llm_text_stream_push_bytes (LlmTextStream *self,
                            const char    *bytes,
                            gsize          length,
                            GString       *out)
{
  g_return_val_if_fail (self != NULL, FALSE);
  g_return_val_if_fail (out != NULL, FALSE);

  for (gsize i = 0; i < length && !self->is_stopped && !self->is_muted; i++)
    {
      gboolean is_stripped = self->strips_space && bytes[i] == ' ';

      if (self->start != NULL && !is_stripped && !g_ascii_isspace (bytes[i]))
        {
          self->is_muted = bytes[i] == *self->start;
          g_clear_pointer (&self->start, g_free);
          if (self->is_muted)
            break;
        }

      self->strips_space = FALSE;
      if (!is_stripped)
        take_byte (self, bytes[i], out);
    }
  return self->is_stopped;
}

gboolean
llm_text_stream_push (LlmTextStream *self,
                      gint32         token,
                      GString       *out)
{
  g_return_val_if_fail (self != NULL, FALSE);

  g_string_truncate (self->bytes, 0);
  if (self->control != NULL)
    {
      llm_token_trie_decode (self->tokenizer, token, self->bytes);
      self->is_muted |= g_str_equal (self->bytes->str, self->control);
      g_string_truncate (self->bytes, 0);
    }
  llm_tokenizer_decode_token (self->tokenizer, token, FALSE, self->bytes);
  return llm_text_stream_push_bytes (self, self->bytes->str, self->bytes->len, out);
}

void
llm_text_stream_finish (LlmTextStream *self,
                        GString       *out)
{
  g_return_if_fail (self != NULL);
  g_return_if_fail (out != NULL);

  if (self->n_partial > 0 && !self->is_stopped && !self->is_muted)
    {
      self->n_partial = 0;
      take_replacement (self, out);
    }
  if (!self->is_stopped && !self->is_muted)
    g_string_append_len (out, self->held->str, (gssize) self->held->len);
  g_string_truncate (self->held, 0);
}
