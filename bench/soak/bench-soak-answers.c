/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "soak/bench-soak-answers.h"

#include <fcntl.h>
#include <string.h>

#include "soak/bench-soak-app.h"
#include "soak/bench-soak-talk.h"
#include "common/llmsvc-names.h"

#define STALLED_TOKENS 400
#define SMALL_PIPE 4096
#define ANSWER_US (120 * G_USEC_PER_SEC)

/* How much an interruption comes later than what it interrupts. */
static gint64
choose_moment (BenchApp *self)
{
  return g_get_monotonic_time () + bench_random_range (&self->random, 0, 40000);
}

/* --- streams --- */

/* How a stream is asked for. */
typedef struct
{
  guint n_tokens;         /* at most; 0 for a usual length */
  gboolean is_text;       /* instead of lines */
  const char *on_cancel;  /* (nullable) */
} Wish;

/* Says something new. @prompt: (out) (transfer full). (transfer full) (nullable): NULL with
 * *@is_refused when that is in order. */
static BenchStream *
begin_stream (BenchApp   *self,
              BenchSlot  *slot,
              Wish        wish,
              char      **prompt,
              gboolean   *is_refused,
              GError    **error)
{
  GError *local = NULL;
  GVariantDict options;
  BenchStream *stream;

  *prompt = bench_app_make_prompt (self);
  bench_app_begin_options (self, &options,
                           wish.n_tokens > 0 ? wish.n_tokens : bench_app_choose_length (self));
  if (wish.is_text)
    g_variant_dict_insert (&options, "stream", "s", "text");
  if (wish.on_cancel != NULL)
    g_variant_dict_insert (&options, "on-cancel", "s", wish.on_cancel);
  stream = bench_stream_new (self->connection, slot->path, *prompt, g_variant_dict_end (&options),
                             wish.is_text, &local);
  *is_refused = stream == NULL && bench_app_refuse_turn (self, slot, *prompt, TRUE, local, error);
  return stream;
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
    return bench_app_take_turn (self, slot, said, stream->text->str, stream->results, error);
  if (stream->failure != NULL && strcmp (stream->failure, "Cancelled") == 0 && was_cancelled)
    return TRUE;
  if (stream->failure != NULL && strcmp (stream->failure, "ContextFull") == 0)
    return bench_app_roll_back (self, slot, error);
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

gboolean
bench_app_generate (BenchApp  *self,
                    BenchSlot *slot,
                    GError   **error)
{
  g_autofree char *prompt = NULL;
  gboolean is_refused;
  g_autoptr(BenchStream) stream =
    begin_stream (self, slot, (Wish) { 0 }, &prompt, &is_refused, error);

  if (stream == NULL)
    return is_refused;
  return bench_stream_read (stream, g_get_monotonic_time () + ANSWER_US, error) &&
         take_stream (self, slot, prompt, stream, FALSE, error);
}

gboolean
bench_app_generate_text (BenchApp  *self,
                         BenchSlot *slot,
                         GError   **error)
{
  g_autofree char *prompt = NULL;
  gboolean is_refused;
  g_autoptr(BenchStream) stream =
    begin_stream (self, slot, (Wish) { .is_text = TRUE }, &prompt, &is_refused, error);

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
  g_autofree char *prompt = NULL;
  gboolean is_refused;
  const Wish wish = { .n_tokens = STALLED_TOKENS, .on_cancel = on_cancel };
  g_autoptr(BenchStream) stream =
    begin_stream (self, slot, wish, &prompt, &is_refused, error);

  if (stream == NULL)
    return is_refused;
  bench_book_doubt_add (slot->book, prompt, TRUE);
  return bench_stream_read (stream, choose_moment (self), error) && cancel (self, stream, error) &&
         bench_stream_read (stream, g_get_monotonic_time () + ANSWER_US, error) &&
         take_stream (self, slot, prompt, stream, TRUE, error);
}

gboolean
bench_app_generate_and_discard (BenchApp  *self,
                                BenchSlot *slot,
                                GError   **error)
{
  return generate_and_cancel (self, slot, "discard", error);
}

gboolean
bench_app_generate_and_keep (BenchApp  *self,
                             BenchSlot *slot,
                             GError   **error)
{
  return generate_and_cancel (self, slot, "keep", error);
}

gboolean
bench_app_hang_up (BenchApp  *self,
                   BenchSlot *slot,
                   GError   **error)
{
  g_autofree char *prompt = NULL;
  gboolean is_refused;
  g_autoptr(BenchStream) stream =
    begin_stream (self, slot, (Wish) { 0 }, &prompt, &is_refused, error);

  if (stream == NULL)
    return is_refused;
  bench_book_doubt_add (slot->book, prompt, TRUE);
  if (!bench_stream_read (stream, choose_moment (self), error))
    return FALSE;
  bench_stream_close (stream);
  return bench_app_compare (self, slot, error);
}

gboolean
bench_app_stall (BenchApp  *self,
                 BenchSlot *slot,
                 GError   **error)
{
  g_autofree char *prompt = NULL;
  gboolean is_refused;
  const Wish wish = { .n_tokens = STALLED_TOKENS };
  g_autoptr(BenchStream) stream =
    begin_stream (self, slot, wish, &prompt, &is_refused, error);

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

/* --- replies --- */

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
  g_autoptr(GVariant) reply = bench_app_call_context (
    self, slot, "Ask", g_variant_new ("(s@a{sv})", prompt, options), "(sa{sv})", &local);

  *text = NULL;
  *results = NULL;
  if (reply == NULL)
    return bench_app_refuse_turn (self, slot, prompt, TRUE, local, error);
  g_variant_get (reply, "(s@a{sv})", text, results);
  return TRUE;
}

gboolean
bench_app_ask_once (BenchApp  *self,
                    BenchSlot *slot,
                    GError   **error)
{
  g_autofree char *prompt = bench_app_make_prompt (self);
  g_autofree char *text = NULL;
  g_autoptr(GVariant) results = NULL;

  if (!ask (self, slot, prompt, bench_app_make_options (self), &text, &results, error))
    return FALSE;
  return text == NULL || bench_app_take_turn (self, slot, prompt, text, results, error);
}

gboolean
bench_app_ask_twice (BenchApp  *self,
                     BenchSlot *slot,
                     GError   **error)
{
  g_autofree char *prompt = bench_app_make_prompt (self);
  g_autofree char *id = g_strdup_printf ("%s-%" G_GUINT64_FORMAT, self->id, self->n_calls);
  g_autofree char *first = NULL;
  g_autoptr(GVariant) asked = NULL;
  GVariantDict options;

  bench_app_begin_options (self, &options, bench_app_choose_length (self));
  g_variant_dict_insert (&options, "request-id", "s", id);
  asked = g_variant_ref_sink (g_variant_dict_end (&options));
  for (guint i = 0; i < 2; i++)
    {
      g_autofree char *text = NULL;
      g_autoptr(GVariant) results = NULL;
      gboolean is_repeated = FALSE;

      if (!ask (self, slot, prompt, asked, &text, &results, error))
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
      if (i == 0 && !bench_app_take_turn (self, slot, prompt, text, results, error))
        return FALSE;
      if (i == 0)
        first = g_steal_pointer (&text);
    }
  return TRUE;
}

gboolean
bench_app_complete (BenchApp  *self,
                    BenchSlot *slot,
                    GError   **error)
{
  g_autofree char *prompt = bench_app_make_prompt (self);
  GError *local = NULL;
  g_autoptr(GVariant) reply = bench_app_call_service (
    self, "Complete", g_variant_new ("(s@a{sv})", prompt, bench_app_make_options (self)),
    "(sa{sv})", &local);

  return reply != NULL || bench_app_accept_refusal (self, slot, local, error);
}
