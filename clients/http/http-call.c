/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc-http"

#include "http-call.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "common/llmsvc-error.h"
#include "http-error.h"

/* A comment keeps programs in between from closing a connection on which nothing comes. */
#define HEARTBEAT_S 10

typedef struct
{
  SoupServerMessage *message;      /* (owned) */
  HttpCaller *caller;              /* (owned) */
  HttpRequest *request;            /* (owned) */
  char *name;                      /* (nullable) (owned) */
  GCancellable *cancellable;
  HttpConversation *conversation;  /* (nullable): while it is used */
  LlmsvcGeneration *generation;    /* (nullable) (owned) */
  HttpAnswer *answer;              /* (owned) */
  GString *pending;                /* events that are not sent yet */
  gboolean has_begun;              /* the head of the reply is fixed */
  gboolean is_writing;             /* a piece is on its way to the client */
  gboolean has_ended;              /* nothing follows what is pending */
  gboolean is_gone;                /* the client */
  gboolean has_retried;
  gboolean wants_next;             /* text, when the client has taken what is on its way */
  guint heartbeat;                 /* 0: none */
  GSource *watch;                  /* (nullable) (owned): of the client's end */
} HttpCall;

static HttpCall *
http_call_ref (HttpCall *self)
{
  return g_rc_box_acquire (self);
}

static void
clear (gpointer data)
{
  HttpCall *self = data;

  g_signal_handlers_disconnect_by_data (self->message, self);
  if (self->generation != NULL)
    g_signal_handlers_disconnect_by_data (self->generation, self);
  g_clear_object (&self->generation);
  g_clear_object (&self->message);
  http_caller_unref (self->caller);
  http_request_free (self->request);
  http_answer_free (self->answer);
  g_string_free (self->pending, TRUE);
  g_object_unref (self->cancellable);
  g_free (self->name);
}

static void
http_call_unref (HttpCall *self)
{
  g_rc_box_release_full (self, clear);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (HttpCall, http_call_unref)

/* --- replies --- */

void
http_reply_json (SoupServerMessage *message,
                 guint              status,
                 char              *json)
{
  soup_server_message_set_status (message, status, NULL);
  soup_server_message_set_response (message, "application/json", SOUP_MEMORY_TAKE, json, strlen (json));
}

void
http_reply_error (SoupServerMessage *message,
                  const GError      *error)
{
  SoupMessageHeaders *headers = soup_server_message_get_response_headers (message);
  guint retry_s = http_error_get_retry_s (error);
  g_autofree char *retry = g_strdup_printf ("%u", retry_s);

  if (retry_s > 0)
    soup_message_headers_replace (headers, "Retry-After", retry);
  if (http_error_get_status (error) == SOUP_STATUS_UNAUTHORIZED)
    soup_message_headers_replace (headers, "WWW-Authenticate", "Bearer");
  http_reply_json (message, http_error_get_status (error), http_error_to_json (error));
}

/* --- the stream --- */

/* Sends what is pending, if the client has taken what was sent before. */
static void
flush (HttpCall *self)
{
  SoupMessageBody *body = soup_server_message_get_response_body (self->message);

  if (self->is_writing || self->is_gone || !self->has_begun)
    return;
  if (self->pending->len > 0)
    {
      soup_message_body_append (body, SOUP_MEMORY_COPY, self->pending->str, self->pending->len);
      g_string_truncate (self->pending, 0);
      self->is_writing = TRUE;
    }
  else if (self->has_ended)
    soup_message_body_complete (body);
  else
    return;
  soup_server_message_unpause (self->message);
}

static void
begin_stream (HttpCall *self)
{
  SoupMessageHeaders *headers = soup_server_message_get_response_headers (self->message);

  soup_server_message_set_status (self->message, SOUP_STATUS_OK, NULL);
  soup_message_headers_set_encoding (headers, SOUP_ENCODING_CHUNKED);
  soup_message_headers_replace (headers, "Content-Type", "text/event-stream");
  soup_message_headers_replace (headers, "Cache-Control", "no-cache");
  soup_message_body_set_accumulate (soup_server_message_get_response_body (self->message), FALSE);
  self->has_begun = TRUE;
  if (self->answer->dialect->begin != NULL)
    self->answer->dialect->begin (self->answer, self->pending);
}

static gboolean
on_heartbeat (gpointer data)
{
  HttpCall *self = data;

  if (self->pending->len == 0 && !self->is_writing)
    {
      g_string_append (self->pending, ": waiting\n\n");
      flush (self);
    }
  return G_SOURCE_CONTINUE;
}

static void
stop_watching (HttpCall *self)
{
  g_clear_handle_id (&self->heartbeat, g_source_remove);
  if (self->watch != NULL)
    g_source_destroy (self->watch);
  g_clear_pointer (&self->watch, g_source_unref);
}

/* Behind this the service is asked for nothing more. */
static void
end (HttpCall     *self,
     LlmsvcAnswer *answer)
{
  stop_watching (self);
  if (self->conversation != NULL)
    http_conversations_give_back (self->caller->conversations, g_steal_pointer (&self->conversation),
                                  self->request->messages, answer);
}

static void
on_cancelled (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  g_autoptr(HttpCall) self = data;

  llmsvc_generation_cancel_finish (self->generation, result, NULL);
  end (self, NULL);
}

static void
fail (HttpCall *self,
      GError   *error)
{
  g_autoptr(GError) owned = error;

  /* until it is settled, the context is busy */
  if (self->is_gone && self->generation != NULL)
    {
      llmsvc_generation_cancel_async (self->generation, NULL, on_cancelled, http_call_ref (self));
      return;
    }
  end (self, NULL);
  if (self->is_gone)
    return;
  if (self->has_begun)
    {
      self->answer->dialect->fail (self->answer, self->pending, owned);
      self->has_ended = TRUE;
      flush (self);
      return;
    }
  http_reply_error (self->message, owned);
  soup_server_message_unpause (self->message);
}

static void
succeed (HttpCall     *self,
         LlmsvcAnswer *answer)
{
  end (self, answer);
  if (self->is_gone)
    return;
  if (self->request->streams)
    {
      self->answer->dialect->end (self->answer, self->pending, answer);
      self->has_ended = TRUE;
      flush (self);
      return;
    }
  http_reply_json (self->message, SOUP_STATUS_OK, self->answer->dialect->write (self->answer, answer));
  soup_server_message_unpause (self->message);
}

static void
on_reasoning (LlmsvcGeneration *generation,
              const char       *text,
              HttpCall         *self)
{
  self->answer->dialect->add_reasoning (self->answer, self->pending, text);
  flush (self);
}

static void
on_tool_call (LlmsvcGeneration *generation,
              const char       *call,
              HttpCall         *self)
{
  self->answer->dialect->add_call (self->answer, self->pending, call);
  flush (self);
}

static void
on_piece (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  g_autoptr(HttpCall) self = data;
  GError *error = NULL;
  g_autofree char *text = llmsvc_generation_next_finish (self->generation, result, &error);

  if (text == NULL)
    {
      if (error != NULL)
        fail (self, error);
      else
        succeed (self, llmsvc_generation_get_answer (self->generation));
      return;
    }
  self->answer->dialect->add_text (self->answer, self->pending, text);
  flush (self);
  /* the next one when the client has taken this one */
  if (!self->is_writing)
    llmsvc_generation_next_async (self->generation, self->cancellable, on_piece, http_call_ref (self));
  else
    self->wants_next = TRUE;
}

static void
on_wrote_chunk (SoupServerMessage *message,
                HttpCall          *self)
{
  self->is_writing = FALSE;
  flush (self);
  if (self->wants_next && !self->is_writing)
    {
      self->wants_next = FALSE;
      llmsvc_generation_next_async (self->generation, self->cancellable, on_piece, http_call_ref (self));
    }
}

static void
on_whole (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  g_autoptr(HttpCall) self = data;
  GError *error = NULL;
  g_autoptr(LlmsvcAnswer) answer = llmsvc_generation_finish_finish (self->generation, result, &error);

  if (answer == NULL)
    fail (self, error);
  else
    succeed (self, answer);
}

static void
on_completed (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  g_autoptr(HttpCall) self = data;
  GError *error = NULL;
  g_autoptr(LlmsvcAnswer) answer = llmsvc_client_complete_finish (LLMSVC_CLIENT (source), result, &error);

  if (answer == NULL)
    {
      fail (self, error);
      return;
    }
  if (self->request->streams && !self->is_gone)
    begin_stream (self);
  succeed (self, answer);
}

/* --- asking --- */

static void take (HttpCall *self);

static void
on_generating (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  g_autoptr(HttpCall) self = data;
  GError *error = NULL;

  self->generation = llmsvc_context_generate_finish (LLMSVC_CONTEXT (source), result, &error);
  if (self->generation == NULL)
    {
      /* another caller changed the context: use a new one */
      if (g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_CONFLICT) && self->name == NULL
          && !self->has_retried)
        {
          g_clear_error (&error);
          self->has_retried = TRUE;
          http_conversations_forget (self->caller->conversations, g_steal_pointer (&self->conversation));
          take (self);
          return;
        }
      fail (self, error);
      return;
    }
  if (!self->request->streams)
    {
      llmsvc_generation_finish_async (self->generation, self->cancellable, on_whole, http_call_ref (self));
      return;
    }
  g_signal_connect (self->generation, "reasoning", G_CALLBACK (on_reasoning), self);
  g_signal_connect (self->generation, "tool-call", G_CALLBACK (on_tool_call), self);
  begin_stream (self);
  flush (self);
  self->heartbeat = g_timeout_add_seconds (HEARTBEAT_S, on_heartbeat, self);
  llmsvc_generation_next_async (self->generation, self->cancellable, on_piece, http_call_ref (self));
}

static void
on_taken (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  g_autoptr(HttpCall) self = data;
  GError *error = NULL;
  GPtrArray *messages = self->request->messages;
  guint n_known;

  self->conversation = http_conversations_take_finish (self->caller->conversations, result, &error);
  if (self->conversation == NULL)
    {
      fail (self, error);
      return;
    }
  n_known = self->conversation->n_known;
  if (self->conversation->revision > 0)
    llmsvc_options_set_value (self->request->options, "if-revision",
                              g_variant_new_uint64 (self->conversation->revision), NULL);
  else
    llmsvc_options_unset (self->request->options, "if-revision");
  llmsvc_context_generate_async (self->conversation->context,
                                 (LlmsvcMessage **) messages->pdata + n_known, messages->len - n_known,
                                 self->request->options, self->cancellable, on_generating,
                                 http_call_ref (self));
}

static void
take (HttpCall *self)
{
  http_conversations_take_async (self->caller->conversations, self->request->messages, self->name,
                                 self->cancellable, on_taken, http_call_ref (self));
}

/* --- the client's end --- */

static void
on_gone (HttpCall *self)
{
  if (self->is_gone)
    return;
  self->is_gone = TRUE;
  g_cancellable_cancel (self->cancellable);
  /* nothing else is under way that could fail now */
  if (self->wants_next && self->conversation != NULL)
    fail (self, g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED, "The client has gone"));
}

static void
on_finished (SoupServerMessage *message,
             HttpCall          *self)
{
  g_signal_handlers_disconnect_by_data (message, self);
  on_gone (self);
  stop_watching (self);
  /* that of the message */
  http_call_unref (self);
}

/* Nothing reads the socket while the answer is computed: an end of the client's requests shows only so.
 * Bytes of a next request are left there. */
static gboolean
on_readable (GSocket      *socket,
             GIOCondition  condition,
             gpointer      data)
{
  HttpCall *self = data;
  char byte;
  ssize_t n = recv (g_socket_get_fd (socket), &byte, 1, MSG_PEEK | MSG_DONTWAIT);

  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return G_SOURCE_CONTINUE;
  if (n <= 0)
    on_gone (self);
  g_clear_pointer (&self->watch, g_source_unref);
  return G_SOURCE_REMOVE;
}

static void
watch_client (HttpCall *self,
              GSocket  *socket)
{
  self->watch = g_socket_create_source (socket, G_IO_IN | G_IO_HUP | G_IO_ERR, NULL);
  g_source_set_callback (self->watch, G_SOURCE_FUNC (on_readable), self, NULL);
  g_source_attach (self->watch, NULL);
}

void
http_call_start (SoupServerMessage *message,
                 GSocket           *socket,
                 HttpCaller        *caller,
                 const HttpDialect *dialect,
                 HttpRequest       *request,
                 const char        *name)
{
  HttpCall *self = g_rc_box_new0 (HttpCall);
  LlmsvcModel *model = llmsvc_client_get_active_model (caller->client);

  self->message = g_object_ref (message);
  self->caller = http_caller_ref (caller);
  self->request = request;
  self->name = g_strdup (name);
  self->cancellable = g_cancellable_new ();
  self->pending = g_string_new (NULL);
  self->answer = http_answer_new (dialect, model != NULL ? llmsvc_model_get_id (model) : request->model,
                                  request->tells_usage);
  g_signal_connect (message, "wrote-chunk", G_CALLBACK (on_wrote_chunk), self);
  g_signal_connect (message, "finished", G_CALLBACK (on_finished), self);
  watch_client (self, socket);
  if (request->prompt != NULL)
    llmsvc_client_complete_async (caller->client, request->prompt, request->options, self->cancellable,
                                  on_completed, http_call_ref (self));
  else
    take (self);
}
