/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Contexts that begin alike (L15), with chunks that are quantized between calls: an answer has the
 * same text whether the beginning was computed for it or another context had it, and on storage a
 * beginning is there once. */

#include "engine-rig.h"

#include <sys/stat.h>

/* Hot, so that numbers that are a little wrong give another word soon. */
#define HOT \
  "{'temperature': <1.5>, 'top-k': <uint32 0>, 'top-p': <1.0>, 'min-p': <0.0>, " \
  "'seed': <uint64 5>, 'max-tokens': <uint32 32>}"

static const char *const systems[] = {
  "You help people who look for restaurants, films and trains. You know all towns of California, "
  "and you never say what you do not know. You are friendly, and your answers are short.",
  "You are a gardener. People ask you about apples, pears and roses, and you tell them when to "
  "plant, how much water is good, and what to do about snails. You like old sorts best, and you "
  "always ask where the garden is before you say anything about the weather there.",
  "Answer in one sentence. The user is learning English, so use easy words, no foreign ones, and "
  "never more than twelve of them.",
  "This is a game. You are the captain of a ship on its way to an island far in the south, the "
  "user is the cook. There is a storm, the food is nearly gone, and nobody knows who has taken "
  "the map. You suspect the cook, but you do not say so. Speak as captains do, loudly. When the "
  "user says that he wants to leave the ship, tell him that there are sharks in the water.",
};

static const char *const prompts[] = {
  "What can I do tomorrow?",
  "I want a table outside for four people at seven.",
  "Tell me a story about a cat that lost its way.",
  "Is it true that the old mill has been sold to a man from the city?",
  "How many are there, and which of them would you take with you?",
  "My sister says that it will rain. What do you think about that?",
};

/* What is called is called by another application. */
static void
set_app (Fixture    *fixture,
         const char *app)
{
  llm_caller_unref (fixture->caller);
  fixture->caller = llm_caller_new (1000, app, ":1.2", LLM_CALLER_HOST);
}

static LlmContext *
create_with_system (Fixture    *fixture,
                    const char *system)
{
  g_autofree char *options = g_strdup_printf ("{'system': <'%s'>}", system);

  return create (fixture, options);
}

/* Until all full chunks are quantized and written. */
static void
await_settled (LlmContext *context)
{
  gboolean is_settled;

  do
    {
      g_autoptr(LlmContextMemory) memory = get_memory (context);

      is_settled = memory->n_chunks > 1;
      for (guint i = 0; i + 1 < memory->n_chunks; i++)
        is_settled = is_settled && memory->bits[i] <= 8 && memory->places[i] == 'b';
    }
  while (!is_settled);
}

static char *
ask_hot (Fixture    *fixture,
         LlmContext *context,
         const char *prompt,
         guint      *n_reused)
{
  g_autoptr(Answer) answer = begin_ask (fixture, context, prompt, HOT);

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  *n_reused = result_uint (answer, "cached-tokens");
  return g_steal_pointer (&answer->text);
}

static void
close_context (LlmContext *context)
{
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;

  llm_context_close_async (context, on_result, &result);
  WAIT_FOR (result != NULL);
  g_assert_true (g_task_propagate_boolean (G_TASK (result), &error));
  g_object_unref (context);
}

/* Two answers in one: the second is given when what the first left has been quantized. */
static char *
ask_twice (Fixture    *fixture,
           LlmContext *context,
           const char *prompt,
           guint      *n_reused)
{
  g_autofree char *first = ask_hot (fixture, context, prompt, n_reused);
  g_autofree char *second = NULL;
  guint n_more;

  await_settled (context);
  second = ask_hot (fixture, context, "And then?", &n_more);
  return g_strconcat (first, "|", second, NULL);
}

/* In an application that has nothing else. */
static char *
ask_alone (Fixture    *fixture,
           const char *app,
           const char *system,
           const char *prompt)
{
  LlmContext *context;
  char *text;
  guint n_reused;

  set_app (fixture, app);
  context = create_with_system (fixture, system);
  text = ask_twice (fixture, context, prompt, &n_reused);
  g_assert_cmpuint (n_reused, ==, 0);
  close_context (context);
  set_app (fixture, "org.example.App");
  return text;
}

/* Four system texts, six prompts: each in a context of an application that has no other, and in one
 * that is not the first of its application. Where memory was taken in between, nothing is shared;
 * the text is the same all the same. So is that of the next turn, as contexts as short as these
 * get 4 bits everywhere. */
static void
test_same_text (Fixture      *fixture,
                gconstpointer data)
{
  gboolean is_taken = GPOINTER_TO_INT (data);
  guint n_different = 0;

  set_app (fixture, "org.example.App");
  for (guint i = 0; i < G_N_ELEMENTS (systems); i++)
    {
      LlmContext *first = create_with_system (fixture, systems[i]);
      guint n_reused;

      g_free (ask_hot (fixture, first, "Good morning! Who are you, and what do you do?", &n_reused));
      await_settled (first);
      for (guint k = 0; k < G_N_ELEMENTS (prompts); k++)
        {
          g_autofree char *app = g_strdup_printf ("org.example.Own%u", i * 10 + k);
          g_autofree char *expected = ask_alone (fixture, app, systems[i], prompts[k]);
          LlmContext *other = create_with_system (fixture, systems[i]);
          g_autofree char *text = NULL;

          if (is_taken)
            trim (fixture, "medium");
          text = ask_twice (fixture, other, prompts[k], &n_reused);
          if (is_taken)
            g_assert_cmpuint (n_reused, ==, 0);
          else
            g_assert_cmpuint (n_reused, >=, 32);
          n_different += !g_str_equal (text, expected);
          close_context (other);
        }
      close_context (first);
    }
  g_assert_cmpuint (n_different, ==, 0);
}

/* --- chunks that another context has quantized --- */

/* Whether the result says that another context quantized what the answer was computed from. */
static gboolean
ask_shared (Fixture    *fixture,
            LlmContext *context,
            const char *prompt,
            guint      *n_reused)
{
  g_autoptr(Answer) answer = begin_ask (fixture, context, prompt, HOT);
  gboolean is_shared = FALSE;

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  *n_reused = result_uint (answer, "cached-tokens");
  g_variant_lookup (answer->results, "shared-quantized", "b", &is_shared);
  return is_shared;
}

/* When what was kept is gone, only contexts that allow it begin with what another has quantized, and
 * their results say so, also after a restart. */
static void
test_any (Fixture      *fixture,
          gconstpointer data)
{
  g_autofree char *any = g_strdup_printf ("{'name': <'any'>, 'system': <'%s'>, "
                                          "'shared-prefix': <'any'>}", systems[3]);
  g_autofree char *exact = g_strdup_printf ("{'system': <'%s'>, 'shared-prefix': <'exact'>}",
                                            systems[3]);
  g_autoptr(GError) error = NULL;
  LlmContext *first, *context;
  guint n_reused;

  g_assert_cmpuint (get_statistic (fixture->engine, "kv-kept-bytes"), ==, 0);
  first = create_with_system (fixture, systems[3]);
  g_assert_false (ask_shared (fixture, first, prompts[0], &n_reused));
  await_settled (first);
  WAIT_FOR (get_statistic (fixture->engine, "kv-kept-bytes") > 0);

  /* what is kept is as it was computed, so there is nothing to tell */
  context = create (fixture, any);
  g_assert_false (ask_shared (fixture, context, prompts[1], &n_reused));
  g_assert_cmpuint (n_reused, >=, 96);
  close_context (context);
  trim (fixture, "medium");
  WAIT_FOR (get_statistic (fixture->engine, "kv-kept-bytes") == 0);

  context = create (fixture, exact);
  g_assert_false (ask_shared (fixture, context, prompts[1], &n_reused));
  g_assert_cmpuint (n_reused, ==, 0);
  close_context (context);
  trim (fixture, "medium");

  context = create (fixture, any);
  g_assert_true (ask_shared (fixture, context, prompts[1], &n_reused));
  g_assert_cmpuint (n_reused, >=, 96);
  await_settled (context);
  g_assert_true (ask_shared (fixture, context, "And then?", &n_reused));
  await_settled (context);
  g_object_unref (context);
  g_object_unref (first);

  stop_engine (&fixture->engine);
  fixture->engine = start_engine (fixture->state, 1);
  context = open_context (fixture, "any", "{'shared-prefix': <'exact'>}", &error);
  g_assert_no_error (error);
  g_assert_true (ask_shared (fixture, context, "What was that?", &n_reused));
  g_assert_cmpuint (n_reused, >, 0);
  close_context (context);
}

/* --- on storage --- */

/* As du counts it: a file with several names once. */
static guint64
count_stored (const char *folder,
              GHashTable *inodes)
{
  g_autoptr(GDir) dir = g_dir_open (folder, 0, NULL);
  guint64 bytes = 0;
  const char *name;

  g_assert_nonnull (dir);
  while ((name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (folder, name, NULL);
      struct stat status;

      g_assert_cmpint (lstat (path, &status), ==, 0);
      if (S_ISDIR (status.st_mode))
        bytes += count_stored (path, inodes);
      else if (g_hash_table_add (inodes, GUINT_TO_POINTER ((guint) status.st_ino)))
        bytes += (guint64) status.st_blocks * 512;
    }
  return bytes;
}

static guint64
get_stored (Fixture *fixture)
{
  g_autoptr(GHashTable) inodes = g_hash_table_new (NULL, NULL);
  g_autofree char *folder = g_build_filename (fixture->state, "chunks", NULL);

  return count_stored (folder, inodes);
}

static guint
count_full (LlmContext *context)
{
  g_autoptr(LlmContextMemory) memory = get_memory (context);

  return memory->tokens / memory->chunk_tokens;
}

/* Of five contexts with one system text the first writes it, the others have it as links; what is
 * theirs alone they write themselves. One goes, and the others still have what they had. */
static void
test_stored_once (Fixture      *fixture,
                  gconstpointer data)
{
  LlmContext *contexts[5];
  guint n_first, n_own = 0, n_reused;
  guint64 first;

  contexts[0] = create_with_system (fixture, systems[3]);
  g_free (ask_hot (fixture, contexts[0], prompts[0], &n_reused));
  await_settled (contexts[0]);
  first = get_stored (fixture);
  n_first = count_full (contexts[0]);
  for (guint i = 1; i < G_N_ELEMENTS (contexts); i++)
    {
      contexts[i] = create_with_system (fixture, systems[3]);
      g_free (ask_hot (fixture, contexts[i], prompts[i], &n_reused));
      g_assert_cmpuint (n_reused, >=, 96);
      await_settled (contexts[i]);
      n_own += count_full (contexts[i]) - n_reused / 16;
    }
  /* One or two chunks got another width, as another question looks at other places. */
  g_assert_cmpuint (get_stored (fixture) * n_first, <, first * (n_first + n_own + 4));

  close_context (contexts[0]);
  trim (fixture, "medium");
  for (guint i = 1; i < G_N_ELEMENTS (contexts); i++)
    {
      g_free (ask_hot (fixture, contexts[i], prompts[0], &n_reused));
      g_assert_cmpuint (n_reused, >=, 96);
      close_context (contexts[i]);
    }
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-faulted-chunks"), ==, 0);
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-restored-chunks"), >=, 8);
}

#define ADD(path, data, func) g_test_add (path, Fixture, data, set_up, func, tear_down)

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/prefix/same-text", NULL, test_same_text);
  ADD ("/prefix/same-text-taken", GINT_TO_POINTER (TRUE), test_same_text);
  ADD ("/prefix/any", NULL, test_any);
  ADD ("/prefix/stored-once", NULL, test_stored_once);
  return g_test_run ();
}
