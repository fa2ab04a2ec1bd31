/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/llm-mask-walk.h"

#include "constraints/llm-alike-states.h"

/* A mask with fewer tokens than this part of the vocabulary is a list of them. */
#define SPARSE_PART 48
/* Limit of the cached masks of one grammar; further ones are computed each time. */
#define MAX_BYTES (64u << 20)
/* Nodes of the vocabulary's trie that are walked ahead. */
#define WARM_STEPS 10000000u

/* What a state allows within its rule: all tokens, or those of one of llm_token_lengths. */
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
  Mask **masks;          /* (owned) [n_states], atomic: (nullable elements): of all tokens */
  LlmAlikeStates alike[LLM_N_TOKEN_LENGTHS];
  Mask **parts[LLM_N_TOKEN_LENGTHS]; /* (owned) [n_ids of @alike], atomic: (nullable elements): what
                                      * @masks are joined from */
  guint32 *commons;      /* (owned) [n_states], atomic: see LlmMaskWalk */
  gsize n_bytes;         /* atomic */
};

static void
mask_free (Mask *mask)
{
  g_free (mask->ids);
  g_free (mask->bits);
  llm_trie_clear (&mask->rest);
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
                    * (sizeof (Mask *) + (1 + LLM_N_TOKEN_LENGTHS) * sizeof (guint32)
                       + sizeof (LlmGrammarState))
                  + grammar->n_next * 2 * sizeof (guint32);
  llm_alike_states_find (grammar, llm_token_lengths, LLM_N_TOKEN_LENGTHS, self->alike);
  for (guint i = 0; i < LLM_N_TOKEN_LENGTHS; i++)
    {
      self->parts[i] = g_new0 (Mask *, self->alike[i].n_ids);
      self->n_bytes += self->alike[i].n_ids * sizeof (Mask *);
    }
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
  for (guint i = 0; i < LLM_N_TOKEN_LENGTHS; i++)
    {
      for (guint id = 0; id < self->alike[i].n_ids; id++)
        g_clear_pointer (&self->parts[i][id], mask_free);
      g_free (self->parts[i]);
      g_free (self->alike[i].ids);
    }
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

static gsize
get_rest_bytes (const LlmTrie *rest)
{
  return rest->n_nodes > 0 ? rest->n_nodes * 9 + rest->first_tokens[rest->n_nodes] * sizeof (guint32)
                           : 0;
}

/* Of the tokens of one length, by a walk. */
static Mask *
make_part (LlmMaskTable *self,
           guint         length,
           guint32       state,
           guint64      *n_steps)
{
  const LlmGrammarRule *rule = &self->grammar->rules[self->grammar->states[state].rule];
  const LlmTrie *trie = &self->tokens->tries[length];
  g_autofree guint64 *bits = g_new0 (guint64, self->n_words);
  g_autoptr(GArray) exits = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_autoptr(GArray) nodes = g_array_new (FALSE, FALSE, sizeof (LlmTrieNodes));
  LlmThread start = { state, LLM_STACK_BOTTOM };
  Mask *mask = g_new0 (Mask, 1);
  LlmStacks stacks;
  LlmMaskWalk walk;

  llm_stacks_init (&stacks);
  llm_mask_walk_init (&walk, self->grammar, &stacks, trie, bits);
  walk.exits = exits;
  walk.commons = self->commons;
  g_array_append_val (walk.threads, start);
  llm_mask_walk_run (&walk, 0, 0, trie->n_nodes);
  *n_steps += walk.n_steps;
  llm_mask_walk_clear (&walk);
  llm_stacks_clear (&stacks);
  pack_bits (self, mask, bits);
  for (guint i = 0; i < exits->len; i++)
    {
      guint32 node = g_array_index (exits, guint32, i);
      LlmTrieNodes below = { trie, node + 1, trie->ends[node] };

      g_array_append_val (nodes, below);
    }
  llm_trie_merge (&mask->rest, nodes, rule->follow);
  mask->n_bytes += get_rest_bytes (&mask->rest);
  return mask;
}

/* Keeps @mask in @slot, if there is room. Returns what is there then; @is_own: (out): it is the
 * caller's. */
static Mask *
keep_mask (LlmMaskTable *self,
           Mask        **slot,
           Mask         *mask,
           gboolean     *is_own)
{
  *is_own = llm_mask_table_get_bytes (self) + mask->n_bytes > MAX_BYTES
            || (self->ledger != NULL && !llm_ledger_has_room (self->ledger, mask->n_bytes));
  if (*is_own)
    return mask;
  if (!g_atomic_pointer_compare_and_exchange (slot, NULL, mask))
    {
      mask_free (mask);
      return g_atomic_pointer_get (slot);
    }
  g_atomic_pointer_add (&self->n_bytes, (gssize) mask->n_bytes);
  if (self->ledger != NULL)
    llm_ledger_add (self->ledger, LLM_HOLDER_CONSTRAINTS, mask->n_bytes);
  return mask;
}

static Mask *
get_part (LlmMaskTable *self,
          guint         length,
          guint32       state,
          guint64      *n_steps,
          gboolean     *is_own)
{
  Mask **slot = &self->parts[length][self->alike[length].ids[state]];
  Mask *mask = g_atomic_pointer_get (slot);

  *is_own = FALSE;
  if (mask != NULL)
    return mask;
  return keep_mask (self, slot, make_part (self, length, state, n_steps), is_own);
}

static void
add_tokens (LlmMaskTable *self,
            const Mask   *mask,
            guint64      *bits)
{
  if (mask->bits != NULL)
    for (guint i = 0; i < self->n_words; i++)
      bits[i] |= mask->bits[i];
  else
    for (guint i = 0; i < mask->n_ids; i++)
      bits[mask->ids[i] / 64] |= G_GUINT64_CONSTANT (1) << mask->ids[i] % 64;
}

/* Of all tokens, from the parts. */
static Mask *
join_parts (LlmMaskTable *self,
            guint32       state)
{
  g_autofree guint64 *bits = g_new0 (guint64, self->n_words);
  g_autoptr(GArray) nodes = g_array_new (FALSE, FALSE, sizeof (LlmTrieNodes));
  Mask *mask = g_new0 (Mask, 1);
  Mask *parts[LLM_N_TOKEN_LENGTHS];
  gboolean is_own[LLM_N_TOKEN_LENGTHS];
  guint64 n_steps = 0;

  for (guint i = 0; i < LLM_N_TOKEN_LENGTHS; i++)
    {
      LlmTrieNodes rest;

      parts[i] = get_part (self, i, state, &n_steps, &is_own[i]);
      rest = (LlmTrieNodes) { &parts[i]->rest, 0, parts[i]->rest.n_nodes };
      add_tokens (self, parts[i], bits);
      g_array_append_val (nodes, rest);
    }
  pack_bits (self, mask, bits);
  llm_trie_merge (&mask->rest, nodes, NULL);
  mask->n_bytes += get_rest_bytes (&mask->rest);
  for (guint i = 0; i < LLM_N_TOKEN_LENGTHS; i++)
    if (is_own[i])
      mask_free (parts[i]);
  return mask;
}

/* The mask of a state. @is_own: (out): it is the caller's. */
static Mask *
get_mask (LlmMaskTable *self,
          guint32       state,
          gboolean     *is_own)
{
  Mask *mask = g_atomic_pointer_get (&self->masks[state]);

  *is_own = FALSE;
  if (mask != NULL)
    return mask;
  return keep_mask (self, &self->masks[state], join_parts (self, state), is_own);
}

/* Short tokens first: their parts serve most states. The longest ones are few, and where each state
 * has a part of its own for them, it is found when it is asked for. */
void
llm_mask_table_warm (LlmMaskTable *self)
{
  const LlmGrammarState *states = self->grammar->states;
  const LlmAlikeStates *longest = &self->alike[LLM_N_TOKEN_LENGTHS - 1];
  guint n = LLM_N_TOKEN_LENGTHS - (longest->n_ids == self->grammar->n_states);
  guint64 n_steps = 0;

  for (guint i = 0; i < n; i++)
    for (guint32 state = 0; state < self->grammar->n_states && n_steps < WARM_STEPS; state++)
      {
        gboolean is_own;
        Mask *mask;

        if (!states[state].has_bytes)
          continue;
        mask = get_part (self, i, state, &n_steps, &is_own);
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
  gboolean is_own;
  Mask *mask = get_mask (self, thread.state, &is_own);

  add_tokens (self, mask, bits);
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

static void
add_behind (LlmMaskTable  *self,
            LlmStacks     *stacks,
            const LlmTrie *trie,
            guint8         byte,
            const GArray  *threads,
            guint64       *bits)
{
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

void
llm_mask_table_add_behind (LlmMaskTable *self,
                           LlmStacks    *stacks,
                           guint8        byte,
                           const GArray *threads,
                           guint64      *bits)
{
  for (guint i = 0; i < LLM_N_TOKEN_LENGTHS; i++)
    add_behind (self, stacks, &self->tokens->tries[i], byte, threads, bits);
}
