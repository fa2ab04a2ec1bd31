/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc-http"

#include "http-conversation.h"

#include <string.h>

#include "common/llmsvc-error.h"
#include "common/llmsvc-json.h"

/* Before the names of contexts that are the endpoint's own. */
#define PREFIX "http-"
#define MAX_KEPT 32

typedef struct
{
  guint64 number;
  LlmsvcContext *context;  /* (owned) */
  char *hash;              /* (owned): of its messages */
  guint n_messages;
  guint64 revision;
  gboolean is_busy;
} Kept;

struct _HttpConversations
{
  LlmsvcClient *client;    /* (unowned) (nullable): NULL until they are loaded */
  GQueue kept;             /* (element-type Kept) (owned): used last, last */
  guint64 n_numbers;
  guint n_in_use;          /* named ones, too */
};

static void
kept_free (Kept *kept)
{
  g_object_unref (kept->context);
  g_free (kept->hash);
  g_free (kept);
}

HttpConversations *
http_conversations_new (void)
{
  HttpConversations *self = g_new0 (HttpConversations, 1);

  g_queue_init (&self->kept);
  return self;
}

void
http_conversations_free (HttpConversations *self)
{
  g_queue_clear_full (&self->kept, (GDestroyNotify) kept_free);
  g_free (self);
}

gboolean
http_conversations_are_in_use (const HttpConversations *self)
{
  return self->n_in_use > 0;
}

/* --- what messages are --- */

static void
add (GChecksum  *sum,
     const char *text)
{
  g_checksum_update (sum, (const guchar *) (text != NULL ? text : ""),
                     (gssize) (text != NULL ? strlen (text) : 0) + 1);
}

static const char *
get_text (JsonObject *object,
          const char *key)
{
  JsonNode *node = object != NULL ? json_object_get_member (object, key) : NULL;

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
           ? json_node_get_string (node) : NULL;
}

/* What matters of calls, however they are written. */
static void
add_calls (GChecksum  *sum,
           const char *calls)
{
  g_autoptr(JsonNode) root = calls != NULL ? llmsvc_json_parse (calls, strlen (calls), NULL) : NULL;
  JsonArray *array = root != NULL && JSON_NODE_HOLDS_ARRAY (root) ? json_node_get_array (root) : NULL;

  for (guint i = 0; array != NULL && i < json_array_get_length (array); i++)
    {
      JsonNode *node = json_array_get_element (array, i);
      JsonObject *call = JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
      JsonNode *member = call != NULL ? json_object_get_member (call, "function") : NULL;
      JsonObject *function =
        member != NULL && JSON_NODE_HOLDS_OBJECT (member) ? json_node_get_object (member) : NULL;

      add (sum, get_text (call, "id"));
      add (sum, get_text (function, "name"));
      add (sum, get_text (function, "arguments"));
    }
}

/* (transfer full): of a message behind others. */
static char *
extend (const char *hash,
        const char *role,
        const char *text,
        const char *calls,
        const char *call_id)
{
  g_autoptr(GChecksum) sum = g_checksum_new (G_CHECKSUM_SHA256);

  add (sum, hash);
  add (sum, role);
  add (sum, text);
  add_calls (sum, calls);
  add (sum, call_id);
  return g_strdup (g_checksum_get_string (sum));
}

static char *
extend_by (const char    *hash,
           LlmsvcMessage *message)
{
  GVariant *extras = llmsvc_message_get_extras (message);
  const char *calls = NULL, *call_id = NULL;

  if (extras != NULL)
    {
      g_variant_lookup (extras, "tool-calls", "&s", &calls);
      g_variant_lookup (extras, "tool-call-id", "&s", &call_id);
    }
  return extend (hash, llmsvc_message_get_role (message), llmsvc_message_get_text (message), calls, call_id);
}

/* (transfer full): of none, of the first, of the first two, … */
static GPtrArray *
hash_all (GPtrArray *messages)
{
  GPtrArray *hashes = g_ptr_array_new_with_free_func (g_free);

  g_ptr_array_add (hashes, g_strdup (""));
  for (guint i = 0; i < messages->len; i++)
    g_ptr_array_add (hashes, extend_by (g_ptr_array_index (hashes, i), g_ptr_array_index (messages, i)));
  return hashes;
}

/* --- keeping --- */

static Kept *
keep (HttpConversations *self,
      LlmsvcContext     *context)
{
  Kept *kept = g_new0 (Kept, 1);

  kept->number = ++self->n_numbers;
  kept->context = g_object_ref (context);
  kept->hash = g_strdup ("");
  g_queue_push_tail (&self->kept, kept);
  return kept;
}

static void
on_closed (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(GError) error = NULL;

  if (!llmsvc_context_close_finish (LLMSVC_CONTEXT (source), result, &error))
    g_debug ("A context was not closed: %s", error->message);
}

/* (nullable): the link of a conversation's entry; NULL for one by name. */
static GList *
find_kept (HttpConversations      *self,
           const HttpConversation *conversation)
{
  for (GList *at = self->kept.head; at != NULL; at = at->next)
    if (((Kept *) at->data)->number == conversation->number)
      return at;
  return NULL;
}

/* FALSE where all are in use. */
static gboolean
drop_oldest (HttpConversations *self)
{
  for (GList *at = self->kept.head; at != NULL; at = at->next)
    {
      Kept *kept = at->data;

      if (kept->is_busy)
        continue;
      llmsvc_context_close_async (kept->context, NULL, on_closed, NULL);
      kept_free (kept);
      g_queue_delete_link (&self->kept, at);
      return TRUE;
    }
  return FALSE;
}

/* --- what the service has of earlier ones --- */

typedef struct
{
  HttpConversations *conversations;  /* (unowned) */
  GPtrArray *contexts;               /* (element-type LlmsvcContext) (owned) */
  guint at;
} Loading;

static void
loading_free (Loading *loading)
{
  g_clear_pointer (&loading->contexts, g_ptr_array_unref);
  g_free (loading);
}

static void load_next (GTask *task);

static void
on_messages (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  GTask *task = data;
  Loading *loading = g_task_get_task_data (task);
  LlmsvcContext *context = LLMSVC_CONTEXT (source);
  g_autoptr(GError) error = NULL;
  g_autoptr(GPtrArray) messages = llmsvc_context_list_messages_finish (context, result, &error);

  if (messages == NULL)
    g_debug ("The context %s can't be read: %s", llmsvc_context_get_name (context), error->message);
  else
    {
      g_autoptr(GPtrArray) hashes = hash_all (messages);
      Kept *kept = keep (loading->conversations, context);

      g_free (kept->hash);
      kept->hash = g_strdup (g_ptr_array_index (hashes, messages->len));
      kept->n_messages = messages->len;
      kept->revision = llmsvc_context_get_revision (context);
    }
  load_next (task);
}

static void
load_next (GTask *task)
{
  Loading *loading = g_task_get_task_data (task);

  while (loading->at < loading->contexts->len)
    {
      LlmsvcContext *context = g_ptr_array_index (loading->contexts, loading->at++);

      if (!g_str_has_prefix (llmsvc_context_get_name (context), PREFIX))
        continue;
      llmsvc_context_list_messages_async (context, NULL, on_messages, task);
      return;
    }
  g_task_return_boolean (task, TRUE);
  g_object_unref (task);
}

static void
on_listed (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  GTask *task = data;
  Loading *loading = g_task_get_task_data (task);
  GError *error = NULL;

  loading->contexts = llmsvc_client_list_contexts_finish (LLMSVC_CLIENT (source), result, &error);
  if (loading->contexts != NULL)
    {
      load_next (task);
      return;
    }
  g_task_return_error (task, error);
  g_object_unref (task);
}

void
http_conversations_load_async (HttpConversations   *self,
                               LlmsvcClient        *client,
                               GAsyncReadyCallback  callback,
                               gpointer             data)
{
  GTask *task = g_task_new (NULL, NULL, callback, data);
  Loading *loading = g_new0 (Loading, 1);

  self->client = client;
  loading->conversations = self;
  g_task_set_task_data (task, loading, (GDestroyNotify) loading_free);
  llmsvc_client_list_contexts_async (client, NULL, on_listed, task);
}

gboolean
http_conversations_load_finish (HttpConversations  *self,
                                GAsyncResult       *result,
                                GError            **error)
{
  return g_task_propagate_boolean (G_TASK (result), error);
}

/* --- taking one --- */

typedef struct
{
  HttpConversations *conversations;  /* (unowned) */
  GPtrArray *messages;               /* (owned) */
  LlmsvcContext *context;            /* (nullable) (owned): of a name */
} Taking;

static void
taking_free (Taking *taking)
{
  g_ptr_array_unref (taking->messages);
  g_clear_object (&taking->context);
  g_free (taking);
}

static void
free_taken (gpointer data)
{
  HttpConversation *conversation = data;

  g_object_unref (conversation->context);
  g_free (conversation);
}

static void
return_taken (GTask         *task,
              LlmsvcContext *context,
              const Kept    *kept,
              guint          n_known,
              guint64        revision)
{
  Taking *taking = g_task_get_task_data (task);
  HttpConversation *taken = g_new0 (HttpConversation, 1);

  taken->context = g_object_ref (context);
  taken->n_known = n_known;
  taken->revision = n_known > 0 ? revision : 0;
  taken->number = kept != NULL ? kept->number : 0;
  taking->conversations->n_in_use++;
  g_task_return_pointer (task, taken, free_taken);
  g_object_unref (task);
}

static void create (GTask *task);

static void
on_created (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  GTask *task = data;
  Taking *taking = g_task_get_task_data (task);
  GError *error = NULL;
  g_autoptr(LlmsvcContext) context =
    llmsvc_client_create_context_finish (LLMSVC_CLIENT (source), result, &error);
  Kept *kept;

  if (context != NULL)
    {
      kept = keep (taking->conversations, context);
      kept->is_busy = TRUE;
      return_taken (task, context, kept, 0, 0);
    }
  else if (g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_QUOTA_EXCEEDED)
           && drop_oldest (taking->conversations))
    {
      g_clear_error (&error);
      create (task);
    }
  else
    {
      g_task_return_error (task, error);
      g_object_unref (task);
    }
}

static void
create (GTask *task)
{
  Taking *taking = g_task_get_task_data (task);
  g_autoptr(LlmsvcOptions) options = llmsvc_options_new ();
  g_autofree char *id = g_uuid_string_random ();
  g_autofree char *name = g_strconcat (PREFIX, id, NULL);

  while (taking->conversations->kept.length >= MAX_KEPT && drop_oldest (taking->conversations))
    ;
  llmsvc_options_set_value (options, "name", g_variant_new_string (name), NULL);
  llmsvc_client_create_context_async (taking->conversations->client, options,
                                      g_task_get_cancellable (task), on_created, task);
}

/* --- a context of a name --- */

static void
on_named_messages (GObject      *source,
                   GAsyncResult *result,
                   gpointer      data)
{
  GTask *task = data;
  Taking *taking = g_task_get_task_data (task);
  LlmsvcContext *context = LLMSVC_CONTEXT (source);
  GError *error = NULL;
  g_autoptr(GPtrArray) found = llmsvc_context_list_messages_finish (context, result, &error);
  g_autoptr(GPtrArray) known = found != NULL ? hash_all (found) : NULL;
  g_autoptr(GPtrArray) asked = hash_all (taking->messages);

  if (found != NULL
      && (found->len >= taking->messages->len
          || !g_str_equal (g_ptr_array_index (known, found->len), g_ptr_array_index (asked, found->len))))
    g_set_error (&error, LLMSVC_ERROR, LLMSVC_ERROR_CONFLICT,
                 "The context “%s” has %u messages, and those of the request do not begin with them",
                 llmsvc_context_get_name (context), found->len);
  if (error == NULL)
    {
      return_taken (task, context, NULL, found->len, llmsvc_context_get_revision (context));
      return;
    }
  g_task_return_error (task, error);
  g_object_unref (task);
}

static void
on_opened (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  GTask *task = data;
  Taking *taking = g_task_get_task_data (task);
  GError *error = NULL;

  taking->context = llmsvc_client_open_context_finish (LLMSVC_CLIENT (source), result, &error);
  if (taking->context != NULL)
    {
      llmsvc_context_list_messages_async (taking->context, g_task_get_cancellable (task),
                                          on_named_messages, task);
      return;
    }
  g_task_return_error (task, error);
  g_object_unref (task);
}

static Kept *
find_longest (HttpConversations *self,
              GPtrArray         *messages)
{
  g_autoptr(GPtrArray) hashes = hash_all (messages);
  Kept *best = NULL;

  for (GList *at = self->kept.head; at != NULL; at = at->next)
    {
      Kept *kept = at->data;

      if (!kept->is_busy && kept->n_messages < messages->len
          && (best == NULL || kept->n_messages > best->n_messages)
          && g_str_equal (kept->hash, g_ptr_array_index (hashes, kept->n_messages)))
        best = kept;
    }
  return best;
}

void
http_conversations_take_async (HttpConversations   *self,
                               GPtrArray           *messages,
                               const char          *name,
                               GCancellable        *cancellable,
                               GAsyncReadyCallback  callback,
                               gpointer             data)
{
  GTask *task = g_task_new (NULL, cancellable, callback, data);
  Taking *taking = g_new0 (Taking, 1);
  Kept *kept;

  taking->conversations = self;
  taking->messages = g_ptr_array_ref (messages);
  g_task_set_task_data (task, taking, (GDestroyNotify) taking_free);
  if (name != NULL)
    {
      g_autoptr(LlmsvcOptions) options = llmsvc_options_new ();

      llmsvc_options_set_value (options, "create", g_variant_new_boolean (TRUE), NULL);
      llmsvc_client_open_context_async (self->client, name, options, cancellable, on_opened, task);
      return;
    }
  kept = find_longest (self, messages);
  if (kept == NULL)
    {
      create (task);
      return;
    }
  kept->is_busy = TRUE;
  return_taken (task, kept->context, kept, kept->n_messages, kept->revision);
}

HttpConversation *
http_conversations_take_finish (HttpConversations  *self,
                                GAsyncResult       *result,
                                GError            **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}

void
http_conversations_give_back (HttpConversations *self,
                              HttpConversation  *conversation,
                              GPtrArray         *messages,
                              LlmsvcAnswer      *answer)
{
  GList *at = find_kept (self, conversation);

  self->n_in_use--;
  if (at != NULL)
    {
      Kept *kept = at->data;

      kept->is_busy = FALSE;
      if (answer != NULL)
        {
          g_autoptr(GPtrArray) hashes = hash_all (messages);

          g_free (kept->hash);
          kept->hash = extend (g_ptr_array_index (hashes, messages->len), LLMSVC_ROLE_ASSISTANT,
                               llmsvc_answer_get_text (answer), llmsvc_answer_get_tool_calls (answer),
                               NULL);
          kept->n_messages = messages->len + 1;
          kept->revision = llmsvc_answer_get_revision (answer);
        }
      g_queue_unlink (&self->kept, at);
      g_queue_push_tail_link (&self->kept, at);
    }
  free_taken (conversation);
}

void
http_conversations_forget (HttpConversations *self,
                           HttpConversation  *conversation)
{
  GList *at = find_kept (self, conversation);

  self->n_in_use--;
  if (at != NULL)
    {
      kept_free (at->data);
      g_queue_delete_link (&self->kept, at);
    }
  free_taken (conversation);
}
