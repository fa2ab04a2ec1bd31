/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/llm-context-store.h"

#include <glib/gstdio.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "engine-rig.h"
#include "support/llm-test-folder.h"

static LlmTurn *
new_turn (guint n)
{
  LlmTurn *turn = llm_turn_new ();
  g_autofree char *question = g_strdup_printf ("question %u “ü”\n", n);
  g_autofree char *answer = g_strdup_printf ("answer %u", n);
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "tool", "s", "calc");
  g_ptr_array_add (turn->messages,
                   llm_stored_message_new ("user", question, g_variant_dict_end (&dict)));
  g_ptr_array_add (turn->messages, llm_stored_message_new ("assistant", answer, NULL));
  turn->tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  for (gint32 i = 0; i < 5; i++)
    {
      gint32 token = (gint32) n * 100 + i;

      g_array_append_val (turn->tokens, token);
    }
  turn->identity = g_strdup ("0123456789abcdef");
  turn->is_closed = n % 2;
  turn->n_tokens = 5;
  turn->request_id = g_strdup_printf ("r%u", n);
  turn->results =
    g_variant_ref_sink (g_variant_new_parsed ("{'output-tokens': <uint32 3>, 'ttft-ms': <1.5>}"));
  return turn;
}

static LlmStoredContext *
new_context (const char *id,
             const char *name)
{
  LlmStoredContext *context = llm_stored_context_new ();

  context->id = g_strdup (id);
  context->uid = 1000;
  context->app = g_strdup ("org.example.App");
  context->name = g_strdup (name);
  context->slo = g_strdup ("responsive");
  context->turns = llm_conversation_new ();
  return context;
}

static void
change (LlmDb      *db,
        const char *id,
        guint64     revision,
        guint       n_turns,
        LlmTurn    *turn)
{
  LlmStoredContext *stored = llm_stored_context_new ();
  g_autoptr(GError) error = NULL;

  stored->id = g_strdup (id);
  stored->revision = revision;
  stored->n_turns = n_turns;
  stored->added = turn;
  g_assert_true (run_db (db, llm_store_change, stored, &error));
  g_assert_no_error (error);
  llm_stored_context_free (stored);
}

static LlmStoredIndex *
load_index (LlmDb *db)
{
  LlmStoredIndex *index = llm_stored_index_new ();
  g_autoptr(GError) error = NULL;

  run_db (db, llm_store_load_index, index, &error);
  g_assert_no_error (error);
  return index;
}

static void
test_survives (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *state = g_build_filename (folder, "a", "b", NULL);
  LlmDb *db = llm_db_new (state, &llm_context_schema);
  LlmStoredContext *context = new_context ("c1", "notes");
  g_autoptr(GError) error = NULL;
  LlmStoredIndex *index;
  LlmTurn *turn;
  const LlmStoredMessage *message;
  GStatBuf status;
  const char *tool;

  llm_conversation_add_turn (context->turns, new_turn (0));
  g_assert_true (run_db (db, llm_store_insert_context, context, &error));
  for (guint i = 1; i < 4; i++)
    {
      g_autoptr(LlmTurn) added = new_turn (i);

      change (db, "c1", i, i, added);
    }
  change (db, "c1", 4, 3, NULL); /* rolls the last one back */
  g_assert_true (run_db (db, llm_store_set_model, (gpointer) "some-model", &error));
  llm_stored_context_free (context);
  llm_db_free (db);
  g_assert_cmpint (g_stat (state, &status), ==, 0);
  g_assert_cmpint (status.st_mode & 0777, ==, 0700);

  db = llm_db_new (state, &llm_context_schema);
  index = load_index (db);
  g_assert_cmpuint (index->contexts->len, ==, 1);
  g_assert_cmpstr (index->model, ==, "some-model");
  context = g_ptr_array_index (index->contexts, 0);
  g_assert_cmpstr (context->id, ==, "c1");
  g_assert_cmpstr (context->name, ==, "notes");
  g_assert_cmpstr (context->app, ==, "org.example.App");
  g_assert_cmpuint (context->uid, ==, 1000);
  g_assert_cmpuint (context->revision, ==, 4);
  g_assert_cmpuint (context->n_tokens, ==, 15);
  g_assert_cmpuint (context->bytes, >, 60);

  g_assert_true (run_db (db, llm_store_load_turns, context, &error));
  g_assert_cmpuint (context->turns->turns->len, ==, 3);
  turn = g_ptr_array_index (context->turns->turns, 2);
  g_assert_cmpstr (turn->request_id, ==, "r2");
  g_assert_cmpuint (turn->tokens->len, ==, 5);
  g_assert_cmpint (g_array_index (turn->tokens, gint32, 4), ==, 204);
  g_assert_cmpstr (turn->identity, ==, "0123456789abcdef");
  g_assert_cmpstr (llm_turn_get_answer (turn), ==, "answer 2");
  message = g_ptr_array_index (turn->messages, 0);
  g_assert_cmpstr (message->text, ==, "question 2 “ü”\n");
  g_assert_true (g_variant_lookup (message->extras, "tool", "&s", &tool));
  g_assert_cmpstr (tool, ==, "calc");

  g_assert_true (run_db (db, llm_store_delete_context, (gpointer) "c1", &error));
  llm_stored_index_free (index);
  index = load_index (db);
  g_assert_cmpuint (index->contexts->len, ==, 0);
  llm_stored_index_free (index);
  llm_db_free (db);
  llm_test_folder_remove (folder);
}

static void
test_refusals (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  LlmDb *db = llm_db_new (folder, &llm_context_schema);
  LlmStoredContext *first = new_context ("c1", "notes");
  LlmStoredContext *second = new_context ("c2", "notes");
  LlmStoredContext *lost = new_context ("nowhere", "lost");
  g_autoptr(GError) error = NULL;
  LlmStoredIndex *index;

  g_assert_true (run_db (db, llm_store_insert_context, first, &error));
  g_assert_false (run_db (db, llm_store_insert_context, second, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_ALREADY_EXISTS);
  g_clear_error (&error);
  g_assert_false (run_db (db, llm_store_change, lost, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND);

  index = load_index (db);
  g_assert_cmpuint (index->contexts->len, ==, 1);
  llm_stored_index_free (index);
  llm_stored_context_free (first);
  llm_stored_context_free (second);
  llm_stored_context_free (lost);
  llm_db_free (db);
  llm_test_folder_remove (folder);
}

/* A transaction that fails in the middle leaves nothing. */
static gboolean
insert_and_fail (sqlite3  *db,
                 gpointer  data,
                 GError  **error)
{
  g_assert_true (llm_store_insert_context (db, data, error));
  g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED, "on purpose");
  return FALSE;
}

static void
test_atomic (void)
{
  g_autoptr(LlmDb) db = llm_db_new (NULL, &llm_context_schema);
  LlmStoredContext *context = new_context ("c1", "notes");
  g_autoptr(GError) error = NULL;
  LlmStoredIndex *index;

  llm_conversation_add_turn (context->turns, new_turn (1));
  g_assert_false (run_db (db, insert_and_fail, context, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
  index = load_index (db);
  g_assert_cmpuint (index->contexts->len, ==, 0);
  llm_stored_index_free (index);
  llm_stored_context_free (context);
}

/* Those that wait together are committed together; what one of them has done before it failed is
 * undone alone. */
static void
test_together (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  LlmStoredContext *contexts[40];
  GAsyncResult *results[G_N_ELEMENTS (contexts)] = { NULL };
  LlmDb *db = llm_db_new (folder, &llm_context_schema);
  LlmStoredIndex *index;

  for (guint i = 0; i < G_N_ELEMENTS (contexts); i++)
    {
      g_autofree char *name = g_strdup_printf ("c%u", i);

      contexts[i] = new_context (name, name);
      llm_conversation_add_turn (contexts[i]->turns, new_turn (1));
      llm_db_run_async (db, i % 5 == 2 ? insert_and_fail : llm_store_insert_context, contexts[i],
                        NULL, on_result, &results[i]);
    }
  for (guint i = 0; i < G_N_ELEMENTS (contexts); i++)
    {
      g_autoptr(GError) error = NULL;

      while (results[i] == NULL)
        g_main_context_iteration (NULL, TRUE);
      g_assert_cmpint (llm_db_run_finish (results[i], NULL, &error), ==, i % 5 != 2);
      if (i % 5 == 2)
        g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
      g_object_unref (results[i]);
      llm_stored_context_free (contexts[i]);
    }
  llm_db_free (db);

  db = llm_db_new (folder, &llm_context_schema);
  index = load_index (db);
  g_assert_cmpuint (index->contexts->len, ==, G_N_ELEMENTS (contexts) * 4 / 5);
  llm_stored_index_free (index);
  llm_db_free (db);
  llm_test_folder_remove (folder);
}

/* What can't be read is kept aside, and the service goes on with a new one. */
static void
test_damaged (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, "contexts.db", NULL);
  g_autoptr(GDir) entries = NULL;
  LlmStoredIndex *index;
  LlmDb *db;
  const char *name;
  gboolean is_kept = FALSE;

  g_assert_true (g_file_set_contents (
    path, "this is no database, by no means, whatever it is called", -1, NULL));
  /* The warning comes from the database's thread. */
  g_log_set_always_fatal (G_LOG_LEVEL_ERROR);
  db = llm_db_new (folder, &llm_context_schema);
  index = load_index (db);
  g_assert_cmpuint (index->contexts->len, ==, 0);
  llm_stored_index_free (index);
  llm_db_free (db);

  entries = g_dir_open (folder, 0, NULL);
  while ((name = g_dir_read_name (entries)) != NULL)
    is_kept = is_kept || g_str_has_prefix (name, "contexts.db.damaged-");
  g_assert_true (is_kept);
  llm_test_folder_remove (folder);
}

static void
test_no_folder (void)
{
  LlmDb *db;
  LlmStoredIndex *index = llm_stored_index_new ();
  g_autoptr(GError) error = NULL;

  g_log_set_always_fatal (G_LOG_LEVEL_ERROR);
  db = llm_db_new ("/dev/null/state", &llm_context_schema);
  g_assert_false (run_db (db, llm_store_load_index, index, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  g_assert_nonnull (strstr (error->message, "/dev/null/state"));
  llm_stored_index_free (index);
  llm_db_free (db);
}

static void
test_quota (void)
{
  g_autoptr(LlmDb) db = llm_db_new (NULL, &llm_context_schema);
  LlmStoredQuota *quota = llm_stored_quota_new (1000, "org.example.App", "contexts", 3);
  LlmStoredIndex *index;
  g_autoptr(GError) error = NULL;

  g_assert_true (run_db (db, llm_store_set_quota, quota, &error));
  quota->value = 5;
  g_assert_true (run_db (db, llm_store_set_quota, quota, &error));
  llm_stored_quota_free (quota);
  index = load_index (db);
  g_assert_cmpuint (index->quotas->len, ==, 1);
  quota = g_ptr_array_index (index->quotas, 0);
  g_assert_cmpstr (quota->key, ==, "contexts");
  g_assert_cmpfloat (quota->value, ==, 5);
  llm_stored_index_free (index);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/store/survives", test_survives);
  g_test_add_func ("/store/refusals", test_refusals);
  g_test_add_func ("/store/atomic", test_atomic);
  g_test_add_func ("/store/together", test_together);
  g_test_add_func ("/store/damaged", test_damaged);
  g_test_add_func ("/store/no-folder", test_no_folder);
  g_test_add_func ("/store/quota", test_quota);
  return g_test_run ();
}
