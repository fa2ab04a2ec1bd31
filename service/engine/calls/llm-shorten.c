/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine/calls/llm-shorten.h"

#include <math.h>
#include <string.h>

/* Of the words of each text one of so many stays, at least. */
#define LEAST_PART 5
/* A question stands at the beginning or at the end of its message: so many words there go last. */
#define EDGE_WORDS 16

/* A word with the space before it. */
typedef struct
{
  guint message;       /* its index */
  gsize begin, end;    /* bytes of the text */
  guint n_tokens;
  double rank;         /* what it tells, from 0 to 1, and where it stands: what has less goes
                        * first */
  gboolean is_left_out;
} Word;

/* A word ends before a space and behind a comma or semicolon, so that compact JSON has words, too,
 * but for one within a number. A wide character is a word. */
static gboolean
is_end (gunichar before,
        gunichar next)
{
  if (before == 0 || g_unichar_isspace (before))
    return FALSE;
  if (next == 0 || g_unichar_isspace (next) || g_unichar_iswide (before) || g_unichar_iswide (next))
    return TRUE;
  return (before == ',' || before == ';') && !g_unichar_isdigit (next);
}

/* Appends the words of @text, the message @number. */
static void
add_words (const char *text,
           guint       number,
           GArray     *words)
{
  const char *begin = text;
  gunichar before = 0;

  for (const char *at = begin;; at = g_utf8_next_char (at))
    {
      gunichar next = g_utf8_get_char (at);

      /* space at the end is no word */
      if (is_end (before, next))
        {
          Word word = { number, (gsize) (begin - text), (gsize) (at - text) };

          g_array_append_val (words, word);
          begin = at;
        }
      if (next == 0)
        return;
      before = next;
    }
}

/* Counts the tokens of @words of @text, and rates them by what they tell: by Zipf's law the token of
 * rank r has about log r, and vocabularies list tokens by how often they occur. Words of several
 * tokens are rare. */
static void
rate_words (LlmTokenizer *tokenizer,
            const char   *text,
            Word         *words,
            guint         n)
{
  LlmTextPart part = { text, strlen (text), FALSE };
  g_autoptr(GArray) tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr(GString) bytes = g_string_new (NULL);
  g_autofree gsize *ends = NULL;
  gsize lead;

  llm_tokenizer_encode (tokenizer, &part, 1, FALSE, tokens);
  ends = g_new (gsize, tokens->len);
  for (guint i = 0; i < tokens->len; i++)
    {
      llm_tokenizer_decode_token (tokenizer, g_array_index (tokens, gint32, i), FALSE, bytes);
      ends[i] = bytes->len;
    }
  /* some tokenizers put a space in front */
  lead = bytes->len - MIN (bytes->len, part.length);
  for (guint i = 0, word = 0; i < tokens->len; i++)
    {
      while (word + 1 < n && words[word].end + lead < ends[i])
        word++;
      words[word].n_tokens++;
      words[word].rank += log2 (2 + g_array_index (tokens, gint32, i))
                          / (2 * log2 (tokenizer->n_tokens + 1.0));
    }
  for (guint i = 0; i < n; i++)
    words[i].rank = MIN (words[i].rank, 1);
}

/* Numbers tell more than their tokens do. */
static void
raise_numbers (const char *text,
               Word       *words,
               guint       n)
{
  for (guint i = 0; i < n; i++)
    for (gsize at = words[i].begin; at < words[i].end; at++)
      if (g_ascii_isdigit (text[at]))
        words[i].rank = 1;
}

/* Older messages before newer ones; the newest question and all behind it last, and there the edges
 * last of all. Within these, words that tell less go first. */
static void
rank_words (GArray *words,
            guint   first,
            guint   newest)
{
  for (guint i = 0; i < words->len; i++)
    {
      Word *word = &g_array_index (words, Word, i);
      guint behind = MIN (words->len - 1, i + EDGE_WORDS), before = i - MIN (i, EDGE_WORDS);

      if (word->message < newest)
        word->rank += 2.0 * (word->message - first);
      else if (i < EDGE_WORDS || g_array_index (words, Word, before).message != word->message
               || i + EDGE_WORDS >= words->len
               || g_array_index (words, Word, behind).message != word->message)
        word->rank += 2.0 * (newest - first + 1);
      else
        word->rank += 2.0 * (newest - first);
    }
}

static int
compare_words (gconstpointer a,
               gconstpointer b)
{
  const Word *one = *(const Word *const *) a, *other = *(const Word *const *) b;

  if (one->rank != other->rank)
    return one->rank < other->rank ? -1 : 1;
  return one < other ? -1 : 1;
}

/* Marks words to leave out; returns how many tokens they have. */
static guint
choose_words (GArray *words,
              guint   n_messages,
              guint   n_tokens)
{
  g_autoptr(GPtrArray) order = g_ptr_array_new ();
  g_autofree guint *n_spare = g_new0 (guint, n_messages);
  guint n_out = 0;

  for (guint i = 0; i < words->len; i++)
    {
      Word *word = &g_array_index (words, Word, i);

      g_ptr_array_add (order, word);
      n_spare[word->message]++;
    }
  for (guint i = 0; i < n_messages; i++)
    n_spare[i] -= (n_spare[i] + LEAST_PART - 1) / LEAST_PART;
  g_ptr_array_sort (order, compare_words);
  for (guint i = 0; i < order->len && n_out < n_tokens; i++)
    {
      Word *word = g_ptr_array_index (order, i);

      if (n_spare[word->message] == 0)
        continue;
      n_spare[word->message]--;
      word->is_left_out = TRUE;
      n_out += word->n_tokens;
    }
  return n_out;
}

static gsize
count_space (const char *text,
             gsize       length,
             gboolean   *has_line)
{
  gsize n = 0;

  while (n < length && g_ascii_isspace (text[n]))
    *has_line |= text[n++] == '\n';
  return n;
}

/* The text of the words at @words that stay, without the space at its end. Lines stay lines. */
static char *
write_text (const char *text,
            const Word *words,
            guint       n)
{
  GString *written = g_string_new (NULL);
  gboolean ends_line = FALSE, is_behind_gap = FALSE;

  for (guint i = 0; i < n; i++)
    {
      const char *word = text + words[i].begin;
      gsize length = words[i].end - words[i].begin;
      gboolean begins_line = FALSE;
      gsize n_space = count_space (word, length, &begins_line);

      if (words[i].is_left_out)
        {
          ends_line |= begins_line;
          is_behind_gap = TRUE;
          continue;
        }
      if (is_behind_gap && (written->len == 0 || (ends_line && !begins_line)))
        {
          if (written->len > 0)
            g_string_append_c (written, '\n');
          word += n_space;
          length -= n_space;
        }
      g_string_append_len (written, word, (gssize) length);
      ends_line = is_behind_gap = FALSE;
    }
  return g_string_free (written, FALSE);
}

guint
llm_shorten (LlmTokenizer *tokenizer,
             GArray       *messages,
             guint         first,
             guint         n_tokens)
{
  g_autoptr(GArray) words = g_array_new (FALSE, FALSE, sizeof (Word));
  guint newest = first;
  guint n_before, n_out;

  for (guint i = first; i < messages->len; i++)
    {
      const LlmMessage *message = &g_array_index (messages, LlmMessage, i);

      if (g_str_equal (message->role, "user"))
        newest = i;
      if (g_str_equal (message->role, "system"))
        continue;
      n_before = words->len;
      add_words (message->text, i, words);
      if (words->len == n_before)
        continue;
      rate_words (tokenizer, message->text, &g_array_index (words, Word, n_before), words->len - n_before);
      raise_numbers (message->text, &g_array_index (words, Word, n_before), words->len - n_before);
    }
  rank_words (words, first, newest);
  n_out = choose_words (words, messages->len, n_tokens);
  for (guint i = 0, end; i < words->len; i = end)
    {
      const Word *word = &g_array_index (words, Word, i);
      LlmMessage *message = &g_array_index (messages, LlmMessage, word->message);
      gboolean is_whole = TRUE;
      char *text;

      for (end = i; end < words->len && word[end - i].message == word->message; end++)
        is_whole &= !word[end - i].is_left_out;
      if (is_whole)
        continue;
      text = write_text (message->text, word, end - i);
      g_free (message->text);
      message->text = text;
    }
  return n_out;
}
