/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "soak/bench-soak-load-private.h"

#include <string.h>

#include "soak/bench-soak-answers.h"
#include "soak/bench-soak-app.h"
#include "soak/bench-soak-talk.h"
#include "common/llmsvc-names.h"

#define MAX_CONTEXT_TOKENS 800

typedef gboolean (*Act) (BenchApp  *self,
                         BenchSlot *slot,
                         GError   **error);

/* --- without an answer --- */

static gboolean
count_tokens (BenchApp  *self,
              BenchSlot *slot,
              GError   **error)
{
  g_autofree char *prompt = bench_app_make_prompt (self);
  g_autoptr(GVariant) reply = bench_app_call_service (
    self, "CountTokens",
    g_variant_new ("(@a(ssa{sv})@a{sv})", bench_talk_message (prompt), bench_talk_no_options ()),
    "(u)", error);

  return reply != NULL;
}

static gboolean
append (BenchApp  *self,
        BenchSlot *slot,
        GError   **error)
{
  g_autofree char *prompt = bench_app_make_prompt (self);
  g_autoptr(GVariant) reply = NULL;
  GError *local = NULL;
  GVariantDict options;

  g_variant_dict_init (&options, NULL);
  if (bench_random_get (&self->random) < 0.5)
    g_variant_dict_insert (&options, "wait", "b", TRUE);
  reply = bench_app_call_context (self, slot, "Append",
                                  g_variant_new ("(@a(ssa{sv})@a{sv})", bench_talk_message (prompt),
                                                 g_variant_dict_end (&options)),
                                  "(u)", &local);
  if (reply != NULL)
    return bench_app_take_turn (self, slot, prompt, NULL, NULL, error);
  return bench_app_refuse_turn (self, slot, prompt, FALSE, local, error);
}

static gboolean
fork_and_ask (BenchApp  *self,
              BenchSlot *slot,
              GError   **error)
{
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) answer = NULL;
  g_autofree char *prompt = bench_app_make_prompt (self);
  g_autofree char *name = NULL;
  g_autoptr(GError) local = NULL;
  BenchSlot fork = { NULL };

  reply = bench_app_call_context (
    self, slot, "Fork", g_variant_new ("(@a{sv})", bench_talk_no_options ()), "(o)", error);
  if (reply == NULL)
    return FALSE;
  g_variant_get (reply, "(&o)", &fork.path);
  answer = bench_app_call_context (
    self, &fork, "Ask", g_variant_new ("(s@a{sv})", prompt, bench_app_make_options (self)),
    "(sa{sv})", &local);
  if (!bench_app_close_context (self, &fork, error))
    return FALSE;
  name = local != NULL ? bench_talk_error_name (local) : NULL;
  if (name == NULL || strcmp (name, "ContextFull") == 0 || strcmp (name, "NoMemory") == 0 ||
      strcmp (name, "Overloaded") == 0)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

/* --- looking --- */

static gboolean
look (BenchApp  *self,
      BenchSlot *slot,
      GError   **error)
{
  g_autoptr(GVariant) memory = NULL;
  g_autoptr(GVariant) list = NULL;
  g_autoptr(GVariant) all = NULL;
  g_autoptr(GVariant) statistics = NULL;
  g_autoptr(GVariant) contexts = NULL;

  memory =
    bench_app_call_context (self, slot, "GetMemory",
                            g_variant_new ("(@a{sv})", bench_talk_no_options ()), "(a{sv})", error);
  if (memory == NULL)
    return FALSE;
  all = bench_talk_call (self->connection, slot->path, "org.freedesktop.DBus.Properties", "GetAll",
                         g_variant_new ("(s)", LLMSVC_CONTEXT_INTERFACE), "(a{sv})", error);
  if (all == NULL)
    return FALSE;
  statistics = bench_app_call_service (
    self, "GetStatistics", g_variant_new ("(@a{sv})", bench_talk_no_options ()), "(a{sv})", error);
  if (statistics == NULL)
    return FALSE;
  list = bench_app_call_service (self, "ListContexts",
                                 g_variant_new ("(@a{sv})", bench_talk_no_options ()),
                                 "(a(oa{sv}))", error);
  if (list == NULL)
    return FALSE;
  contexts = g_variant_get_child_value (list, 0);
  if (g_variant_n_children (contexts) != self->load->setup.n_contexts)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED,
                   "ListContexts gives %zu contexts; the application has %u",
                   g_variant_n_children (contexts), self->load->setup.n_contexts);
      return FALSE;
    }
  return TRUE;
}

static gboolean
try_wrong_revision (BenchApp  *self,
                    BenchSlot *slot,
                    GError   **error)
{
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GError) local = NULL;
  g_autofree char *name = NULL;
  GVariantDict options;

  bench_app_begin_options (self, &options, 2);
  g_variant_dict_insert (&options, "if-revision", "t", bench_book_get_revision (slot->book) + 7);
  reply = bench_app_call_context (
    self, slot, "Ask", g_variant_new ("(s@a{sv})", "Hello", g_variant_dict_end (&options)),
    "(sa{sv})", &local);
  name = local != NULL ? bench_talk_error_name (local) : g_strdup ("no error");
  if (strcmp (name, "Conflict") == 0)
    return TRUE;
  if (local != NULL)
    g_propagate_error (error, g_steal_pointer (&local));
  else
    g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_FAILED, "A wrong revision was accepted");
  return FALSE;
}

/* --- leaving --- */

/* The connection goes with a call under way; the application comes back. */
static gboolean
vanish (BenchApp  *self,
        BenchSlot *slot,
        GError   **error)
{
  g_autofree char *prompt = bench_app_make_prompt (self);
  gboolean streams = bench_random_get (&self->random) < 0.5;
  GVariant *arguments, *options;

  bench_book_doubt_add (slot->book, prompt, TRUE);
  options = bench_app_make_options (self);
  arguments = streams ? g_variant_new ("(@a(ssa{sv})@a{sv})", bench_talk_message (prompt), options)
                      : g_variant_new ("(s@a{sv})", prompt, options);
  g_dbus_connection_call (self->connection, LLMSVC_BUS_NAME, slot->path, LLMSVC_CONTEXT_INTERFACE,
                          streams ? "Generate" : "Ask", arguments, NULL, G_DBUS_CALL_FLAGS_NONE, -1,
                          NULL, NULL, NULL);
  g_dbus_connection_flush_sync (self->connection, NULL, NULL);
  g_usleep (bench_random_range (&self->random, 0, 30000));
  if (!bench_app_open (self, error))
    return FALSE;
  return slot->name == NULL || bench_app_compare (self, slot, error);
}

/* --- the choice --- */

static const struct
{
  guint weight;
  Act act;
} acts[BENCH_N_OPS] = {
  [BENCH_OP_GENERATE] = { 26, bench_app_generate },
  [BENCH_OP_TEXT] = { 5, bench_app_generate_text },
  [BENCH_OP_CANCEL] = { 7, bench_app_generate_and_discard },
  [BENCH_OP_KEEP] = { 3, bench_app_generate_and_keep },
  [BENCH_OP_HANG_UP] = { 4, bench_app_hang_up },
  [BENCH_OP_STALL] = { 2, bench_app_stall },
  [BENCH_OP_ASK] = { 9, bench_app_ask_once },
  [BENCH_OP_RETRY] = { 2, bench_app_ask_twice },
  [BENCH_OP_COMPLETE] = { 6, bench_app_complete },
  [BENCH_OP_COUNT] = { 3, count_tokens },
  [BENCH_OP_APPEND] = { 8, append },
  [BENCH_OP_FORK] = { 3, fork_and_ask },
  [BENCH_OP_ROLLBACK] = { 3, bench_app_roll_back },
  [BENCH_OP_RENEW] = { 2, bench_app_renew },
  [BENCH_OP_COMPARE] = { 6, bench_app_compare },
  [BENCH_OP_LOOK] = { 7, look },
  [BENCH_OP_CONFLICT] = { 2, try_wrong_revision },
  [BENCH_OP_VANISH] = { 2, vanish },
};

static BenchOp
choose_op (BenchApp *self)
{
  guint sum = 0, dice;
  BenchOp op = 0;

  for (guint i = 0; i < BENCH_N_OPS; i++)
    sum += acts[i].weight;
  dice = bench_random_range (&self->random, 0, sum - 1);
  while (dice >= acts[op].weight)
    dice -= acts[op++].weight;
  return op;
}

static BenchSlot *
find_fullest (BenchApp *self)
{
  BenchSlot *fullest = &self->slots[0];

  for (guint i = 1; i < self->load->setup.n_contexts; i++)
    if (self->slots[i].tokens > fullest->tokens)
      fullest = &self->slots[i];
  return fullest;
}

/* The load holds the same number of tokens all the time, or nothing it does could be compared. */
gboolean
bench_app_act (BenchApp *self,
               GError  **error)
{
  BenchSlot *slot =
    &self->slots[bench_random_range (&self->random, 0, self->load->setup.n_contexts - 1)];
  BenchOp op = choose_op (self);

  if ((guint) g_atomic_int_get (&self->load->n_tokens) > self->load->setup.target_tokens)
    {
      slot = find_fullest (self);
      op = bench_random_get (&self->random) < 0.7 ? BENCH_OP_ROLLBACK : BENCH_OP_RENEW;
    }
  else if (slot->tokens > MAX_CONTEXT_TOKENS)
    {
      op = BENCH_OP_ROLLBACK;
    }
  /* an earlier failure may have left it so */
  if (self->connection == NULL && !bench_app_open (self, error))
    return FALSE;
  if ((slot->path == NULL || slot->is_new) && !bench_app_make_context (self, slot, error))
    return FALSE;
  if (!acts[op].act (self, slot, error))
    {
      g_prefix_error (error, "%s, %s context at revision %" G_GUINT64_FORMAT " with %u turns: ",
                      bench_load_get_op_name (op), slot->name != NULL ? "named" : "unnamed",
                      bench_book_get_revision (slot->book), bench_book_get_n_turns (slot->book));
      return FALSE;
    }
  g_atomic_int_inc (&self->load->counts[op]);
  return TRUE;
}
