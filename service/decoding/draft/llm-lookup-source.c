/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decoding/draft/llm-lookup-source.h"

#include <string.h>

/* Earlier places of the last token that are looked at, newest first: what a guess costs stays
 * bounded. */
#define MAX_PLACES 48
/* What one of them costs, for the balance: a microsecond or two. */
#define STEP_US 2
/* A shorter match counts for so much less with each token. */
#define SHORTER 0.25
/* How often matches of 0, 1, 2, … equal tokens are right, before anything was seen: tokens that
 * they count for, and after how many the oldest fade. */
#define N_PRIOR 8
#define N_MEMORY 64
static const double priors[LLM_LOOKUP_MAX_LENGTH + 1] = {
  0, .1, .25, .4, .5, .6, .65, .7, .75, .75, .8, .8, .8, .85, .85, .85, .9,
};

typedef struct
{
  LlmDraftSource parent;
  GArray *text;               /* (element-type gint32) (owned) */
  GArray *earlier;            /* (element-type guint) (owned): by place, 1 + where the same token
                               * stood before; 0: nowhere */
  GHashTable *last;           /* (owned): by token, 1 + where it stands last */
  LlmLookupLearned own;       /* without a record */
  LlmLookupLearned *learned;  /* (unowned): by length of the match */
} LookupSource;

typedef struct
{
  guint length;               /* of the longest match */
  guint n;
  gint32 tokens[LLM_DRAFT_MAX_CANDIDATES];
  double weights[LLM_DRAFT_MAX_CANDIDATES];
  double sum;                 /* of all, also of those that found no room */
} Matches;

static void
add_text (LookupSource *self,
          gint32        token)
{
  guint place = GPOINTER_TO_UINT (g_hash_table_lookup (self->last, GINT_TO_POINTER (token)));

  g_array_append_val (self->earlier, place);
  g_array_append_val (self->text, token);
  g_hash_table_insert (self->last, GINT_TO_POINTER (token), GUINT_TO_POINTER (self->text->len));
}

/* The token @back places before the end of the text with the path behind it. */
static gint32
get_token (const LookupSource *self,
           const gint32       *path,
           guint               n_path,
           guint               back)
{
  return back < n_path ? path[n_path - 1 - back]
                       : g_array_index (self->text, gint32, self->text->len - 1 - (back - n_path));
}

/* How many tokens up to @place are those at the end of the path. */
static guint
count_equal (const LookupSource *self,
             guint               place,
             const gint32       *path,
             guint               n_path)
{
  guint n_max = MIN (MIN (LLM_LOOKUP_MAX_LENGTH, place + 1), self->text->len + n_path);
  guint n = 0;

  while (n < n_max
         && g_array_index (self->text, gint32, place - n) == get_token (self, path, n_path, n))
    n++;
  return n;
}

static void
add_match (Matches *matches,
           gint32   token,
           guint    length)
{
  double weight = 1;
  guint i = 0;

  for (; length > matches->length; matches->length++)
    {
      matches->sum *= SHORTER;
      for (guint j = 0; j < matches->n; j++)
        matches->weights[j] *= SHORTER;
    }
  for (guint j = length; j < matches->length; j++)
    weight *= SHORTER;
  matches->sum += weight;
  while (i < matches->n && matches->tokens[i] != token)
    i++;
  if (i == LLM_DRAFT_MAX_CANDIDATES)
    return;
  if (i == matches->n)
    {
      matches->tokens[matches->n] = token;
      matches->weights[matches->n++] = 0;
    }
  matches->weights[i] += weight;
}

/* What followed earlier places of the token at the end of the path. */
static Matches
find_matches (const LookupSource *self,
              const gint32       *path,
              guint               n_path)
{
  Matches matches = { .length = 0 };
  gint32 token;
  guint place;

  if (self->text->len == 0)
    return matches;
  token = get_token (self, path, n_path, 0);
  place = GPOINTER_TO_UINT (g_hash_table_lookup (self->last, GINT_TO_POINTER (token)));
  for (guint i = 0; place > 0 && i < MAX_PLACES; i++)
    {
      if (place < self->text->len)
        add_match (&matches, g_array_index (self->text, gint32, place),
                   count_equal (self, place - 1, path, n_path));
      place = g_array_index (self->earlier, guint, place - 1);
    }
  return matches;
}

/* What matches of a length are worth is learned from what came, guessed or not. */
static void
learn (LookupSource *self,
       gint32        token)
{
  Matches matches = find_matches (self, NULL, 0);
  LlmLookupLearned *learned = self->learned;
  guint length = matches.length;
  double is_right = 0;

  if (length == 0)
    return;
  for (guint i = 0; i < matches.n; i++)
    if (matches.tokens[i] == token)
      is_right = 1;
  learned->n_seen[length] = MIN (learned->n_seen[length] + 1, N_MEMORY);
  learned->right[length] +=
    (is_right - learned->right[length]) / (N_PRIOR + learned->n_seen[length]);
}

static void
begin (LlmDraftSource *source,
       const gint32   *prompt,
       guint           n_prompt)
{
  LookupSource *self = (LookupSource *) source;

  self->learned = source->record != NULL ? &source->record->lookup : &self->own;
  if (!self->learned->is_begun)
    memcpy (self->learned->right, priors, sizeof priors);
  self->learned->is_begun = TRUE;
  for (guint i = 0; i < n_prompt; i++)
    add_text (self, prompt[i]);
}

static void
accept_token (LlmDraftSource *source,
              gint32          token)
{
  LookupSource *self = (LookupSource *) source;

  learn (self, token);
  add_text (self, token);
}

static LlmStatus
expand (LlmDraftSource       *source,
        const LlmDraftGrowth *growth,
        guint                 node,
        LlmDraftCandidate    *candidates,
        guint                *n)
{
  LookupSource *self = (LookupSource *) source;
  gint32 path[LLM_GROWTH_MAX_NODES];
  Matches matches = find_matches (self, path, llm_draft_growth_get_path (growth, node, path));

  *n = matches.n;
  for (guint i = 0; i < matches.n; i++)
    {
      LlmDraftCandidate candidate = {
        matches.tokens[i],
        (float) (self->learned->right[matches.length] * matches.weights[i] / matches.sum),
      };
      guint place = i;

      for (; place > 0 && candidates[place - 1].confidence < candidate.confidence; place--)
        candidates[place] = candidates[place - 1];
      candidates[place] = candidate;
    }
  return LLM_READY;
}

static void
lookup_free (LlmDraftSource *source)
{
  LookupSource *self = (LookupSource *) source;

  g_array_unref (self->text);
  g_array_unref (self->earlier);
  g_hash_table_unref (self->last);
  g_free (self);
}

LlmDraftSource *
llm_lookup_source_new (void)
{
  static const LlmDraftSourceClass class = {
    .begin = begin,
    .accept = accept_token,
    .expand = expand,
    .free = lookup_free,
  };
  LookupSource *self = g_new0 (LookupSource, 1);

  self->parent = (LlmDraftSource) { .class = &class, .step_us = STEP_US };
  self->text = g_array_new (FALSE, FALSE, sizeof (gint32));
  self->earlier = g_array_new (FALSE, FALSE, sizeof (guint));
  self->last = g_hash_table_new (NULL, NULL);
  return &self->parent;
}
