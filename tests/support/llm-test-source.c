/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/llm-test-source.h"

#include <errno.h>
#include <unistd.h>

typedef struct
{
  int fd;
  guint64 offset;
  guint8 *memory;
  gsize length;
  LlmDiskDone done;
  gpointer answer;
  gboolean is_cancelled;
} Request;

static void
read_later (gpointer    data,
            int         fd,
            guint64     offset,
            gpointer    memory,
            gsize       length,
            LlmDiskDone done,
            gpointer    answer)
{
  LlmTestSource *self = data;
  Request request = { fd, offset, memory, length, done, answer, FALSE };

  g_assert_cmpuint (offset % LLM_DISK_SECTOR, ==, 0);
  g_assert_cmpuint ((guintptr) memory % LLM_DISK_SECTOR, ==, 0);
  g_assert_cmpuint (length % LLM_DISK_SECTOR, ==, 0);
  g_assert_cmpuint (length, <=, LLM_DISK_MAX_INTO);
  g_array_append_val (self->waiting, request);
  self->n_most_waiting = MAX (self->n_most_waiting, self->waiting->len);
}

/* Half of them are under way already. */
static void
cancel (gpointer      data,
        gconstpointer answer)
{
  LlmTestSource *self = data;

  for (guint i = 0; i < self->waiting->len; i++)
    {
      Request *request = &g_array_index (self->waiting, Request, i);

      request->is_cancelled = request->is_cancelled
                              || (request->answer == answer && g_test_rand_bit ());
    }
}

static void
answer_one (LlmTestSource *self)
{
  guint i = (guint) g_test_rand_int_range (0, (gint32) self->waiting->len);
  Request request = g_array_index (self->waiting, Request, i);
  gssize n = -ECANCELED;

  g_array_remove_index_fast (self->waiting, i);
  self->n_answered++;
  if (!request.is_cancelled)
    {
      n = pread (request.fd, request.memory, request.length, (off_t) request.offset);
      g_assert_cmpint (n, >=, 0);
      if (self->fails_in > 0 && --self->fails_in == 0)
        n = self->failure;
    }
  request.done (n, NULL, request.answer);
}

static guint
poll_some (gpointer data,
           gint64   timeout_us)
{
  LlmTestSource *self = data;
  guint n = 0;

  if (timeout_us == 0 && g_test_rand_int_range (0, 8) < (gint32) self->n_late)
    return 0;
  while (self->waiting->len > 0 && (n == 0 || g_test_rand_bit ()))
    {
      answer_one (self);
      n++;
    }
  return n;
}

LlmTestSource *
llm_test_source_new (void)
{
  LlmTestSource *self = g_new0 (LlmTestSource, 1);

  self->source = (LlmWeightSource) { read_later, cancel, poll_some, self };
  self->waiting = g_array_new (FALSE, FALSE, sizeof (Request));
  return self;
}

void
llm_test_source_free (LlmTestSource *self)
{
  g_assert_cmpuint (self->waiting->len, ==, 0);
  g_array_unref (self->waiting);
  g_free (self);
}
