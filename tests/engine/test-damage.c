/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is stored is damaged: in one row, in one page, anywhere. It costs what is damaged and no
 * more, nobody gets a wrong text for it, and whose context it was is told. */

#include "engine-rig.h"

#include <glib/gstdio.h>
#include <sqlite3.h>
#include <string.h>

#include "common/llmsvc-error.h"

#define QUESTION "I want a restaurant in San Jose."
#define NEXT "Italian food, please."

/* --- the database, from outside --- */

static char *
get_path (Fixture *fixture)
{
  return g_build_filename (fixture->state, "contexts.db", NULL);
}

/* Runs a script on the database of a service that is stopped. */
static void
run_sql (Fixture    *fixture,
         const char *sql)
{
  g_autofree char *path = get_path (fixture);
  sqlite3 *db = NULL;
  char *message = NULL;

  g_assert_cmpint (sqlite3_open (path, &db), ==, SQLITE_OK);
  if (sqlite3_exec (db, sql, NULL, NULL, &message) != SQLITE_OK)
    g_error ("%s: %s", sql, message);
  sqlite3_close (db);
}

static gint64
get_number (Fixture    *fixture,
            const char *sql)
{
  g_autofree char *path = get_path (fixture);
  sqlite3_stmt *row = NULL;
  sqlite3 *db = NULL;
  gint64 number;

  g_assert_cmpint (sqlite3_open (path, &db), ==, SQLITE_OK);
  g_assert_cmpint (sqlite3_prepare_v2 (db, sql, -1, &row, NULL), ==, SQLITE_OK);
  g_assert_cmpint (sqlite3_step (row), ==, SQLITE_ROW);
  number = sqlite3_column_int64 (row, 0);
  sqlite3_finalize (row);
  sqlite3_close (db);
  return number;
}

static void
copy_file (const char *from,
           const char *to)
{
  g_autofree char *content = NULL;
  gsize length;

  g_assert_true (g_file_get_contents (from, &content, &length, NULL));
  g_assert_true (g_file_set_contents (to, content, (gssize) length, NULL));
}

static void
start (Fixture *fixture)
{
  fixture->engine = start_engine (fixture->state, 2);
}

/* Contexts are the same whether compressed or not: texts are compared. */
static void
start_floats (Fixture *fixture)
{
  LlmSettings *settings = new_settings (fixture->state, 2);

  settings->context_ratio = 0;
  fixture->engine = start_engine_with (settings);
}

static void
restart (Fixture    *fixture,
         const char *sql)
{
  stop_engine (&fixture->engine);
  run_sql (fixture, sql);
  start_floats (fixture);
}

/* Damage is warned of. */
static void
allow_warnings (void)
{
  g_log_set_always_fatal (G_LOG_LEVEL_ERROR);
}

static void
set_up_damage (Fixture      *fixture,
               gconstpointer data)
{
  allow_warnings ();
  set_up_floats (fixture, data);
}

/* --- tokens --- */

static void
make_asked (Fixture    *fixture,
            const char *name)
{
  g_autofree char *options = g_strdup_printf ("{'name': <'%s'>}", name);
  g_autoptr(LlmContext) context = create (fixture, options);

  g_free (ask (fixture, context, QUESTION, GREEDY));
}

/* What a context says next that has its text and no tokens. */
static char *
answer_from_text (Fixture    *fixture,
                  LlmContext *context)
{
  g_autoptr(GVariant) messages = get_messages (context);
  g_autofree char *printed = g_variant_print (messages, TRUE);
  g_autofree char *options = g_strdup_printf ("{'messages': <%s>}", printed);
  g_autoptr(LlmContext) other = create (fixture, options);

  return ask (fixture, other, NEXT, GREEDY);
}

/* Tokens that the model does not have: other calls go on, the context goes on from its text. */
static void
test_tokens_out_of_range (Fixture      *fixture,
                          gconstpointer data)
{
  const char *const values[] = { "ffffff7f", "ffffffff", "00100000" };

  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    {
      g_autofree char *sql =
        g_strdup_printf ("UPDATE turns SET tokens = x'01000000%s'", values[i]);
      g_autofree char *name = g_strdup_printf ("notes%u", i);
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmContext) context = NULL;
      g_autofree char *expected = NULL;
      g_autofree char *said = NULL;
      Answer *others[4];
      Answer *answer;

      make_asked (fixture, name);
      restart (fixture, sql);
      context = open_context (fixture, name, "{}", &error);
      g_assert_no_error (error);
      for (guint j = 0; j < G_N_ELEMENTS (others); j++)
        others[j] = begin_complete (fixture, "Hello!", "{'max-tokens': <uint32 16>}");
      answer = begin_ask (fixture, context, NEXT, GREEDY);
      for (guint j = 0; j < G_N_ELEMENTS (others); j++)
        {
          WAIT_FOR (others[j]->is_finished);
          g_assert_no_error (others[j]->error);
          answer_free (others[j]);
        }
      WAIT_FOR (answer->is_finished);
      g_assert_no_error (answer->error);
      said = g_strdup (answer->text);
      answer_free (answer);
      g_assert_true (rollback (context, 1, &error));
      expected = answer_from_text (fixture, context);
      g_assert_cmpstr (said, ==, expected);
    }
}

/* Tokens that the model has, but not those of the text: they must not change what is answered. */
static void
test_tokens_in_range (Fixture      *fixture,
                      gconstpointer data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmContext) context = NULL;
  g_autofree char *said = NULL;
  g_autofree char *again = NULL;
  g_autofree char *expected = NULL;

  make_asked (fixture, "notes");
  context = create (fixture, "{'name': <'other'>}");
  g_free (ask (fixture, context, "Is there a comedy movie with Jim Carrey tonight?", GREEDY));
  g_clear_object (&context);
  restart (fixture, "UPDATE turns SET tokens = (SELECT tokens FROM turns WHERE context ="
                    " (SELECT id FROM contexts WHERE name = 'other'))");
  context = open_context (fixture, "notes", "{}", &error);
  g_assert_no_error (error);
  said = ask (fixture, context, NEXT, GREEDY);

  /* what was settled then is good, and stays so */
  restart (fixture, "SELECT 1");
  g_clear_object (&context);
  context = open_context (fixture, "notes", "{}", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count_messages (context), ==, 4);
  again = ask (fixture, context, "Thanks, and good bye!", GREEDY);
  g_assert_true (rollback (context, 2, &error));
  expected = answer_from_text (fixture, context);
  g_assert_cmpstr (said, ==, expected);
}

/* --- text --- */

static void
assert_damaged (Fixture    *fixture,
                const char *name)
{
  g_autoptr(GError) error = NULL;

  g_assert_null (open_context (fixture, name, "{}", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  g_assert_nonnull (strstr (error->message, name));
  g_clear_error (&error);
  /* nothing empty takes its place either */
  g_assert_null (open_context (fixture, name, "{'create': <true>}", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
}

static LlmContext *
find_damaged (Fixture *fixture)
{
  g_autoptr(GPtrArray) contexts = llm_engine_get_contexts (fixture->engine, fixture->caller);

  for (guint i = 0; i < contexts->len; i++)
    if (g_str_equal (llm_context_get_residency (g_ptr_array_index (contexts, i)), "damaged"))
      return g_object_ref (g_ptr_array_index (contexts, i));
  return NULL;
}

static void
close_context (LlmContext *context)
{
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;

  llm_context_close_async (context, on_result, &result);
  WAIT_FOR (result != NULL);
  g_assert_true (g_task_propagate_boolean (G_TASK (result), &error));
  g_assert_no_error (error);
}

static void
test_text (Fixture      *fixture,
           gconstpointer data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(LlmContext) damaged = NULL;
  g_autoptr(Answer) answer = NULL;

  make_asked (fixture, "notes");
  make_asked (fixture, "other");
  restart (fixture, "UPDATE messages SET text = 'I want a restaurant in San Jobe.'"
                    " WHERE number = 0 AND context = (SELECT id FROM contexts WHERE name = 'notes')");

  /* it is found when it is read */
  context = open_context (fixture, "notes", "{}", &error);
  g_assert_no_error (error);
  answer = begin_ask (fixture, context, NEXT, GREEDY);
  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  assert_damaged (fixture, "notes");
  g_clear_object (&context);

  context = open_context (fixture, "other", "{}", &error);
  g_assert_no_error (error);
  g_free (ask (fixture, context, NEXT, GREEDY));

  /* closing it takes all that is left, and the name is free again */
  damaged = find_damaged (fixture);
  g_assert_nonnull (damaged);
  close_context (damaged);
  make_asked (fixture, "notes");
  restart (fixture, "SELECT 1");
  g_clear_object (&context);
  context = open_context (fixture, "notes", "{}", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count_messages (context), ==, 2);
}

/* --- ids --- */

static void
assert_paths (Fixture *fixture)
{
  g_autoptr(GPtrArray) contexts = llm_engine_get_contexts (fixture->engine, fixture->caller);

  for (guint i = 0; i < contexts->len; i++)
    {
      g_autofree char *path =
        g_strconcat ("/a/", ((LlmContext *) g_ptr_array_index (contexts, i))->id, NULL);

      g_assert_true (g_variant_is_object_path (path));
    }
}

static void
test_id (Fixture      *fixture,
         gconstpointer data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmContext) context = NULL;
  g_autofree char *id = NULL;

  make_asked (fixture, "notes");
  context = open_context (fixture, "notes", "{}", &error);
  id = g_strdup (context->id);
  g_clear_object (&context);

  /* its turns still say which one it was */
  restart (fixture, "UPDATE contexts SET id = '../up'");
  context = open_context (fixture, "notes", "{}", &error);
  g_assert_no_error (error);
  assert_paths (fixture);
  g_assert_cmpstr (context->id, ==, id);
  g_assert_cmpuint (count_messages (context), ==, 2);
  g_clear_object (&context);

  restart (fixture, "UPDATE contexts SET id = '0123'; UPDATE turns SET context = '0123';"
                    "UPDATE messages SET context = '0123'");
  assert_damaged (fixture, "notes");
  stop_engine (&fixture->engine);
  start (fixture);
  assert_damaged (fixture, "notes");
  context = find_damaged (fixture);
  close_context (context);
  g_clear_object (&context);
  stop_engine (&fixture->engine);
  g_assert_cmpint (get_number (fixture, "SELECT count (*) FROM contexts"), ==, 0);
  g_assert_cmpint (get_number (fixture, "SELECT count (*) FROM messages"), ==, 0);
}

/* --- bad values --- */

typedef enum
{
  USABLE,    /* the value does not matter */
  DAMAGED,   /* opening it by its name fails, now or when it was read */
  RENAMED,   /* it is listed, under a name that can be shown */
  NOBODYS,   /* nobody knows whose it is */
} Outcome;

typedef struct
{
  const char *sql;
  Outcome outcome;
} BadValue;

#define ONE " WHERE name = 'one'"
#define OF_ONE " WHERE context = (SELECT id FROM contexts WHERE name = 'one')"

static const BadValue bad_values[] = {
  { "UPDATE contexts SET revision = -5" ONE, DAMAGED },
  { "UPDATE contexts SET revision = 9" ONE, DAMAGED },
  { "UPDATE contexts SET revision = 9.5" ONE, DAMAGED },
  { "UPDATE contexts SET created = 'yesterday'" ONE, DAMAGED },
  { "UPDATE contexts SET used = x'00'" ONE, DAMAGED },
  { "UPDATE contexts SET max_tokens = 9223372036854775807" ONE, DAMAGED },
  { "UPDATE contexts SET max_tokens = -1" ONE, DAMAGED },
  { "UPDATE contexts SET slo = 'turbo'" ONE, DAMAGED },
  { "UPDATE contexts SET slo = x'ff'" ONE, DAMAGED },
  { "UPDATE contexts SET name = CAST (x'6fff65' AS TEXT)" ONE, RENAMED },
  { "UPDATE contexts SET name = x'00'" ONE, RENAMED },
  { "UPDATE contexts SET name = ''" ONE, RENAMED },
  { "UPDATE contexts SET name = '../one'" ONE, RENAMED },
  { "UPDATE contexts SET name = CAST (zeroblob (100000) AS TEXT)" ONE, RENAMED },
  { "UPDATE contexts SET id = CAST (x'ff' AS TEXT)" ONE, USABLE },
  { "UPDATE contexts SET id = ''" ONE, USABLE },
  { "UPDATE contexts SET id = x'2f'" ONE, USABLE },
  { "UPDATE contexts SET uid = -1" ONE, NOBODYS },
  { "UPDATE contexts SET uid = 4294967297000" ONE, NOBODYS },
  { "UPDATE contexts SET uid = 'root'" ONE, NOBODYS },
  { "UPDATE contexts SET uid = 1001" ONE, NOBODYS },
  { "UPDATE contexts SET app = CAST (x'ff' AS TEXT)" ONE, NOBODYS },
  { "UPDATE contexts SET app = 'org.example.Other'" ONE, NOBODYS },
  { "DELETE FROM turns" OF_ONE, DAMAGED },
  { "DELETE FROM messages" OF_ONE, DAMAGED },
  { "UPDATE turns SET number = 7" OF_ONE, DAMAGED },
  { "UPDATE turns SET number = 'x'" OF_ONE, DAMAGED },
  { "UPDATE turns SET is_base = 5" OF_ONE, DAMAGED },
  { "UPDATE turns SET is_closed = x'ff'" OF_ONE, USABLE },
  { "UPDATE turns SET sparsity = 50, n_sparse = 1" OF_ONE, USABLE },
  { "UPDATE turns SET sparsity = 50, n_sparse = 100000" OF_ONE, USABLE },
  { "UPDATE turns SET sparsity = 50, n_sparse = -1" OF_ONE, USABLE },
  { "UPDATE turns SET sparsity = 500, n_sparse = 1" OF_ONE, USABLE },
  { "UPDATE turns SET sparsity = 'x', n_sparse = x'ff'" OF_ONE, USABLE },
  { "UPDATE turns SET n_w8 = 1" OF_ONE, USABLE },
  { "UPDATE turns SET n_w8 = 100000" OF_ONE, USABLE },
  { "UPDATE turns SET n_w8 = -1" OF_ONE, USABLE },
  { "UPDATE turns SET n_w8 = x'ff'" OF_ONE, USABLE },
  { "UPDATE turns SET n_tokens = -1" OF_ONE, USABLE },
  { "UPDATE turns SET n_tokens = 1e300" OF_ONE, USABLE },
  { "UPDATE turns SET tokens = 'text'" OF_ONE, USABLE },
  { "UPDATE turns SET tokens = x'010203'" OF_ONE, USABLE },
  { "UPDATE turns SET tokens = 5" OF_ONE, USABLE },
  { "UPDATE turns SET identity = CAST (x'ff' AS TEXT)" OF_ONE, USABLE },
  { "UPDATE turns SET identity = NULL" OF_ONE, USABLE },
  { "UPDATE turns SET request_id = CAST (x'ff' AS TEXT)" OF_ONE, DAMAGED },
  { "UPDATE turns SET results = 'nonsense'" OF_ONE, DAMAGED },
  { "UPDATE turns SET results = x'00'" OF_ONE, DAMAGED },
  { "UPDATE messages SET role = 'wizard'" OF_ONE, DAMAGED },
  { "UPDATE messages SET role = 'system'" OF_ONE, DAMAGED },
  { "UPDATE messages SET text = CAST (x'ff41' AS TEXT)" OF_ONE, DAMAGED },
  { "UPDATE messages SET text = CAST (x'410042' AS TEXT)" OF_ONE, DAMAGED },
  { "UPDATE messages SET text = x'4142'" OF_ONE, DAMAGED },
  { "UPDATE messages SET text = 5" OF_ONE, DAMAGED },
  { "UPDATE messages SET extras = '{'" OF_ONE, DAMAGED },
  { "UPDATE messages SET extras = CAST (x'ff' AS TEXT)" OF_ONE, DAMAGED },
  { "UPDATE messages SET number = number + 5" OF_ONE, DAMAGED },
  { "INSERT INTO quotas VALUES (-1, 'a', 'calls', 1), ('x', x'ff', x'ff', 'y'),"
    " (1000, CAST (x'ff' AS TEXT), 'calls', 1), (1000, 'org.example.App', 'calls', -9e999),"
    " (1000, 'org.example.App', 'contexts', 9e999), (1000, 'org.example.App', 'what', 5)", USABLE },
  { "INSERT INTO settings VALUES ('model', CAST (x'ff' AS TEXT))", USABLE },
  { "INSERT INTO settings VALUES ('model', x'00')", USABLE },
};

static void
check_one (Fixture        *fixture,
           const BadValue *value)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmContext) context = open_context (fixture, "one", "{}", &error);
  g_autoptr(LlmContext) damaged = NULL;

  if (context != NULL)
    {
      g_autoptr(GAsyncResult) result = NULL;
      g_autoptr(GVariant) messages = NULL;

      llm_context_get_messages_async (context, 0, 0, on_result, &result);
      WAIT_FOR (result != NULL);
      messages = g_task_propagate_pointer (G_TASK (result), &error);
      g_assert_true ((messages != NULL) == (value->outcome == USABLE));
      if (messages != NULL)
        g_assert_cmpuint (g_variant_n_children (messages), ==, 2);
    }
  damaged = find_damaged (fixture);
  g_assert_true ((damaged != NULL) == (value->outcome == DAMAGED || value->outcome == RENAMED));
  if (value->outcome == USABLE)
    g_assert_no_error (error);
  else if (value->outcome == DAMAGED)
    g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  else
    g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND);
  if (damaged != NULL)
    {
      g_assert_true (g_utf8_validate (damaged->name, -1, NULL));
      g_assert_cmpuint (strlen (damaged->name), <=, 128);
      close_context (damaged);
    }
}

static void
test_values (Fixture      *fixture,
             gconstpointer data)
{
  g_autofree char *path = get_path (fixture);
  g_autofree char *good = g_strconcat (path, ".good", NULL);
  g_autoptr(LlmCaller) other = llm_caller_new (1001, "org.example.App", ":1.2", LLM_CALLER_HOST);

  make_asked (fixture, "zero");
  make_asked (fixture, "one");
  make_asked (fixture, "two");
  stop_engine (&fixture->engine);
  run_sql (fixture, "PRAGMA wal_checkpoint(TRUNCATE)");
  copy_file (path, good);

  for (guint i = 0; i < G_N_ELEMENTS (bad_values); i++)
    {
      const char *const names[] = { "zero", "two" };
      g_autoptr(GPtrArray) seen = NULL;

      g_test_message ("%s", bad_values[i].sql);
      copy_file (good, path);
      run_sql (fixture, bad_values[i].sql);
      start (fixture);
      for (guint j = 0; j < G_N_ELEMENTS (names); j++)
        {
          g_autoptr(GError) error = NULL;
          g_autoptr(LlmContext) context = open_context (fixture, names[j], "{}", &error);

          g_assert_no_error (error);
          g_assert_cmpuint (count_messages (context), ==, 2);
        }
      check_one (fixture, &bad_values[i]);
      assert_paths (fixture);
      seen = llm_engine_get_contexts (fixture->engine, other);
      g_assert_cmpuint (seen->len, ==, 0);
      stop_engine (&fixture->engine);
      /* what was closed is gone, and all others are not */
      start (fixture);
      g_assert_null (open_context (fixture, "nothing", "{}", NULL));
      g_assert_null (find_damaged (fixture));
      stop_engine (&fixture->engine);
    }
  start (fixture);
}

/* --- pages --- */

#define N_USERS 3
#define N_CONTEXTS 6

/* What N_CONTEXTS contexts of each of N_USERS users say. */
typedef struct
{
  Fixture *fixture;
  LlmCaller *callers[N_USERS];
  GVariant *messages[N_USERS][N_CONTEXTS];
  char *good;         /* the path of the whole database */
  GByteArray *bytes;  /* of it */
} Many;

static char *
make_text (guint user,
           guint number)
{
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "user %u, context %u:", user, number);
  for (guint i = 0; i < 20 + 90 * number; i++)
    g_string_append_printf (text, " word%u", i * (user + 1));
  return g_string_free (text, FALSE);
}

/* Stored as they are, without a model: none is configured. */
static void
start_without_model (Fixture *fixture)
{
  LlmSettings *settings = new_settings (fixture->state, 1);

  g_strfreev (settings->model_folders);
  settings->model_folders = g_new0 (char *, 1);
  fixture->engine = start_engine_with (settings);
}

static void
many_init (Many    *many,
           Fixture *fixture)
{
  g_autofree char *path = get_path (fixture);
  g_autofree char *content = NULL;
  gsize length;

  many->fixture = fixture;
  stop_engine (&fixture->engine);
  start_without_model (fixture);
  for (guint u = 0; u < N_USERS; u++)
    many->callers[u] = llm_caller_new (1000 + u, "org.example.App", ":1.1", LLM_CALLER_HOST);
  for (guint u = 0; u < N_USERS; u++)
    for (guint i = 0; i < N_CONTEXTS; i++)
      {
        Fixture user = { fixture->state, fixture->engine, many->callers[u] };
        g_autofree char *text = make_text (u, i);
        g_autofree char *options =
          g_strdup_printf ("{'name': <'c%u'>, 'system': <'%s'>, 'messages': <[('user', 'Hello!', "
                           "@a{sv} {}), ('assistant', 'How are you?', {})]>}", i, text);
        g_autoptr(LlmContext) context = create (&user, options);

        many->messages[u][i] = get_messages (context);
      }
  stop_engine (&fixture->engine);
  run_sql (fixture, "PRAGMA wal_checkpoint(TRUNCATE)");
  g_assert_true (g_file_get_contents (path, &content, &length, NULL));
  many->bytes = g_byte_array_new_take ((guint8 *) g_steal_pointer (&content), length);
}

static void
many_clear (Many *many)
{
  for (guint u = 0; u < N_USERS; u++)
    {
      llm_caller_unref (many->callers[u]);
      for (guint i = 0; i < N_CONTEXTS; i++)
        g_variant_unref (many->messages[u][i]);
    }
  g_byte_array_unref (many->bytes);
}

static void
remove_files (Fixture *fixture)
{
  g_autoptr(GDir) folder = g_dir_open (fixture->state, 0, NULL);
  const char *name;

  while ((name = g_dir_read_name (folder)) != NULL)
    {
      g_autofree char *path = g_build_filename (fixture->state, name, NULL);

      if (g_str_has_prefix (name, "contexts.db"))
        g_assert_cmpint (g_remove (path), ==, 0);
    }
}

/* Starts with the database @bytes; returns how many contexts are as they were. All others must say
 * that they are damaged, or be none that the service knows of: @n_unknown. */
static guint
check_many (Many             *many,
            const GByteArray *bytes,
            guint            *n_unknown)
{
  Fixture *fixture = many->fixture;
  g_autofree char *path = get_path (fixture);
  guint n_good = 0;

  *n_unknown = 0;
  remove_files (fixture);
  g_assert_true (g_file_set_contents (path, (const char *) bytes->data, bytes->len, NULL));
  start_without_model (fixture);
  for (guint u = 0; u < N_USERS; u++)
    {
      Fixture user = { fixture->state, fixture->engine, many->callers[u] };

      for (guint i = 0; i < N_CONTEXTS; i++)
        {
          g_autofree char *name = g_strdup_printf ("c%u", i);
          g_autoptr(GAsyncResult) result = NULL;
          g_autoptr(GError) error = NULL;
          g_autoptr(LlmContext) context = open_context (&user, name, "{}", &error);
          g_autoptr(GVariant) messages = NULL;

          if (context != NULL)
            {
              llm_context_get_messages_async (context, 0, 0, on_result, &result);
              WAIT_FOR (result != NULL);
              messages = g_task_propagate_pointer (G_TASK (result), &error);
            }
          if (messages != NULL)
            {
              g_assert_true (g_variant_equal (messages, many->messages[u][i]));
              n_good++;
            }
          else if (g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND))
            {
              ++*n_unknown;
            }
          else
            {
              g_test_message ("%s", error->message);
              g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
            }
        }
    }
  stop_engine (&fixture->engine);
  return n_good;
}

/* Every page, of the tables' names, of rows, and of what leads to them: what is on it is lost, and
 * known to be. */
static void
test_pages (Fixture      *fixture,
            gconstpointer data)
{
  const guint page_bytes = 4096;
  Many many = { 0 };
  guint n_pages;

  many_init (&many, fixture);
  n_pages = many.bytes->len / page_bytes;
  g_assert_cmpuint (n_pages, >, 20);
  for (guint page = 0; page < n_pages; page++)
    {
      g_autoptr(GByteArray) bytes = g_byte_array_new ();
      guint n_unknown;
      guint n_good;

      g_byte_array_append (bytes, many.bytes->data, many.bytes->len);
      memset (bytes->data + page * page_bytes, 0xa5, page_bytes);
      n_good = check_many (&many, bytes, &n_unknown);
      g_test_message ("page %u: %u good, %u unknown", page + 1, n_good, n_unknown);
      g_assert_cmpuint (n_unknown, ==, 0);
      /* the fourth has all turns: they are few */
      if (page < 3)
        g_assert_cmpuint (n_good, ==, N_USERS * N_CONTEXTS);
      else if (page != 3)
        g_assert_cmpuint (n_good, >, 0);
    }
  start (fixture);
  many_clear (&many);
}

/* Bytes anywhere: no crash, and no wrong text. */
static void
test_bytes (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(GRand) random = g_rand_new_with_seed (14);
  Many many = { 0 };
  guint n_all_good = 0;

  many_init (&many, fixture);
  for (guint round = 0; round < 150; round++)
    {
      g_autoptr(GByteArray) bytes = g_byte_array_new ();
      guint n_unknown;

      g_byte_array_append (bytes, many.bytes->data, many.bytes->len);
      for (guint i = 0; i < 1 + round / 30; i++)
        bytes->data[g_rand_int_range (random, 0, (gint32) bytes->len)] ^=
          (guint8) (1u << g_rand_int_range (random, 0, 8));
      n_all_good += check_many (&many, bytes, &n_unknown) == N_USERS * N_CONTEXTS;
    }
  g_assert_cmpuint (n_all_good, >, 0);
  start (fixture);
  many_clear (&many);
}

/* --- the database of an older service --- */

static const char version_1[] =
  "CREATE TABLE contexts (id TEXT PRIMARY KEY, uid INTEGER NOT NULL, app TEXT NOT NULL,"
  "  name TEXT NOT NULL, revision INTEGER NOT NULL, created INTEGER NOT NULL,"
  "  used INTEGER NOT NULL, max_tokens INTEGER NOT NULL, slo TEXT NOT NULL,"
  "  UNIQUE (uid, app, name)) WITHOUT ROWID;"
  "CREATE TABLE turns (context TEXT NOT NULL REFERENCES contexts (id) ON DELETE CASCADE,"
  "  number INTEGER NOT NULL, is_base INTEGER NOT NULL, is_closed INTEGER NOT NULL,"
  "  n_tokens INTEGER NOT NULL, tokens BLOB, identity TEXT, request_id TEXT, results TEXT,"
  "  PRIMARY KEY (context, number)) WITHOUT ROWID;"
  "CREATE TABLE messages (context TEXT NOT NULL, turn INTEGER NOT NULL, number INTEGER NOT NULL,"
  "  role TEXT NOT NULL, text TEXT NOT NULL, extras TEXT NOT NULL,"
  "  PRIMARY KEY (context, turn, number),"
  "  FOREIGN KEY (context, turn) REFERENCES turns (context, number) ON DELETE CASCADE)"
  "  WITHOUT ROWID;"
  "CREATE TABLE quotas (uid INTEGER NOT NULL, app TEXT NOT NULL, key TEXT NOT NULL,"
  "  value REAL NOT NULL, PRIMARY KEY (uid, app, key)) WITHOUT ROWID;"
  "CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
  "PRAGMA user_version = 1;"
  "INSERT INTO contexts VALUES"
  "  ('aaaa', 1000, 'org.example.App', 'notes', 2, 5, 6, 0, 'responsive'),"
  "  ('bbbb', 1000, 'org.example.App', 'bad', 1, 5, 6, 0, 'responsive');"
  "INSERT INTO turns VALUES"
  "  ('aaaa', 0, 1, 0, 7, NULL, NULL, NULL, NULL),"
  "  ('aaaa', 1, 0, 1, 3, x'ffffff7f0000000001000000', 'ffff', 'r1', '{''output-tokens'': <uint32 1>}'),"
  "  ('bbbb', 0, 0, 0, 7, NULL, NULL, NULL, NULL);"
  "INSERT INTO messages VALUES"
  "  ('aaaa', 0, 0, 'system', 'Be kind.', '{}'),"
  "  ('aaaa', 1, 0, 'user', 'Hello!', '@a{sv} {}'),"
  "  ('aaaa', 1, 1, 'assistant', 'Hi, how are you?', '@a{sv} {}'),"
  "  ('bbbb', 0, 0, 'wizard', 'Abracadabra', '@a{sv} {}');";

static void
test_version_1 (Fixture      *fixture,
                gconstpointer data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(LlmContext) bad = NULL;
  g_autoptr(Answer) answer = NULL;

  stop_engine (&fixture->engine);
  remove_files (fixture);
  run_sql (fixture, version_1);
  start_floats (fixture);
  bad = open_context (fixture, "bad", "{}", &error);
  g_assert_no_error (error);
  context = open_context (fixture, "notes", "{}", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (context->revision, ==, 2);
  g_assert_cmpuint (count_messages (context), ==, 3);
  g_free (ask (fixture, context, NEXT, GREEDY));
  answer = begin_ask (fixture, bad, NEXT, GREEDY);
  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  assert_damaged (fixture, "bad");
  g_clear_object (&context);

  /* from now on it is checked */
  restart (fixture, "UPDATE contexts SET revision = 7 WHERE name = 'notes'");
  assert_damaged (fixture, "notes");

  stop_engine (&fixture->engine);
  run_sql (fixture, "PRAGMA user_version = 99");
  start (fixture);
  g_assert_null (open_context (fixture, "notes", "{'create': <true>}", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  g_assert_nonnull (strstr (error->message, "99"));
}

/* From version 1 to 2. */
static const char version_2[] =
  "ALTER TABLE contexts ADD COLUMN n_turns INTEGER;"
  "ALTER TABLE contexts ADD COLUMN owner_checksum INTEGER;"
  "ALTER TABLE contexts ADD COLUMN checksum INTEGER;"
  "ALTER TABLE contexts ADD COLUMN damage TEXT;"
  "ALTER TABLE turns ADD COLUMN checksum INTEGER;"
  "ALTER TABLE turns ADD COLUMN token_checksum INTEGER;"
  "ALTER TABLE turns ADD COLUMN n_total INTEGER;"
  "ALTER TABLE turns ADD COLUMN counted_by TEXT;"
  "CREATE INDEX contexts_copy ON contexts (id, uid, app, name, revision, created, used,"
  " max_tokens, slo, n_turns, owner_checksum, checksum);"
  "PRAGMA user_version = 2;";

static void
assert_traits (Fixture    *fixture,
               const char *name,
               const char *options,
               guint       traits)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmContext) context = open_context (fixture, name, options, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (context->traits, ==, traits);
}

/* What a context was opened with stays, also in a database that had no place for it; what can't be
 * meant costs no more than that. */
static void
test_traits (Fixture      *fixture,
             gconstpointer data)
{
  const guint both = LLM_CONTEXT_EXACT | LLM_CONTEXT_SHARES_ANY;

  stop_engine (&fixture->engine);
  remove_files (fixture);
  run_sql (fixture, version_1);
  run_sql (fixture, version_2);
  start_floats (fixture);
  assert_traits (fixture, "notes", "{}", 0);
  assert_traits (fixture, "notes", "{'exact': <true>}", LLM_CONTEXT_EXACT);
  assert_traits (fixture, "new", "{'create': <true>, 'exact': <true>, 'shared-prefix': <'any'>}",
                 both);
  restart (fixture, "SELECT 1");
  assert_traits (fixture, "notes", "{}", LLM_CONTEXT_EXACT);
  assert_traits (fixture, "new", "{}", both);
  assert_traits (fixture, "new", "{'exact': <false>}", LLM_CONTEXT_SHARES_ANY);
  restart (fixture, "SELECT 1");
  assert_traits (fixture, "notes", "{}", LLM_CONTEXT_EXACT);
  assert_traits (fixture, "new", "{}", LLM_CONTEXT_SHARES_ANY);

  restart (fixture, "UPDATE traits SET traits = 'x'");
  assert_traits (fixture, "notes", "{}", 0);
  assert_traits (fixture, "new", "{}", 0);
}

/* A database that has no place for the sub-models and sparsities of turns: its turns are the whole
 * model's and dense, and their tokens good. What is stored from then on is checked with it. */
static void
test_version_3 (Fixture      *fixture,
                gconstpointer data)
{
  g_autoptr(LlmContext) context =
    open_context (fixture, "notes", "{'create': <true>}", NULL);
  g_autofree char *first = ask (fixture, context, "Hello!", GREEDY);
  g_autoptr(Answer) answer = NULL;

  g_clear_object (&context);
  restart (fixture, "ALTER TABLE turns DROP COLUMN sub_model;"
                    "ALTER TABLE turns DROP COLUMN sparsity; ALTER TABLE turns DROP COLUMN n_sparse;"
                    "ALTER TABLE turns DROP COLUMN n_w8; PRAGMA user_version = 3");
  context = open_context (fixture, "notes", "{}", NULL);
  answer = begin_ask (fixture, context, NEXT, GREEDY);
  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpuint (count_messages (context), ==, 4);
  g_clear_object (&context);
  stop_engine (&fixture->engine);
  g_assert_cmpint (get_number (fixture, "PRAGMA user_version"), ==, 6);
  g_assert_cmpint (get_number (fixture, "SELECT count (*) FROM turns WHERE tokens NOT NULL"
                               " AND sub_model IS NULL AND sparsity IS NULL"), ==, 2);

  /* tokens of a sub-model that was not there are no turn's: the text is used */
  run_sql (fixture, "UPDATE turns SET sub_model = 40");
  start_floats (fixture);
  context = open_context (fixture, "notes", "{}", NULL);
  g_free (ask (fixture, context, NEXT, GREEDY));
  g_assert_cmpuint (count_messages (context), ==, 6);
  g_clear_object (&context);
  stop_engine (&fixture->engine);
  g_assert_cmpint (get_number (fixture, "SELECT count (*) FROM turns WHERE tokens NOT NULL"), ==, 1);
}

#define ADD(path, func) g_test_add (path, Fixture, NULL, set_up_damage, func, tear_down)

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/damage/tokens-out-of-range", test_tokens_out_of_range);
  ADD ("/damage/tokens-in-range", test_tokens_in_range);
  ADD ("/damage/text", test_text);
  ADD ("/damage/id", test_id);
  ADD ("/damage/values", test_values);
  ADD ("/damage/pages", test_pages);
  ADD ("/damage/bytes", test_bytes);
  ADD ("/damage/version-1", test_version_1);
  ADD ("/damage/traits", test_traits);
  ADD ("/damage/version-3", test_version_3);
  return g_test_run ();
}
