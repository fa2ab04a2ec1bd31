/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "soak/bench-soak-load-private.h"

#include <fcntl.h>
#include <string.h>

#include "soak/bench-soak-talk.h"
#include "common/llmsvc-names.h"

#define MAX_CONTEXT_TOKENS 800
#define STALLED_TOKENS 400
#define SMALL_PIPE 4096
#define SETTLE_STEP_US 3000
#define ANSWER_US (120 * G_USEC_PER_SEC)

/* What the people of the demo model's world say. */
static const char *const prompts[] = {
  "I want a restaurant in San Jose.", "Find me a hotel for two nights.", "What is the weather like?",
  "Book a table for four at seven.", "Is there something cheaper?", "Yes, please do that.",
  "Play a song by someone I like.", "How long is the drive from here to the airport tomorrow morning?",
  "No, the other one. And tell me its phone number and whether they have parking.",
};

typedef gboolean (*Act) (BenchApp  *self,
                         BenchSlot *slot,
                         GError   **error);

/* --- small things --- */

static char *
make_prompt (BenchApp *self)
{
  /* the number tells turns apart that say the same */
  return g_strdup_printf ("%s (%u)",
                          prompts[bench_random_range (&self->random, 0, G_N_ELEMENTS (prompts) - 1)],
                          bench_random_range (&self->random, 0, 9999));
}

static void
begin_options (BenchApp     *self,
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

static guint
choose_length (BenchApp *self)
{
  return bench_random_range (&self->random, 2, self->load->setup.max_tokens);
}

static GVariant *
make_options (BenchApp *self)
{
  GVariantDict options;

  begin_options (self, &options, choose_length (self));
  return g_variant_dict_end (&options);
}

/* How much an interruption comes later than what it interrupts. */
static gint64
choose_moment (BenchApp *self)
{
  return g_get_monotonic_time () + bench_random_range (&self->random, 0, 40000);
}

static GVariant *
call_context (BenchApp   *self,
              BenchSlot  *slot,
              const char *method,
              GVariant   *arguments,
              const char *type,
              GError    **error)
{
  return bench_talk_call (self->connection, slot->path, LLMSVC_CONTEXT_INTERFACE, method, arguments,
                          type, error);
}

static GVariant *
call_service (BenchApp   *self,
              const char *method,
              GVariant   *arguments,
              const char *type,
              GError    **error)
{
  return bench_talk_call (self->connection, LLMSVC_PATH, LLMSVC_INTERFACE, method, arguments, type,
                          error);
}

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

/* --- contexts --- */

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
      reply = call_context (self, slot, "Rollback",
                            g_variant_new ("(u@a{sv})", 1, g_variant_dict_end (&options)), "()",
                            &local);
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
  reply = call_context (self, slot, "GetMessages",
                        g_variant_new ("(uu@a{sv})", 0, 0, bench_talk_no_options ()),
                        "(a(ssa{sv}))", error);
  if (reply == NULL)
    return FALSE;
  messages = g_variant_get_child_value (reply, 0);
  return bench_book_compare (slot->book, messages, revision, error) &&
         read_tokens (self, slot, error);
}

static gboolean
close_context (BenchApp  *self,
               BenchSlot *slot,
               GError   **error)
{
  g_autoptr(GVariant) reply = NULL;

  slot->is_new = TRUE;
  reply = call_context (self, slot, "Close", g_variant_new ("(@a{sv})", bench_talk_no_options ()),
                        "()", error);
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
      reply = call_service (self, "OpenContext",
                            g_variant_new ("(s@a{sv})", slot->name, g_variant_dict_end (&options)),
                            "(o)", error);
    }
  else
    {
      reply = call_service (self, "CreateContext",
                            g_variant_new ("(@a{sv})", g_variant_dict_end (&options)), "(o)", error);
    }
  if (reply != NULL)
    g_variant_get (reply, "(o)", &slot->path);
  return reply != NULL;
}

/* A context of which everything is known: that nothing is in it. */
static gboolean
make_context (BenchApp  *self,
              BenchSlot *slot,
              GError   **error)
{
  guint64 revision;

  if (!open_context (self, slot, error))
    return FALSE;
  /* a named one may still be there with what it had */
  if (slot->name != NULL &&
      (!settle (self, slot, error) || !close_context (self, slot, error) ||
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

      if (is_known ? !open_context (self, slot, error) : !make_context (self, slot, error))
        return FALSE;
    }
  return TRUE;
}

/* --- answers --- */

static gboolean roll_back (BenchApp  *self,
                           BenchSlot *slot,
                           GError   **error);
static gboolean renew     (BenchApp  *self,
                           BenchSlot *slot,
                           GError   **error);

/* Takes @local. TRUE when the service may say so; then there is no turn. */
static gboolean
accept_refusal (BenchApp  *self,
                BenchSlot *slot,
                GError    *local,
                GError   **error)
{
  static const char *const refusals[] = { "QuotaExceeded", "Overloaded", "NoMemory", NULL };
  g_autofree char *name = bench_talk_error_name (local);

  if (strcmp (name, "ContextFull") == 0)
    {
      g_error_free (local);
      return roll_back (self, slot, error);
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

/* A turn was acknowledged with these results. */
static gboolean
take_turn (BenchApp   *self,
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
  if (results != NULL && g_variant_lookup (results, "revision", "t", &revision) && revision != wanted)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED,
                   "A turn is said to be revision %" G_GUINT64_FORMAT " and should be %" G_GUINT64_FORMAT,
                   revision, wanted);
      return FALSE;
    }
  return read_tokens (self, slot, error);
}

/* The end of a stream of lines. */
static gboolean
take_stream (BenchApp    *self,
             BenchSlot   *slot,
             const char  *said,
             BenchStream *stream,
             gboolean     was_cancelled,
             GError     **error)
{
  if (stream->results != NULL)
    return take_turn (self, slot, said, stream->text->str, stream->results, error);
  if (stream->failure != NULL && strcmp (stream->failure, "Cancelled") == 0 && was_cancelled)
    return TRUE;
  if (stream->failure != NULL && strcmp (stream->failure, "ContextFull") == 0)
    return roll_back (self, slot, error);
  if (stream->failure != NULL && (strcmp (stream->failure, "NoMemory") == 0 ||
                                  strcmp (stream->failure, "Overloaded") == 0))
    {
      g_atomic_int_inc (&self->load->n_refused);
      return TRUE;
    }
  bench_book_doubt_add (slot->book, said, TRUE);
  g_set_error (error, G_IO_ERROR,
               stream->failure == NULL && stream->has_ended ? G_IO_ERROR_PARTIAL_INPUT
                                                            : G_IO_ERROR_FAILED,
               "An answer ended with %s", stream->failure != NULL ? stream->failure
                                          : stream->has_ended     ? "nothing" : "no end in sight");
  return FALSE;
}

/* (transfer full) (nullable): NULL with *@is_refused when that is in order. */
static BenchStream *
begin_stream (BenchApp   *self,
              BenchSlot  *slot,
              const char *prompt,
              GVariant   *options,
              gboolean    is_text,
              gboolean   *is_refused,
              GError    **error)
{
  GError *local = NULL;
  BenchStream *stream =
    bench_stream_new (self->connection, slot->path, prompt, options, is_text, &local);

  *is_refused = FALSE;
  if (stream != NULL)
    return stream;
  bench_book_doubt_add (slot->book, prompt, TRUE);
  *is_refused = accept_refusal (self, slot, local, error);
  return NULL;
}

static gboolean
generate (BenchApp  *self,
          BenchSlot *slot,
          GError   **error)
{
  g_autofree char *prompt = make_prompt (self);
  gboolean is_refused;
  g_autoptr(BenchStream) stream =
    begin_stream (self, slot, prompt, make_options (self), FALSE, &is_refused, error);

  if (stream == NULL)
    return is_refused;
  return bench_stream_read (stream, g_get_monotonic_time () + ANSWER_US, error) &&
         take_stream (self, slot, prompt, stream, FALSE, error);
}

/* Nothing tells how it ended: the context is asked. */
static gboolean
generate_text (BenchApp  *self,
               BenchSlot *slot,
               GError   **error)
{
  g_autofree char *prompt = make_prompt (self);
  g_autoptr(BenchStream) stream = NULL;
  gboolean is_refused;
  GVariantDict options;

  begin_options (self, &options, choose_length (self));
  g_variant_dict_insert (&options, "stream", "s", "text");
  stream = begin_stream (self, slot, prompt, g_variant_dict_end (&options), TRUE, &is_refused, error);
  if (stream == NULL)
    return is_refused;
  bench_book_doubt_add (slot->book, prompt, TRUE);
  return bench_stream_read (stream, g_get_monotonic_time () + ANSWER_US, error) &&
         bench_app_compare (self, slot, error);
}

static gboolean
cancel (BenchApp    *self,
        BenchStream *stream,
        GError     **error)
{
  g_autoptr(GVariant) reply = bench_talk_call (
    self->connection, stream->generation, LLMSVC_GENERATION_INTERFACE, "Cancel",
    g_variant_new ("(@a{sv})", bench_talk_no_options ()), "()", error);

  return reply != NULL;
}

static gboolean
generate_and_cancel (BenchApp   *self,
                     BenchSlot  *slot,
                     const char *on_cancel,
                     GError    **error)
{
  g_autofree char *prompt = make_prompt (self);
  g_autoptr(BenchStream) stream = NULL;
  gboolean is_refused;
  GVariantDict options;

  begin_options (self, &options, STALLED_TOKENS);
  g_variant_dict_insert (&options, "on-cancel", "s", on_cancel);
  stream = begin_stream (self, slot, prompt, g_variant_dict_end (&options), FALSE, &is_refused, error);
  if (stream == NULL)
    return is_refused;
  bench_book_doubt_add (slot->book, prompt, TRUE);
  return bench_stream_read (stream, choose_moment (self), error) && cancel (self, stream, error) &&
         bench_stream_read (stream, g_get_monotonic_time () + ANSWER_US, error) &&
         take_stream (self, slot, prompt, stream, TRUE, error);
}

static gboolean
generate_and_discard (BenchApp  *self,
                      BenchSlot *slot,
                      GError   **error)
{
  return generate_and_cancel (self, slot, "discard", error);
}

static gboolean
generate_and_keep (BenchApp  *self,
                   BenchSlot *slot,
                   GError   **error)
{
  return generate_and_cancel (self, slot, "keep", error);
}

static gboolean
hang_up (BenchApp  *self,
         BenchSlot *slot,
         GError   **error)
{
  g_autofree char *prompt = make_prompt (self);
  gboolean is_refused;
  g_autoptr(BenchStream) stream =
    begin_stream (self, slot, prompt, make_options (self), FALSE, &is_refused, error);

  if (stream == NULL)
    return is_refused;
  bench_book_doubt_add (slot->book, prompt, TRUE);
  if (!bench_stream_read (stream, choose_moment (self), error))
    return FALSE;
  bench_stream_close (stream);
  return bench_app_compare (self, slot, error);
}

/* A pipe too small for the answer, left alone for a while, then read after all, or not. */
static gboolean
stall (BenchApp  *self,
       BenchSlot *slot,
       GError   **error)
{
  g_autofree char *prompt = make_prompt (self);
  g_autoptr(BenchStream) stream = NULL;
  gboolean is_refused;
  GVariantDict options;

  begin_options (self, &options, STALLED_TOKENS);
  stream = begin_stream (self, slot, prompt, g_variant_dict_end (&options), FALSE, &is_refused, error);
  if (stream == NULL)
    return is_refused;
  (void) fcntl (stream->fd, F_SETPIPE_SZ, SMALL_PIPE);
  g_usleep (bench_random_range (&self->random, 200, 3000) * 1000);
  if (bench_random_get (&self->random) < 0.5)
    {
      bench_book_doubt_add (slot->book, prompt, TRUE);
      bench_stream_close (stream);
      return bench_app_compare (self, slot, error);
    }
  return bench_stream_read (stream, g_get_monotonic_time () + ANSWER_US, error) &&
         take_stream (self, slot, prompt, stream, FALSE, error);
}

/* --- calls that reply with the text --- */

/* @text, @results: (out) (transfer full), NULL when the call was refused in order. */
static gboolean
ask (BenchApp   *self,
     BenchSlot  *slot,
     const char *prompt,
     GVariant   *options,
     char      **text,
     GVariant  **results,
     GError    **error)
{
  GError *local = NULL;
  g_autoptr(GVariant) reply =
    call_context (self, slot, "Ask", g_variant_new ("(s@a{sv})", prompt, options), "(sa{sv})", &local);

  *text = NULL;
  *results = NULL;
  if (reply == NULL)
    {
      bench_book_doubt_add (slot->book, prompt, TRUE);
      return accept_refusal (self, slot, local, error);
    }
  g_variant_get (reply, "(s@a{sv})", text, results);
  return TRUE;
}

static gboolean
ask_once (BenchApp  *self,
          BenchSlot *slot,
          GError   **error)
{
  g_autofree char *prompt = make_prompt (self);
  g_autofree char *text = NULL;
  g_autoptr(GVariant) results = NULL;

  if (!ask (self, slot, prompt, make_options (self), &text, &results, error))
    return FALSE;
  return text == NULL || take_turn (self, slot, prompt, text, results, error);
}

/* The second is answered from what is kept, and adds nothing. */
static gboolean
ask_twice (BenchApp  *self,
           BenchSlot *slot,
           GError   **error)
{
  g_autofree char *prompt = make_prompt (self);
  g_autofree char *id = g_strdup_printf ("%s-%" G_GUINT64_FORMAT, self->id, self->n_calls);
  g_autofree char *first = NULL;

  for (guint i = 0; i < 2; i++)
    {
      g_autofree char *text = NULL;
      g_autoptr(GVariant) results = NULL;
      gboolean is_repeated = FALSE;
      GVariantDict options;

      begin_options (self, &options, choose_length (self));
      g_variant_dict_insert (&options, "request-id", "s", id);
      if (!ask (self, slot, prompt, g_variant_dict_end (&options), &text, &results, error))
        return FALSE;
      if (text == NULL)
        return TRUE;
      g_variant_lookup (results, "repeated", "b", &is_repeated);
      if (is_repeated != (i == 1) || (i == 1 && strcmp (text, first) != 0))
        {
          g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_FAILED,
                               "A repeated request was not answered as the first one");
          return FALSE;
        }
      if (i == 0 && !take_turn (self, slot, prompt, text, results, error))
        return FALSE;
      first = g_steal_pointer (&text);
    }
  return TRUE;
}

static gboolean
complete (BenchApp  *self,
          BenchSlot *slot,
          GError   **error)
{
  g_autofree char *prompt = make_prompt (self);
  GError *local = NULL;
  g_autoptr(GVariant) reply =
    call_service (self, "Complete", g_variant_new ("(s@a{sv})", prompt, make_options (self)),
                  "(sa{sv})", &local);

  return reply != NULL || accept_refusal (self, slot, local, error);
}

static gboolean
count_tokens (BenchApp  *self,
              BenchSlot *slot,
              GError   **error)
{
  g_autofree char *prompt = make_prompt (self);
  g_autoptr(GVariant) reply = call_service (
    self, "CountTokens",
    g_variant_new ("(@a(ssa{sv})@a{sv})", bench_talk_message (prompt), bench_talk_no_options ()), "(u)",
    error);

  return reply != NULL;
}

static gboolean
append (BenchApp  *self,
        BenchSlot *slot,
        GError   **error)
{
  g_autofree char *prompt = make_prompt (self);
  g_autoptr(GVariant) reply = NULL;
  GError *local = NULL;
  GVariantDict options;

  g_variant_dict_init (&options, NULL);
  if (bench_random_get (&self->random) < 0.5)
    g_variant_dict_insert (&options, "wait", "b", TRUE);
  reply = call_context (self, slot, "Append",
                        g_variant_new ("(@a(ssa{sv})@a{sv})", bench_talk_message (prompt),
                                       g_variant_dict_end (&options)), "(u)", &local);
  if (reply != NULL)
    return take_turn (self, slot, prompt, NULL, NULL, error);
  bench_book_doubt_add (slot->book, prompt, FALSE);
  return accept_refusal (self, slot, local, error);
}

static gboolean
fork_and_ask (BenchApp  *self,
              BenchSlot *slot,
              GError   **error)
{
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) answer = NULL;
  g_autofree char *prompt = make_prompt (self);
  g_autofree char *name = NULL;
  g_autoptr(GError) local = NULL;
  BenchSlot fork = { NULL };

  reply = call_context (self, slot, "Fork", g_variant_new ("(@a{sv})", bench_talk_no_options ()),
                        "(o)", error);
  if (reply == NULL)
    return FALSE;
  g_variant_get (reply, "(&o)", &fork.path);
  answer = call_context (self, &fork, "Ask",
                         g_variant_new ("(s@a{sv})", prompt, make_options (self)), "(sa{sv})", &local);
  if (!close_context (self, &fork, error))
    return FALSE;
  name = local != NULL ? bench_talk_error_name (local) : NULL;
  if (name == NULL || strcmp (name, "ContextFull") == 0 || strcmp (name, "NoMemory") == 0 ||
      strcmp (name, "Overloaded") == 0)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

/* --- less --- */

static gboolean
roll_back (BenchApp  *self,
           BenchSlot *slot,
           GError   **error)
{
  guint wanted = bench_random_range (&self->random, 1, 3);
  guint n = MIN (bench_book_get_n_turns (slot->book), wanted);
  g_autoptr(GVariant) reply = NULL;

  if (n == 0)
    return renew (self, slot, error);
  bench_book_doubt_roll_back (slot->book, n);
  reply = call_context (self, slot, "Rollback", g_variant_new ("(u@a{sv})", n, bench_talk_no_options ()),
                        "()", error);
  if (reply == NULL)
    return FALSE;
  bench_book_roll_back (slot->book, n);
  return read_tokens (self, slot, error);
}

static gboolean
renew (BenchApp  *self,
       BenchSlot *slot,
       GError   **error)
{
  return close_context (self, slot, error) && make_context (self, slot, error);
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

  memory = call_context (self, slot, "GetMemory", g_variant_new ("(@a{sv})", bench_talk_no_options ()),
                         "(a{sv})", error);
  if (memory == NULL)
    return FALSE;
  all = bench_talk_call (self->connection, slot->path, "org.freedesktop.DBus.Properties", "GetAll",
                         g_variant_new ("(s)", LLMSVC_CONTEXT_INTERFACE), "(a{sv})", error);
  if (all == NULL)
    return FALSE;
  statistics = call_service (self, "GetStatistics",
                             g_variant_new ("(@a{sv})", bench_talk_no_options ()), "(a{sv})", error);
  if (statistics == NULL)
    return FALSE;
  list = call_service (self, "ListContexts", g_variant_new ("(@a{sv})", bench_talk_no_options ()),
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

  begin_options (self, &options, 2);
  g_variant_dict_insert (&options, "if-revision", "t", bench_book_get_revision (slot->book) + 7);
  reply = call_context (self, slot, "Ask",
                        g_variant_new ("(s@a{sv})", "Hello", g_variant_dict_end (&options)),
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
  g_autofree char *prompt = make_prompt (self);
  gboolean streams = bench_random_get (&self->random) < 0.5;

  bench_book_doubt_add (slot->book, prompt, TRUE);
  if (streams)
    g_dbus_connection_call (self->connection, LLMSVC_BUS_NAME, slot->path, LLMSVC_CONTEXT_INTERFACE,
                            "Generate",
                            g_variant_new ("(@a(ssa{sv})@a{sv})", bench_talk_message (prompt),
                                           make_options (self)),
                            NULL, G_DBUS_CALL_FLAGS_NONE, -1, NULL, NULL, NULL);
  else
    g_dbus_connection_call (self->connection, LLMSVC_BUS_NAME, slot->path, LLMSVC_CONTEXT_INTERFACE,
                            "Ask", g_variant_new ("(s@a{sv})", prompt, make_options (self)), NULL,
                            G_DBUS_CALL_FLAGS_NONE, -1, NULL, NULL, NULL);
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
  [BENCH_OP_GENERATE] = { 26, generate },
  [BENCH_OP_TEXT] = { 5, generate_text },
  [BENCH_OP_CANCEL] = { 7, generate_and_discard },
  [BENCH_OP_KEEP] = { 3, generate_and_keep },
  [BENCH_OP_HANG_UP] = { 4, hang_up },
  [BENCH_OP_STALL] = { 2, stall },
  [BENCH_OP_ASK] = { 9, ask_once },
  [BENCH_OP_RETRY] = { 2, ask_twice },
  [BENCH_OP_COMPLETE] = { 6, complete },
  [BENCH_OP_COUNT] = { 3, count_tokens },
  [BENCH_OP_APPEND] = { 8, append },
  [BENCH_OP_FORK] = { 3, fork_and_ask },
  [BENCH_OP_ROLLBACK] = { 3, roll_back },
  [BENCH_OP_RENEW] = { 2, renew },
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
  if ((slot->path == NULL || slot->is_new) && !make_context (self, slot, error))
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
