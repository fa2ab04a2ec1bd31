/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decoding/llm-reasoning.h"

#include <string.h>

#include "constraints/llm-token-trie.h"
#include "decoding/llm-text-stream.h"

#define SPACES " \t\r\n"

/* A mark, by its bytes as in LlmTokenTrie, without spaces; and by its tokens, with them. */
typedef struct
{
  GString *bytes;
  GArray *tokens;        /* (element-type gint32) */
} Mark;

struct _LlmReasoning
{
  LlmTokenizer *tokenizer; /* (unowned) */
  Mark begin;
  Mark end;
  GArray *end_core;      /* (element-type gint32): tokens of the end without spaces before it */
  GArray *spaces;        /* (element-type gint32): that follow the end, */
  char *behind;          /* and their text */
  guint budget;

  LlmThought thought;
  gboolean is_at_answer; /* behind reasoning: spaces are no part of the answer */
  guint n;               /* tokens before the answer */
  GArray *inside;        /* (element-type gint32): tokens within reasoning */
  GArray *waiting;       /* (element-type gint32): may be the mark that begins, or the answer */
  GString *held;         /* bytes that may be part of a mark */
  GString *controls;     /* of each of these, whether it is a control token's */
  GString *token;        /* bytes of the one being pushed */
  LlmTextStream *stream; /* (owned): from bytes of reasoning to characters */
  GString *text;         /* of it, not given out yet: spaces that may be its last */
  gboolean has_text;
};

/* (transfer full) (element-type gint32) */
static GArray *
encode (LlmTokenizer *tokenizer,
        const char   *text)
{
  GArray *tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  LlmTextPart part = { text, strlen (text), TRUE };
  g_autoptr(GString) first = g_string_new (NULL);

  if (part.length == 0)
    return tokens;
  llm_tokenizer_encode (tokenizer, &part, 1, FALSE, tokens);
  /* the space that vocabularies of words put before a text */
  if (tokens->len > 1)
    llm_token_trie_decode (tokenizer, g_array_index (tokens, gint32, 0), first);
  if (*text != ' ' && g_str_equal (first->str, " "))
    g_array_remove_index (tokens, 0);
  return tokens;
}

static void
mark_init (Mark         *mark,
           LlmTokenizer *tokenizer,
           const char   *text)
{
  g_autofree char *core = g_strstrip (g_strdup (text));
  g_autoptr(GArray) of_core = encode (tokenizer, core);

  mark->tokens = encode (tokenizer, text);
  mark->bytes = g_string_new (NULL);
  for (guint i = 0; i < of_core->len; i++)
    llm_token_trie_decode (tokenizer, g_array_index (of_core, gint32, i), mark->bytes);
  if (*core != ' ' && mark->bytes->len > 0 && *mark->bytes->str == ' ')
    g_string_erase (mark->bytes, 0, 1);
}

static void
mark_clear (Mark *mark)
{
  g_array_unref (mark->tokens);
  g_string_free (mark->bytes, TRUE);
}

LlmReasoning *
llm_reasoning_new (LlmTokenizer *tokenizer,
                   const char   *begin,
                   const char   *end,
                   LlmThought    thought,
                   guint         budget)
{
  LlmReasoning *self = g_new0 (LlmReasoning, 1);
  gsize n = strlen (end);

  while (n > 0 && strchr (SPACES, end[n - 1]) != NULL)
    n--;
  self->tokenizer = tokenizer;
  mark_init (&self->begin, tokenizer, begin);
  mark_init (&self->end, tokenizer, end);
  self->end_core = encode (tokenizer, end + strspn (end, SPACES));
  self->spaces = encode (tokenizer, end + n);
  self->behind = g_strdup (end + n);
  self->budget = budget;
  self->thought = thought;
  self->inside = g_array_new (FALSE, FALSE, sizeof (gint32));
  self->waiting = g_array_new (FALSE, FALSE, sizeof (gint32));
  self->held = g_string_new (NULL);
  self->controls = g_string_new (NULL);
  self->token = g_string_new (NULL);
  self->stream = llm_text_stream_new (tokenizer, NULL, FALSE);
  self->text = g_string_new (NULL);
  return self;
}

void
llm_reasoning_free (LlmReasoning *self)
{
  if (self == NULL)
    return;
  mark_clear (&self->begin);
  mark_clear (&self->end);
  g_array_unref (self->end_core);
  g_array_unref (self->spaces);
  g_free (self->behind);
  g_array_unref (self->inside);
  g_array_unref (self->waiting);
  g_string_free (self->held, TRUE);
  g_string_free (self->controls, TRUE);
  g_string_free (self->token, TRUE);
  llm_text_stream_free (self->stream);
  g_string_free (self->text, TRUE);
  g_free (self);
}

LlmThought
llm_reasoning_get_thought (const LlmReasoning *self)
{
  return self->thought;
}

gboolean
llm_reasoning_is_over (const LlmReasoning *self)
{
  return self->thought == LLM_THOUGHT_OVER && !self->is_at_answer;
}

guint
llm_reasoning_get_n (const LlmReasoning *self)
{
  return self->n;
}

/* --- the text of the reasoning --- */

/* The first @n bytes that were held are of it. */
static void
release (LlmReasoning *self,
         gsize         n,
         GString      *text)
{
  gsize first = 0, end;

  for (gsize i = 0; i < n; i++)
    if (self->controls->str[i] == 0)
      llm_text_stream_push_bytes (self->stream, self->held->str + i, 1, self->text);
  g_string_erase (self->held, 0, (gssize) n);
  g_string_erase (self->controls, 0, (gssize) n);
  if (!self->has_text)
    first = strspn (self->text->str, SPACES);
  for (end = self->text->len; end > first && strchr (SPACES, self->text->str[end - 1]) != NULL;)
    end--;
  self->has_text |= end > first;
  g_string_append_len (text, self->text->str + first, (gssize) (end - first));
  g_string_erase (self->text, 0, (gssize) end);
}

/* Of what is held, the longest end that the mark begins with. */
static gsize
count_pending (const LlmReasoning *self)
{
  const GString *mark = self->end.bytes;
  gsize n = MIN (self->held->len, mark->len);

  while (n > 0 && memcmp (self->held->str + self->held->len - n, mark->str, n) != 0)
    n--;
  return n;
}

static void
hold (LlmReasoning *self,
      const char   *bytes,
      gsize         length,
      gboolean      is_control)
{
  g_string_append_len (self->held, bytes, (gssize) length);
  for (gsize i = 0; i < length; i++)
    g_string_append_c (self->controls, is_control);
}

/* --- what follows it --- */

/* The bytes of the pushed token from @from on are behind the mark. */
static void
take_answer (LlmReasoning *self,
             gsize         from,
             gint32        token,
             GArray       *tokens,
             GString      *bytes)
{
  const char *start = self->token->str + from;
  gsize length = self->token->len - from;

  while (length > 0 && strchr (SPACES, *start) != NULL && *start != '\0')
    {
      start++;
      length--;
    }
  if (length == 0)
    return;
  self->is_at_answer = FALSE;
  if (start == self->token->str)
    g_array_append_val (tokens, token);
  else
    g_string_append_len (bytes, start, (gssize) length);
}

/* --- tokens --- */

static void
think (LlmReasoning *self,
       gsize         from,
       gint32        token,
       GString      *text,
       GArray       *tokens,
       GString      *bytes)
{
  const GString *mark = self->end.bytes;
  gsize before = self->held->len;
  const char *found;

  hold (self, self->token->str + from, self->token->len - from,
        llm_tokenizer_is_control (self->tokenizer, token));
  found = memmem (self->held->str, self->held->len, mark->str, mark->len);
  if (found == NULL)
    {
      release (self, self->held->len - count_pending (self), text);
      return;
    }
  from += (gsize) (found - self->held->str) + mark->len - before;
  release (self, (gsize) (found - self->held->str), text);
  g_string_truncate (self->held, 0);
  g_string_truncate (self->controls, 0);
  llm_text_stream_finish (self->stream, text);
  self->thought = LLM_THOUGHT_OVER;
  self->is_at_answer = TRUE;
  take_answer (self, from, token, tokens, bytes);
}

/* Whether what waits, without spaces before it, is the mark or its beginning. */
static gboolean
may_begin (const LlmReasoning *self,
           const GString      *held,
           gsize              *from)
{
  const GString *mark = self->begin.bytes;

  *from = strspn (held->str, SPACES);
  return mark->len > 0
         && memcmp (held->str + *from, mark->str, MIN (held->len - *from, mark->len)) == 0;
}

static void
begin (LlmReasoning *self,
       gint32        token,
       GString      *text,
       GArray       *tokens,
       GString      *bytes)
{
  const GString *mark = self->begin.bytes;
  gsize before = self->held->len;
  gsize from;

  g_array_append_val (self->waiting, token);
  g_string_append_len (self->held, self->token->str, (gssize) self->token->len);
  if (!may_begin (self, self->held, &from))
    {
      llm_reasoning_begin_answer (self);
      g_array_append_vals (tokens, self->waiting->data, self->waiting->len);
      return;
    }
  if (self->held->len - from < mark->len)
    return;
  g_string_truncate (self->held, 0);
  self->thought = LLM_THOUGHT_INSIDE;
  self->n = self->waiting->len;
  think (self, from + mark->len - before, token, text, tokens, bytes);
}

void
llm_reasoning_push (LlmReasoning *self,
                    gint32        token,
                    GString      *text,
                    GArray       *tokens,
                    GString      *bytes)
{
  g_string_truncate (self->token, 0);
  llm_token_trie_decode (self->tokenizer, token, self->token);
  switch (self->thought)
    {
    case LLM_THOUGHT_BEGIN:
      begin (self, token, text, tokens, bytes);
      break;
    case LLM_THOUGHT_INSIDE:
      g_array_append_val (self->inside, token);
      self->n++;
      think (self, 0, token, text, tokens, bytes);
      break;
    case LLM_THOUGHT_OVER:
    default:
      take_answer (self, 0, token, tokens, bytes);
      self->n += self->is_at_answer;
      break;
    }
}

void
llm_reasoning_finish (LlmReasoning *self,
                      GString      *text,
                      GArray       *tokens)
{
  if (self->thought == LLM_THOUGHT_BEGIN)
    {
      g_array_append_vals (tokens, self->waiting->data, self->waiting->len);
      llm_reasoning_begin_answer (self);
      return;
    }
  if (self->thought == LLM_THOUGHT_OVER)
    return;
  release (self, self->held->len, text);
  llm_text_stream_finish (self->stream, text);
}

/* --- for who chooses --- */

gboolean
llm_reasoning_is_spent (const LlmReasoning *self)
{
  return self->inside->len >= self->budget;
}

/* The most of @mark's first tokens, but not all, that the reasoning ends with. */
static guint
count_written (const LlmReasoning *self,
               const GArray       *mark)
{
  guint n = MIN (self->inside->len, MAX (mark->len, 1) - 1);

  while (n > 0
         && memcmp (&g_array_index (self->inside, gint32, self->inside->len - n), mark->data,
                    n * sizeof (gint32)) != 0)
    n--;
  return n;
}

/* (transfer full) (nullable) (element-type gint32): what is missing of a mark whose beginning is
 * held, cut into whatever tokens; NULL where the vocabulary can't continue it so. */
static GArray *
encode_rest (const LlmReasoning *self)
{
  const char *rest = self->end.bytes->str + count_pending (self);
  /* behind a line, as vocabularies of words put a space before a text */
  g_autofree char *text = g_strconcat ("\n", rest, self->behind, NULL);
  g_autoptr(GArray) tokens = encode (self->tokenizer, text);
  g_autoptr(GString) first = g_string_new (NULL);
  guint n = 0;

  if (rest == self->end.bytes->str || strchr (rest, LLM_TRIE_CONTROL) != NULL)
    return NULL;
  while (n < tokens->len && !g_str_has_suffix (first->str, "\n"))
    llm_token_trie_decode (self->tokenizer, g_array_index (tokens, gint32, n++), first);
  if (n == tokens->len)
    return NULL;
  g_array_remove_range (tokens, 0, n);
  return g_steal_pointer (&tokens);
}

void
llm_reasoning_add_closing (const LlmReasoning *self,
                           GArray             *tokens)
{
  g_autoptr(GArray) rest = encode_rest (self);
  const GArray *mark = self->end.tokens;
  guint n = count_written (self, mark);

  if (rest != NULL)
    {
      g_array_append_vals (tokens, rest->data, rest->len);
      return;
    }
  if (n == 0)
    {
      guint of_core = count_written (self, self->end_core);

      if (of_core > 0)
        mark = self->end_core;
      n = of_core;
    }
  g_array_append_vals (tokens, &g_array_index (mark, gint32, n), mark->len - n);
}

guint
llm_reasoning_get_n_closing (const LlmReasoning *self)
{
  return self->end.tokens->len;
}

void
llm_reasoning_add_spaces (const LlmReasoning *self,
                          GArray             *tokens)
{
  if (self->is_at_answer && self->spaces->len > 0)
    g_array_append_vals (tokens, self->spaces->data, self->spaces->len);
}

gboolean
llm_reasoning_begins (const LlmReasoning *self,
                      gint32              token,
                      gboolean           *is_whole)
{
  g_autoptr(GString) bytes = g_string_new (NULL);
  gsize from;

  llm_token_trie_decode (self->tokenizer, token, bytes);
  if (!may_begin (self, bytes, &from) || from == bytes->len)
    return FALSE;
  *is_whole = bytes->len - from >= self->begin.bytes->len;
  return TRUE;
}

void
llm_reasoning_add_opening (const LlmReasoning *self,
                           GArray             *tokens)
{
  g_array_append_vals (tokens, self->begin.tokens->data, self->begin.tokens->len);
}

gboolean
llm_reasoning_ends_answer (const LlmReasoning *self,
                           gint32              token)
{
  return llm_tokenizer_ends_answer (self->tokenizer, token);
}

gboolean
llm_reasoning_spoils (const LlmReasoning *self,
                      gint32              token)
{
  g_autoptr(GString) bytes = g_string_new_len (self->held->str, (gssize) self->held->len);
  const GString *mark = self->end.bytes;
  const char *found;

  llm_token_trie_decode (self->tokenizer, token, bytes);
  found = memmem (bytes->str, bytes->len, mark->str, mark->len);
  return found != NULL && found[mark->len + strspn (found + mark->len, SPACES)] != '\0';
}

void
llm_reasoning_begin_answer (LlmReasoning *self)
{
  self->thought = LLM_THOUGHT_OVER;
  self->is_at_answer = FALSE;
}
