/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/llm-constraint-cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/llmsvc-error-private.h"
#include "constraints/llm-compile-work.h"
#include "constraints/llm-gbnf.h"
#include "constraints/llm-pattern.h"
#include "constraints/schema/llm-schema.h"
#include "constraints/tools/llm-tool-grammar.h"

#define MAX_ENTRIES 32
#define MAX_BYTES ((gsize) 128 << 20)

static const char json_schema[] = "{\"type\":\"object\"}";

static LlmGrammar *
compile_regex (const char  *text,
               GError     **error)
{
  g_autoptr(LlmGrammarBuilder) builder = llm_grammar_builder_new ();
  LlmAutomaton *automaton = llm_regex_compile (text, FALSE, LLM_ENCODING_UTF8, error);
  guint32 rule = llm_grammar_builder_add (builder, NULL);

  if (automaton == NULL)
    return NULL;
  llm_grammar_builder_set (builder, rule, automaton);
  return llm_grammar_new (builder, rule, error);
}

char *
llm_constraint_write_tools (const char *tools,
                            const char *choice,
                            const char *template_name,
                            gboolean    is_parallel,
                            gboolean    is_strict)
{
  const char *name = template_name != NULL ? template_name : "";

  /* the lengths tell the texts apart */
  return g_strdup_printf ("%d %d %zu %zu %s%s%s", is_parallel, is_strict, strlen (name),
                          strlen (choice), name, choice, tools);
}

static LlmGrammar *
compile_tools (LlmModel    *model,
               const char  *text,
               GError     **error)
{
  g_autoptr(LlmCallFormat) format = NULL;
  g_autoptr(LlmTools) tools = NULL;
  g_autofree char *choice = NULL;
  g_autofree char *name = NULL;
  LlmTemplate *template = NULL;
  char *at;
  gboolean is_parallel = strtoul (text, &at, 10) != 0;
  gboolean is_strict = strtoul (at, &at, 10) != 0;
  gsize name_length = strtoul (at, &at, 10);
  gsize length = strtoul (at, &at, 10);

  name = g_strndup (at + 1, name_length);
  at += 1 + name_length;
  choice = g_strndup (at, length);
  /* a model without a template answers raw prompts */
  if (model != NULL)
    template = llm_model_choose_template (model, *name != '\0' ? name : NULL, TRUE, NULL);
  format = llm_call_format_new (template != NULL ? llm_template_get_features (template) : NULL,
                                model != NULL ? llm_model_get_tokenizer (model) : NULL);
  tools = llm_tools_read (at + length, choice, is_parallel, is_strict, error);
  return tools != NULL ? llm_tool_grammar_new (tools, format, error) : NULL;
}

LlmGrammar *
llm_constraint_compile (LlmModel           *model,
                        LlmConstraintKind   kind,
                        const char         *text,
                        GError            **error)
{
  g_autoptr(GError) cause = NULL;
  LlmGrammar *grammar;

  switch (kind)
    {
    case LLM_CONSTRAINT_JSON:
      return llm_schema_compile (json_schema, strlen (json_schema), TRUE, error);
    case LLM_CONSTRAINT_JSON_SCHEMA:
    case LLM_CONSTRAINT_LOOSE_SCHEMA:
      return llm_schema_compile (text, strlen (text), kind == LLM_CONSTRAINT_JSON_SCHEMA, error);
    case LLM_CONSTRAINT_REGEX:
      grammar = compile_regex (text, &cause);
      if (grammar == NULL)
        g_propagate_error (error,
                           llmsvc_error_new (cause->code, cause, "regex: %s", cause->message));
      return grammar;
    case LLM_CONSTRAINT_TOOLS:
      return compile_tools (model, text, error);
    case LLM_CONSTRAINT_GRAMMAR:
    default:
      grammar = llm_gbnf_compile (text, &cause);
      if (grammar == NULL)
        g_propagate_error (error,
                           llmsvc_error_new (cause->code, cause, "grammar: %s", cause->message));
      return grammar;
    }
}

/* --- what is kept --- */

typedef struct
{
  LlmConstraintKind kind;
  char *text;
  LlmMaskTable *table;     /* (nullable) (owned): NULL while it is compiled */
} Entry;

struct _LlmConstraintCache
{
  gatomicrefcount ref_count;
  LlmLedger *ledger;       /* (owned) */
  GMutex lock;
  GCond compiled;          /* an entry was, or failed */
  LlmModel *model;         /* (nullable) (owned): whose tokens these are */
  LlmTokenTrie *tokens;    /* (nullable) (owned): made with the first entry */
  gsize token_bytes;       /* of these, in the ledger */
  GQueue entries;          /* (element-type Entry) (owned): the one used last in front */
  guint epoch;             /* counts models */
};

static Entry *
entry_new (LlmConstraintKind  kind,
           const char        *text)
{
  Entry *entry = g_new (Entry, 1);

  *entry = (Entry) { kind, g_strdup (text), NULL };
  return entry;
}

static void
free_entry (gpointer data)
{
  Entry *entry = data;

  g_free (entry->text);
  g_clear_pointer (&entry->table, llm_mask_table_unref);
  g_free (entry);
}

LlmConstraintCache *
llm_constraint_cache_new (LlmLedger *ledger)
{
  LlmConstraintCache *self = g_new0 (LlmConstraintCache, 1);

  g_atomic_ref_count_init (&self->ref_count);
  self->ledger = llm_ledger_ref (ledger);
  g_mutex_init (&self->lock);
  g_cond_init (&self->compiled);
  g_queue_init (&self->entries);
  return self;
}

static void
drop_tokens (LlmConstraintCache *self)
{
  g_clear_pointer (&self->tokens, llm_token_trie_unref);
  llm_ledger_remove (self->ledger, LLM_HOLDER_CONSTRAINTS, self->token_bytes);
  self->token_bytes = 0;
}

LlmConstraintCache *
llm_constraint_cache_ref (LlmConstraintCache *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_constraint_cache_unref (LlmConstraintCache *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  g_queue_clear_full (&self->entries, free_entry);
  drop_tokens (self);
  g_clear_pointer (&self->model, llm_model_unref);
  llm_ledger_unref (self->ledger);
  g_cond_clear (&self->compiled);
  g_mutex_clear (&self->lock);
  g_free (self);
}

void
llm_constraint_cache_set_model (LlmConstraintCache *self,
                                LlmModel           *model)
{
  g_mutex_lock (&self->lock);
  g_queue_clear_full (&self->entries, free_entry);
  drop_tokens (self);
  g_clear_pointer (&self->model, llm_model_unref);
  if (model != NULL)
    self->model = llm_model_ref (model);
  self->epoch++;
  g_cond_broadcast (&self->compiled);
  g_mutex_unlock (&self->lock);
}

/* Removes entries that no answer uses, those used last a while ago first, until @bytes are freed.
 * @is_trial: only counts. */
static gsize
drop_unused (LlmConstraintCache *self,
             gsize               bytes,
             gboolean            is_trial)
{
  gsize freed = 0;
  GList *link = self->entries.tail;
  gboolean all = TRUE;

  while (link != NULL && freed < bytes)
    {
      GList *previous = link->prev;
      Entry *entry = link->data;

      if (entry->table != NULL && !llm_mask_table_is_shared (entry->table))
        {
          freed += llm_mask_table_get_bytes (entry->table);
          if (!is_trial)
            {
              free_entry (entry);
              g_queue_delete_link (&self->entries, link);
            }
        }
      else
        {
          all = FALSE;
        }
      link = previous;
    }
  if (all && link == NULL && freed < bytes)
    {
      freed += self->token_bytes;
      if (!is_trial)
        drop_tokens (self);
    }
  return freed;
}

static guint64
get_unused (gpointer holder)
{
  LlmConstraintCache *self = holder;
  gsize n_bytes;

  g_mutex_lock (&self->lock);
  n_bytes = drop_unused (self, G_MAXSIZE, TRUE);
  g_mutex_unlock (&self->lock);
  return n_bytes;
}

static void
give_unused (gpointer       holder,
             guint64        bytes,
             gint64         deadline_us,
             LlmReclaimDone done,
             gpointer       data)
{
  LlmConstraintCache *self = holder;
  gsize n_bytes;

  g_mutex_lock (&self->lock);
  n_bytes = drop_unused (self, bytes, FALSE);
  g_mutex_unlock (&self->lock);
  done (n_bytes, data);
}

void
llm_constraint_cache_add_reclaimer (LlmConstraintCache *self)
{
  const LlmReclaimer reclaimer = {
    "constraints", LLM_RECLAIM_CHEAP, get_unused, give_unused, .holder = self,
  };

  llm_ledger_add_reclaimer (self->ledger, &reclaimer);
}

/* (nullable): it is the one used last then. */
static Entry *
find (LlmConstraintCache *self,
      LlmConstraintKind   kind,
      const char         *text)
{
  for (GList *link = self->entries.head; link != NULL; link = link->next)
    {
      Entry *entry = link->data;

      if (entry->kind != kind || g_strcmp0 (entry->text, text) != 0)
        continue;
      g_queue_unlink (&self->entries, link);
      g_queue_push_head_link (&self->entries, link);
      return entry;
    }
  return NULL;
}

static gsize
count_bytes (LlmConstraintCache *self)
{
  gsize n_bytes = self->token_bytes;

  for (GList *link = self->entries.head; link != NULL; link = link->next)
    {
      const Entry *entry = link->data;

      n_bytes += entry->table != NULL ? llm_mask_table_get_bytes (entry->table) : 0;
    }
  return n_bytes;
}

static void
limit (LlmConstraintCache *self)
{
  GList *link = self->entries.tail;

  while (link != self->entries.head
         && (self->entries.length > MAX_ENTRIES || count_bytes (self) > MAX_BYTES))
    {
      GList *previous = link->prev;
      Entry *entry = link->data;

      if (entry->table != NULL)
        {
          free_entry (entry);
          g_queue_delete_link (&self->entries, link);
        }
      link = previous;
    }
}

/* What was compiled for @entry: NULL: nothing. */
static void
settle (LlmConstraintCache *self,
        Entry              *entry,
        LlmMaskTable       *table)
{
  if (table != NULL)
    {
      entry->table = llm_mask_table_ref (table);
      limit (self);
    }
  else
    {
      g_queue_remove (&self->entries, entry);
      free_entry (entry);
    }
  g_cond_broadcast (&self->compiled);
}

static LlmMaskTable *
compile (LlmModel           *model,
         LlmTokenTrie       *tokens,
         LlmConstraintKind   kind,
         const char         *text,
         LlmLedger          *ledger,
         GCancellable       *cancellable,
         GError            **error)
{
  g_autoptr(LlmGrammar) grammar = NULL;
  g_autoptr(GError) reason = NULL;
  LlmCompileWork work;
  LlmMaskTable *table;

  llm_compile_work_begin (&work, ledger, cancellable);
  grammar = llm_constraint_compile (model, kind, text, &reason);
  if (!llm_compile_work_end (&work, error))
    return NULL;
  if (grammar == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&reason));
      return NULL;
    }
  table = llm_mask_table_new (grammar, tokens, ledger);
  llm_mask_table_warm (table);
  return table;
}

/* (transfer full): made without the lock, which it takes. */
static LlmTokenTrie *
make_tokens (LlmConstraintCache *self,
             LlmModel           *model)
{
  g_autoptr(LlmTokenTrie) tokens = llm_token_trie_new (llm_model_get_tokenizer (model));

  g_mutex_lock (&self->lock);
  if (self->model == model && self->tokens == NULL)
    {
      self->tokens = llm_token_trie_ref (tokens);
      self->token_bytes = llm_token_trie_get_bytes (tokens);
      llm_ledger_add (self->ledger, LLM_HOLDER_CONSTRAINTS, self->token_bytes);
    }
  g_mutex_unlock (&self->lock);
  return g_steal_pointer (&tokens);
}

LlmMaskTable *
llm_constraint_cache_find (LlmConstraintCache *self,
                           LlmModel           *model,
                           LlmConstraintKind   kind,
                           const char         *text)
{
  const Entry *entry;
  LlmMaskTable *table = NULL;

  g_mutex_lock (&self->lock);
  entry = self->model == model ? find (self, kind, text) : NULL;
  if (entry != NULL && entry->table != NULL)
    table = llm_mask_table_ref (entry->table);
  g_mutex_unlock (&self->lock);
  return table;
}

LlmMaskTable *
llm_constraint_cache_get (LlmConstraintCache  *self,
                          LlmModel            *model,
                          LlmConstraintKind    kind,
                          const char          *text,
                          GCancellable        *cancellable,
                          GError             **error)
{
  g_autoptr(LlmTokenTrie) tokens = NULL;
  LlmMaskTable *table = NULL;
  Entry *entry = NULL;
  guint epoch;

  g_mutex_lock (&self->lock);
  /* another call may compile it just now */
  while (self->model == model && (entry = find (self, kind, text)) != NULL && entry->table == NULL)
    g_cond_wait (&self->compiled, &self->lock);
  epoch = self->epoch;
  if (self->model != model)
    entry = NULL;
  else if (entry != NULL)
    table = llm_mask_table_ref (entry->table);
  else
    g_queue_push_head (&self->entries, entry = entry_new (kind, text));
  if (self->tokens != NULL && self->model == model)
    tokens = llm_token_trie_ref (self->tokens);
  g_mutex_unlock (&self->lock);
  if (table != NULL)
    return table;

  if (tokens == NULL)
    tokens = make_tokens (self, model);
  table = compile (model, tokens, kind, text, self->ledger, cancellable, error);
  g_mutex_lock (&self->lock);
  /* that of a model that has gone meanwhile is no longer there */
  if (entry != NULL && self->epoch == epoch)
    settle (self, entry, table);
  g_mutex_unlock (&self->lock);
  return table;
}
