/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "soak/bench-soak-app.h"

#include <string.h>

#include "soak/bench-soak-talk.h"
#include "common/llmsvc-names.h"

#define SETTLE_STEP_US 3000

/* What the people of the demo model's world say. */
static const char *const prompts[] = {
  "I want a restaurant in San Jose.",
  "Find me a hotel for two nights.",
  "What is the weather like?",
  "Book a table for four at seven.",
  "Is there something cheaper?",
  "Yes, please do that.",
  "Play a song by someone I like.",
  "How long is the drive from here to the airport tomorrow morning?",
  "No, the other one. And tell me its phone number and whether they have parking.",
};

char *
bench_app_make_prompt (BenchApp *self)
{
  /* the number tells turns apart that say the same */
  return g_strdup_printf (
    "%s (%u)", prompts[bench_random_range (&self->random, 0, G_N_ELEMENTS (prompts) - 1)],
    bench_random_range (&self->random, 0, 9999));
}

void
bench_app_begin_options (BenchApp     *self,
                         GVariantDict *options,
                         guint         n_tokens)
{
  static const char *const classes[] = { "interactive", "responsive", "background" };

  g_variant_dict_init (options, NULL);
  g_variant_dict_insert (options, "max-tokens", "u", n_tokens);
  g_variant_dict_insert (options, "temperature", "d", 0.8);
  g_variant_dict_insert (options, "seed", "t", (guint64) bench_random_next (&self->random));
  if (bench_random_get (&self->random) < 0.4)
    g_variant_dict_insert (options, "slo", "s", classes[bench_random_range (&self->random, 0, 2)]);
}

guint
bench_app_choose_length (BenchApp *self)
{
  return bench_random_range (&self->random, 2, self->load->setup.max_tokens);
}

GVariant *
bench_app_make_options (BenchApp *self)
{
  GVariantDict options;

  bench_app_begin_options (self, &options, bench_app_choose_length (self));
  return g_variant_dict_end (&options);
}

GVariant *
bench_app_call_context (BenchApp   *self,
                        BenchSlot  *slot,
                        const char *method,
                        GVariant   *arguments,
                        const char *type,
                        GError    **error)
{
  return bench_talk_call (self->connection, slot->path, LLMSVC_CONTEXT_INTERFACE, method, arguments,
                          type, error);
}

GVariant *
bench_app_call_service (BenchApp   *self,
                        const char *method,
                        GVariant   *arguments,
                        const char *type,
                        GError    **error)
{
  return bench_talk_call (self->connection, LLMSVC_PATH, LLMSVC_INTERFACE, method, arguments, type,
                          error);
}

/* --- what the service says of a context --- */

static void
set_tokens (BenchApp  *self,
            BenchSlot *slot,
            guint      tokens)
{
  g_atomic_int_add (&self->load->n_tokens, (int) tokens - (int) slot->tokens);
  slot->tokens = tokens;
}

static gboolean
read_tokens (BenchApp  *self,
             BenchSlot *slot,
             GError   **error)
{
  g_autoptr(GVariant) value =
    bench_talk_get (self->connection, slot->path, LLMSVC_CONTEXT_INTERFACE, "Tokens", error);

  if (value == NULL)
    return FALSE;
  set_tokens (self, slot, g_variant_get_uint32 (value));
  return TRUE;
}

static gboolean
read_revision (BenchApp  *self,
               BenchSlot *slot,
               guint64   *revision,
               GError   **error)
{
  g_autoptr(GVariant) value =
    bench_talk_get (self->connection, slot->path, LLMSVC_CONTEXT_INTERFACE, "Revision", error);

  if (value == NULL)
    return FALSE;
  *revision = g_variant_get_uint64 (value);
  return TRUE;
}

/* Waits until no call of the context is under way: what is in doubt is decided then. The wrong
 * revision is looked at after that. */
static gboolean
settle (BenchApp  *self,
        BenchSlot *slot,
        GError   **error)
{
  for (;;)
    {
      g_autoptr(GError) local = NULL;
      g_autoptr(GVariant) reply = NULL;
      g_autofree char *name = NULL;
      GVariantDict options;

      g_variant_dict_init (&options, NULL);
      g_variant_dict_insert (&options, "if-revision", "t", G_MAXUINT64);
      reply = bench_app_call_context (self, slot, "Rollback",
                                      g_variant_new ("(u@a{sv})", 1, g_variant_dict_end (&options)),
                                      "()", &local);
      name = local != NULL ? bench_talk_error_name (local) : g_strdup ("no error");
      if (strcmp (name, "Conflict") == 0)
        return TRUE;
      if (strcmp (name, "ContextBusy") != 0)
        {
          if (local == NULL)
            g_set_error_literal (&local, G_IO_ERROR, G_IO_ERROR_FAILED,
                                 "A rollback at a wrong revision was done");
          g_propagate_error (error, g_steal_pointer (&local));
          return FALSE;
        }
      g_usleep (SETTLE_STEP_US);
    }
}

gboolean
bench_app_compare (BenchApp  *self,
                   BenchSlot *slot,
                   GError   **error)
{
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) messages = NULL;
  guint64 revision;

  if (!settle (self, slot, error) || !read_revision (self, slot, &revision, error))
    return FALSE;
  reply = bench_app_call_context (self, slot, "GetMessages",
                                  g_variant_new ("(uu@a{sv})", 0, 0, bench_talk_no_options ()),
                                  "(a(ssa{sv}))", error);
  if (reply == NULL)
    return FALSE;
  messages = g_variant_get_child_value (reply, 0);
  return bench_book_compare (slot->book, messages, revision, error) &&
         read_tokens (self, slot, error);
}

/* --- opened and closed --- */

gboolean
bench_app_close_context (BenchApp  *self,
                         BenchSlot *slot,
                         GError   **error)
{
  g_autoptr(GVariant) reply = NULL;

  slot->is_new = TRUE;
  reply = bench_app_call_context (
    self, slot, "Close", g_variant_new ("(@a{sv})", bench_talk_no_options ()), "()", error);
  return reply != NULL;
}

static gboolean
open_context (BenchApp  *self,
              BenchSlot *slot,
              GError   **error)
{
  g_autoptr(GVariant) reply = NULL;
  GVariantDict options;

  g_clear_pointer (&slot->path, g_free);
  g_variant_dict_init (&options, NULL);
  if (slot->name != NULL)
    {
      g_variant_dict_insert (&options, "create", "b", TRUE);
      reply = bench_app_call_service (
        self, "OpenContext", g_variant_new ("(s@a{sv})", slot->name, g_variant_dict_end (&options)),
        "(o)", error);
    }
  else
    {
      reply = bench_app_call_service (self, "CreateContext",
                                      g_variant_new ("(@a{sv})", g_variant_dict_end (&options)),
                                      "(o)", error);
    }
  if (reply != NULL)
    g_variant_get (reply, "(o)", &slot->path);
  return reply != NULL;
}

gboolean
bench_app_make_context (BenchApp  *self,
                        BenchSlot *slot,
                        GError   **error)
{
  guint64 revision;

  if (!open_context (self, slot, error))
    return FALSE;
  /* a named one may still be there with what it had */
  if (slot->name != NULL &&
      (!settle (self, slot, error) || !bench_app_close_context (self, slot, error) ||
       !open_context (self, slot, error)))
    return FALSE;
  if (!read_revision (self, slot, &revision, error))
    return FALSE;
  bench_book_begin (slot->book, NULL, revision);
  set_tokens (self, slot, 0);
  slot->is_new = FALSE;
  return TRUE;
}

gboolean
bench_app_open (BenchApp *self,
                GError  **error)
{
  if (self->connection != NULL)
    g_dbus_connection_close_sync (self->connection, NULL, NULL);
  g_clear_object (&self->connection);
  self->connection = bench_talk_connect (self->load->setup.address, self->id, error);
  if (self->connection == NULL)
    return FALSE;
  for (guint i = 0; i < self->load->setup.n_contexts; i++)
    {
      BenchSlot *slot = &self->slots[i];
      gboolean is_known = slot->name != NULL && slot->path != NULL && !slot->is_new;

      if (is_known ? !open_context (self, slot, error)
                   : !bench_app_make_context (self, slot, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
bench_app_renew (BenchApp  *self,
                 BenchSlot *slot,
                 GError   **error)
{
  return bench_app_close_context (self, slot, error) && bench_app_make_context (self, slot, error);
}

/* --- grown and cut --- */

gboolean
bench_app_take_turn (BenchApp   *self,
                     BenchSlot  *slot,
                     const char *said,
                     const char *answer,
                     GVariant   *results,
                     GError    **error)
{
  guint64 wanted = bench_book_get_revision (slot->book) + 1;
  guint64 revision = 0;

  bench_book_add (slot->book, said, answer);
  g_atomic_int_inc (&self->load->n_turns);
  if (results != NULL && g_variant_lookup (results, "revision", "t", &revision) &&
      revision != wanted)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED,
                   "A turn is said to be revision %" G_GUINT64_FORMAT
                   " and should be %" G_GUINT64_FORMAT,
                   revision, wanted);
      return FALSE;
    }
  return read_tokens (self, slot, error);
}

gboolean
bench_app_roll_back (BenchApp  *self,
                     BenchSlot *slot,
                     GError   **error)
{
  guint wanted = bench_random_range (&self->random, 1, 3);
  guint n = MIN (bench_book_get_n_turns (slot->book), wanted);
  g_autoptr(GVariant) reply = NULL;

  if (n == 0)
    return bench_app_renew (self, slot, error);
  bench_book_doubt_roll_back (slot->book, n);
  reply = bench_app_call_context (
    self, slot, "Rollback", g_variant_new ("(u@a{sv})", n, bench_talk_no_options ()), "()", error);
  if (reply == NULL)
    return FALSE;
  bench_book_roll_back (slot->book, n);
  return read_tokens (self, slot, error);
}

gboolean
bench_app_accept_refusal (BenchApp  *self,
                          BenchSlot *slot,
                          GError    *local,
                          GError   **error)
{
  static const char *const refusals[] = { "QuotaExceeded", "Overloaded", "NoMemory", NULL };
  g_autofree char *name = bench_talk_error_name (local);

  if (strcmp (name, "ContextFull") == 0)
    {
      g_error_free (local);
      return bench_app_roll_back (self, slot, error);
    }
  if (g_strv_contains (refusals, name))
    {
      g_error_free (local);
      g_atomic_int_inc (&self->load->n_refused);
      return TRUE;
    }
  g_propagate_error (error, local);
  return FALSE;
}

gboolean
bench_app_refuse_turn (BenchApp   *self,
                       BenchSlot  *slot,
                       const char *said,
                       gboolean    has_answer,
                       GError     *local,
                       GError    **error)
{
  bench_book_doubt_add (slot->book, said, has_answer);
  return bench_app_accept_refusal (self, slot, local, error);
}
