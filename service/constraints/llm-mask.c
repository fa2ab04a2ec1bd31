/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/llm-mask-walk.h"

#include <string.h>

/* A mask with fewer tokens than this part of the vocabulary is a list of them. */
#define SPARSE_PART 48
/* What is kept of one grammar; more is found anew each time. */
#define MAX_BYTES (64u << 20)
/* Nodes of the vocabulary's trie that are walked ahead. */
#define WARM_STEPS 10000000u

/* What a state allows within its rule. */
typedef struct
{
  guint n_ids;
  guint32 *ids;          /* (nullable) (owned): the tokens, if they are few */
  guint64 *bits;         /* (nullable) (owned): else a bit per token */
  LlmTrie rest;          /* of tokens that go on behind the end of the rule: what comes there */
  gsize n_bytes;
} Mask;

struct _LlmMaskTable
{
  gatomicrefcount ref_count;
  LlmGrammar *grammar;   /* (owned) */
  LlmTokenTrie *tokens;  /* (owned) */
  LlmLedger *ledger;     /* (nullable) (owned) */
  guint n_words;
  Mask **masks;          /* (owned) [n_states], atomic: (nullable elements) */
  guint32 *commons;      /* (owned) [n_states], atomic: see LlmMaskWalk */
  gsize n_bytes;         /* atomic */
};

static void
trie_clear (LlmTrie *trie)
{
  g_free (trie->heights);
  g_free (trie->bytes);
  g_free (trie->ends);
  g_free (trie->first_tokens);
  g_free (trie->tokens);
}

static void
mask_free (Mask *mask)
{
  g_free (mask->ids);
  g_free (mask->bits);
  trie_clear (&mask->rest);
  g_free (mask);
}

LlmMaskTable *
llm_mask_table_new (LlmGrammar   *grammar,
                    LlmTokenTrie *tokens,
                    LlmLedger    *ledger)
{
  LlmMaskTable *self = g_new0 (LlmMaskTable, 1);

  g_atomic_ref_count_init (&self->ref_count);
  self->grammar = llm_grammar_ref (grammar);
  self->tokens = llm_token_trie_ref (tokens);
  self->n_words = (tokens->n_tokens + 63) / 64;
  self->masks = g_new0 (Mask *, grammar->n_states);
  self->commons = g_new (guint32, grammar->n_states);
  for (guint i = 0; i < grammar->n_states; i++)
    self->commons[i] = LLM_MASK_COMMON_UNKNOWN;
  self->n_bytes = grammar->n_states
                    * (sizeof (Mask *) + sizeof (guint32) + sizeof (LlmGrammarState))
                  + grammar->n_next * 2 * sizeof (guint32);
  if (ledger != NULL)
    {
      self->ledger = llm_ledger_ref (ledger);
      llm_ledger_add (ledger, LLM_HOLDER_CONSTRAINTS, self->n_bytes);
    }
  return self;
}

LlmMaskTable *
llm_mask_table_ref (LlmMaskTable *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_mask_table_unref (LlmMaskTable *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  for (guint i = 0; i < self->grammar->n_states; i++)
    g_clear_pointer (&self->masks[i], mask_free);
  if (self->ledger != NULL)
    llm_ledger_remove (self->ledger, LLM_HOLDER_CONSTRAINTS, self->n_bytes);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  g_free (self->masks);
  g_free (self->commons);
  llm_grammar_unref (self->grammar);
  llm_token_trie_unref (self->tokens);
  g_free (self);
}

LlmGrammar *
llm_mask_table_get_grammar (LlmMaskTable *self)
{
  return self->grammar;
}

LlmTokenTrie *
llm_mask_table_get_tokens (LlmMaskTable *self)
{
  return self->tokens;
}

gboolean
llm_mask_table_is_shared (LlmMaskTable *self)
{
  return !g_atomic_ref_count_compare (&self->ref_count, 1);
}

gsize
llm_mask_table_get_bytes (LlmMaskTable *self)
{
  return g_atomic_pointer_get (&self->n_bytes);
}

/* --- the rest of tokens behind the end of a rule --- */

typedef struct
{
  const LlmTrie *trie;
  GByteArray *bytes;
  GArray *ends;          /* (element-type guint32) */
  GArray *firsts;        /* likewise */
  GArray *tokens;        /* likewise */
} Rest;

typedef struct
{
  guint32 byte;
  guint32 node;
} Child;

static int
compare_children (gconstpointer a,
                  gconstpointer b)
{
  const Child *x = a;
  const Child *y = b;

  if (x->byte != y->byte)
    return x->byte < y->byte ? -1 : 1;
  return x->node < y->node ? -1 : x->node > y->node;
}

/* Adds what is below @nodes, as if they were one. @allowed: (nullable): first bytes. */
static void
add_below (Rest          *rest,
           const GArray  *nodes,
           const guint32 *allowed)
{
  const LlmTrie *trie = rest->trie;
  g_autoptr(GArray) children = g_array_new (FALSE, FALSE, sizeof (Child));
  g_autoptr(GArray) group = g_array_new (FALSE, FALSE, sizeof (guint32));

  for (guint i = 0; i < nodes->len; i++)
    {
      guint32 parent = g_array_index (nodes, guint32, i);

      for (guint32 node = parent + 1; node < trie->ends[parent]; node = trie->ends[node])
        {
          Child child = { trie->bytes[node], node };

          if (allowed == NULL || (allowed[child.byte / 32] & 1u << child.byte % 32) != 0)
            g_array_append_val (children, child);
        }
    }
  g_array_sort (children, compare_children);
  for (guint i = 0; i < children->len;)
    {
      guint8 byte = (guint8) g_array_index (children, Child, i).byte;
      guint32 place = rest->ends->len;
      guint32 first = rest->tokens->len;

      g_array_set_size (group, 0);
      g_byte_array_append (rest->bytes, &byte, 1);
      g_array_append_val (rest->ends, place);
      g_array_append_val (rest->firsts, first);
      for (; i < children->len && g_array_index (children, Child, i).byte == byte; i++)
        {
          guint32 node = g_array_index (children, Child, i).node;

          g_array_append_vals (rest->tokens, trie->tokens + trie->first_tokens[node],
                               trie->first_tokens[node + 1] - trie->first_tokens[node]);
          if (trie->ends[node] > node + 1)
            g_array_append_val (group, node);
        }
      if (group->len > 0)
        add_below (rest, group, NULL);
      g_array_index (rest->ends, guint32, place) = rest->ends->len;
    }
}

static void
make_rest (LlmTrie       *to,
           const LlmTrie *trie,
           const GArray  *exits,
           const guint32 *allowed)
{
  Rest rest = { trie, g_byte_array_new (), g_array_new (FALSE, FALSE, sizeof (guint32)),
                g_array_new (FALSE, FALSE, sizeof (guint32)),
                g_array_new (FALSE, FALSE, sizeof (guint32)) };
  guint32 end;

  add_below (&rest, exits, allowed);
  end = rest.tokens->len;
  g_array_append_val (rest.firsts, end);
  to->n_nodes = rest.ends->len;
  to->bytes = g_byte_array_free (rest.bytes, FALSE);
  to->ends = (guint32 *) g_array_free (rest.ends, FALSE);
  to->first_tokens = (guint32 *) g_array_free (rest.firsts, FALSE);
  to->tokens = (guint32 *) g_array_free (rest.tokens, FALSE);
}

/* --- masks of states --- */

static void
pack_bits (LlmMaskTable *self,
           Mask         *mask,
           guint64      *bits)
{
  guint n = 0;

  for (guint i = 0; i < self->n_words; i++)
    mask->n_ids += (guint) __builtin_popcountll (bits[i]);
  if (mask->n_ids > self->tokens->n_tokens / SPARSE_PART)
    {
      mask->bits = g_memdup2 (bits, self->n_words * sizeof *bits);
      mask->n_bytes = sizeof *mask + self->n_words * sizeof *bits;
      return;
    }
  mask->ids = g_new (guint32, mask->n_ids);
  mask->n_bytes = sizeof *mask + mask->n_ids * sizeof *mask->ids;
  for (guint i = 0; i < self->n_words; i++)
    for (guint64 word = bits[i]; word != 0; word &= word - 1)
      mask->ids[n++] = i * 64 + (guint) __builtin_ctzll (word);
}

static Mask *
make_mask (LlmMaskTable *self,
           guint32       state,
           guint64      *n_steps)
{
  const LlmGrammarRule *rule = &self->grammar->rules[self->grammar->states[state].rule];
  g_autofree guint64 *bits = g_new0 (guint64, self->n_words);
  g_autoptr(GArray) exits = g_array_new (FALSE, FALSE, sizeof (guint32));
  LlmThread start = { state, LLM_STACK_BOTTOM };
  Mask *mask = g_new0 (Mask, 1);
  LlmStacks stacks;
  LlmMaskWalk walk;

  llm_stacks_init (&stacks);
  llm_mask_walk_init (&walk, self->grammar, &stacks, &self->tokens->trie, bits);
  walk.exits = exits;
  walk.commons = self->commons;
  g_array_append_val (walk.threads, start);
  llm_mask_walk_run (&walk, 0, 0, self->tokens->trie.n_nodes);
  *n_steps += walk.n_steps;
  llm_mask_walk_clear (&walk);
  llm_stacks_clear (&stacks);
  pack_bits (self, mask, bits);
  make_rest (&mask->rest, &self->tokens->trie, exits, rule->follow);
  mask->n_bytes += mask->rest.n_nodes * 9;
  if (mask->rest.n_nodes > 0)
    mask->n_bytes += mask->rest.first_tokens[mask->rest.n_nodes] * sizeof (guint32);
  return mask;
}

/* The mask of a state. @is_own: (out): it is the caller's. */
static Mask *
get_mask (LlmMaskTable *self,
          guint32       state,
          guint64      *n_steps,
          gboolean     *is_own)
{
  Mask *mask = g_atomic_pointer_get (&self->masks[state]);

  *is_own = FALSE;
  if (mask != NULL)
    return mask;
  mask = make_mask (self, state, n_steps);
  *is_own = llm_mask_table_get_bytes (self) + mask->n_bytes > MAX_BYTES
            || (self->ledger != NULL && !llm_ledger_has_room (self->ledger, mask->n_bytes));
  if (*is_own)
    return mask;
  if (!g_atomic_pointer_compare_and_exchange (&self->masks[state], NULL, mask))
    {
      mask_free (mask);
      return g_atomic_pointer_get (&self->masks[state]);
    }
  g_atomic_pointer_add (&self->n_bytes, (gssize) mask->n_bytes);
  if (self->ledger != NULL)
    llm_ledger_add (self->ledger, LLM_HOLDER_CONSTRAINTS, mask->n_bytes);
  return mask;
}

void
llm_mask_table_warm (LlmMaskTable *self)
{
  guint64 n_steps = 0;

  for (guint32 state = 0; state < self->grammar->n_states && n_steps < WARM_STEPS; state++)
    {
      gboolean is_own;
      Mask *mask;

      if (!self->grammar->states[state].has_bytes)
        continue;
      mask = get_mask (self, state, &n_steps, &is_own);
      if (is_own)
        mask_free (mask);
      if (is_own)
        return;
    }
}

void
llm_mask_table_add (LlmMaskTable *self,
                    LlmStacks    *stacks,
                    LlmThread     thread,
                    guint64      *bits)
{
  guint64 n_steps = 0;
  gboolean is_own;
  Mask *mask = get_mask (self, thread.state, &n_steps, &is_own);

  if (mask->bits != NULL)
    for (guint i = 0; i < self->n_words; i++)
      bits[i] |= mask->bits[i];
  else
    for (guint i = 0; i < mask->n_ids; i++)
      bits[mask->ids[i] / 64] |= G_GUINT64_CONSTANT (1) << mask->ids[i] % 64;
  if (mask->rest.n_nodes > 0 && thread.stack != LLM_STACK_BOTTOM)
    {
      LlmFrame frame = g_array_index (stacks->frames, LlmFrame, thread.stack);
      LlmThread behind = { frame.state, frame.below };
      LlmMaskWalk walk;

      llm_mask_walk_init (&walk, self->grammar, stacks, &mask->rest, bits);
      llm_threads_add (walk.threads, 0, self->grammar, stacks, behind);
      llm_mask_walk_run (&walk, 0, 0, mask->rest.n_nodes);
      llm_mask_walk_clear (&walk);
    }
  if (is_own)
    mask_free (mask);
}

void
llm_mask_table_add_behind (LlmMaskTable *self,
                           LlmStacks    *stacks,
                           guint8        byte,
                           const GArray *threads,
                           guint64      *bits)
{
  const LlmTrie *trie = &self->tokens->trie;
  guint32 node = 0;
  LlmMaskWalk walk;

  while (node < trie->n_nodes && trie->bytes[node] != byte)
    node = trie->ends[node];
  if (node == trie->n_nodes)
    return;
  llm_mask_walk_init (&walk, self->grammar, stacks, trie, bits);
  g_array_append_vals (walk.threads, threads->data, threads->len);
  /* whatever the grammar says of this byte: it is not part of the text */
  for (guint32 i = trie->first_tokens[node]; i < trie->first_tokens[trie->ends[node]]; i++)
    bits[trie->tokens[i] / 64] &= ~(G_GUINT64_CONSTANT (1) << trie->tokens[i] % 64);
  llm_mask_walk_add_node (&walk, node);
  llm_mask_walk_run (&walk, 0, node + 1, trie->ends[node]);
  llm_mask_walk_clear (&walk);
}
