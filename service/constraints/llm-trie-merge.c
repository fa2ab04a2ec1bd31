/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One trie of parts of others. */

#include "constraints/llm-token-trie.h"

typedef struct
{
  GByteArray *bytes;
  GArray *ends;          /* (element-type guint32) */
  GArray *firsts;        /* likewise */
  GArray *tokens;        /* likewise */
} Merge;

typedef struct
{
  guint8 byte;
  guint32 node;
  const LlmTrie *trie;
} Child;

static int
compare_children (gconstpointer a,
                  gconstpointer b)
{
  const Child *x = a;
  const Child *y = b;

  return x->byte < y->byte ? -1 : x->byte > y->byte;
}

static void
add (Merge         *merge,
     const GArray  *nodes,
     const guint32 *allowed)
{
  g_autoptr(GArray) children = g_array_new (FALSE, FALSE, sizeof (Child));
  g_autoptr(GArray) below = g_array_new (FALSE, FALSE, sizeof (LlmTrieNodes));

  for (guint i = 0; i < nodes->len; i++)
    {
      const LlmTrieNodes *part = &g_array_index (nodes, LlmTrieNodes, i);

      for (guint32 node = part->first; node < part->end; node = part->trie->ends[node])
        {
          Child child = { part->trie->bytes[node], node, part->trie };

          if (allowed == NULL || (allowed[child.byte / 32] & 1u << child.byte % 32) != 0)
            g_array_append_val (children, child);
        }
    }
  g_array_sort (children, compare_children);
  for (guint i = 0; i < children->len;)
    {
      guint8 byte = g_array_index (children, Child, i).byte;
      guint32 place = merge->ends->len;
      guint32 first = merge->tokens->len;

      g_array_set_size (below, 0);
      g_byte_array_append (merge->bytes, &byte, 1);
      g_array_append_val (merge->ends, place);
      g_array_append_val (merge->firsts, first);
      for (; i < children->len && g_array_index (children, Child, i).byte == byte; i++)
        {
          const Child *child = &g_array_index (children, Child, i);
          const LlmTrie *trie = child->trie;
          LlmTrieNodes part = { trie, child->node + 1, trie->ends[child->node] };

          g_array_append_vals (merge->tokens, trie->tokens + trie->first_tokens[child->node],
                               trie->first_tokens[child->node + 1]
                                 - trie->first_tokens[child->node]);
          if (part.end > part.first)
            g_array_append_val (below, part);
        }
      if (below->len > 0)
        add (merge, below, NULL);
      g_array_index (merge->ends, guint32, place) = merge->ends->len;
    }
}

void
llm_trie_merge (LlmTrie       *to,
                const GArray  *nodes,
                const guint32 *allowed)
{
  Merge merge = { g_byte_array_new (), g_array_new (FALSE, FALSE, sizeof (guint32)),
                  g_array_new (FALSE, FALSE, sizeof (guint32)),
                  g_array_new (FALSE, FALSE, sizeof (guint32)) };
  guint32 end;

  add (&merge, nodes, allowed);
  end = merge.tokens->len;
  g_array_append_val (merge.firsts, end);
  to->n_nodes = merge.ends->len;
  to->bytes = g_byte_array_free (merge.bytes, FALSE);
  to->ends = (guint32 *) g_array_free (merge.ends, FALSE);
  to->first_tokens = (guint32 *) g_array_free (merge.firsts, FALSE);
  to->tokens = (guint32 *) g_array_free (merge.tokens, FALSE);
}

void
llm_trie_clear (LlmTrie *trie)
{
  g_free (trie->heights);
  g_free (trie->bytes);
  g_free (trie->ends);
  g_free (trie->first_tokens);
  g_free (trie->tokens);
}
