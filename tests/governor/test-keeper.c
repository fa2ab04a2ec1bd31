/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The loop: made-up kernel files, real governor, holders made of numbers. */

#include "governor/llm-keeper.h"

#include "base/llm-func-reclaimer.h"
#include "support/llm-test-folder.h"

#define MIB (G_GUINT64_CONSTANT (1) << 20)

typedef struct
{
  char *root;
  LlmLedger *ledger;
  LlmGovernor *governor;
  LlmKeeper *keeper;
  gboolean is_busy;
  guint n_looked;
  guint64 kv;
  guint64 pages;
  guint64 regrown;
  guint64 available;
} Fixture;

static void
put (Fixture    *fixture,
     const char *path,
     const char *text)
{
  g_autofree char *full = g_build_filename (fixture->root, path, NULL);
  g_autofree char *folder = g_path_get_dirname (full);

  g_assert_cmpint (g_mkdir_with_parents (folder, 0700), ==, 0);
  g_assert_true (g_file_set_contents (full, text, -1, NULL));
}

static void
put_available (Fixture *fixture,
               guint64  bytes)
{
  g_autofree char *text = g_strdup_printf ("MemTotal: %ju kB\nMemAvailable: %ju kB\n",
                                           8192 * MIB / 1024, bytes / 1024);

  fixture->available = bytes;
  put (fixture, "proc/meminfo", text);
}

static guint64
get_kv (gpointer holder)
{
  return ((Fixture *) holder)->kv;
}

static void
give_kv (gpointer       holder,
         guint64        bytes,
         gint64         deadline_us,
         LlmReclaimDone done,
         gpointer       data)
{
  Fixture *fixture = holder;
  guint64 freed = MIN (bytes, fixture->kv);

  fixture->kv -= freed;
  put_available (fixture, fixture->available + freed);
  llm_ledger_remove (fixture->ledger, LLM_HOLDER_KV, freed);
  done (freed, data);
}

static guint64
get_pages (gpointer holder)
{
  return ((Fixture *) holder)->pages;
}

static void
give_pages (gpointer       holder,
            guint64        bytes,
            gint64         deadline_us,
            LlmReclaimDone done,
            gpointer       data)
{
  Fixture *fixture = holder;
  guint64 freed = MIN (bytes, fixture->pages);

  fixture->pages -= freed;
  llm_ledger_remove (fixture->ledger, LLM_HOLDER_WEIGHTS, freed);
  llm_ledger_remove_backed (fixture->ledger, freed);
  done (freed, data);
}

static void
take_pages (gpointer holder,
            guint64  bytes)
{
  ((Fixture *) holder)->regrown = bytes;
}

static gboolean
are_backed (gpointer holder)
{
  return TRUE;
}

static gboolean
is_busy (gpointer data)
{
  return ((Fixture *) data)->is_busy;
}

static gboolean
is_trimmed (gpointer data)
{
  return FALSE;
}

static void
on_looked (gpointer data)
{
  ((Fixture *) data)->n_looked++;
}

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  static const LlmReclaimerFuncs kv = { "kv", LLM_RECLAIM_CHEAP, get_kv, give_kv, NULL, NULL };
  static const LlmReclaimerFuncs pages = { "pages", LLM_RECLAIM_COSTLY, get_pages, give_pages,
                                           take_pages, are_backed };
  g_autoptr(LlmReclaimer) first = llm_func_reclaimer_new (&kv, fixture);
  g_autoptr(LlmReclaimer) second = llm_func_reclaimer_new (&pages, fixture);
  LlmKeeperUser user = { is_busy, is_trimmed, on_looked, fixture };
  LlmKeeperConfig config = { .reacts = GPOINTER_TO_INT (data) };

  fixture->root = llm_test_folder_new ();
  config.root = fixture->root;
  put_available (fixture, 4096 * MIB);
  fixture->ledger = llm_ledger_new ();
  fixture->governor = llm_governor_new (fixture->ledger);
  llm_governor_add (fixture->governor, first);
  llm_governor_add (fixture->governor, second);
  fixture->kv = 400 * MIB;
  fixture->pages = 600 * MIB;
  llm_ledger_add (fixture->ledger, LLM_HOLDER_KV, fixture->kv);
  llm_ledger_add_backed (fixture->ledger, fixture->pages);
  llm_ledger_add (fixture->ledger, LLM_HOLDER_WEIGHTS, fixture->pages);
  fixture->keeper = llm_keeper_new (fixture->governor, fixture->ledger, &config, &user);
  llm_keeper_set_allowed (fixture->keeper, 0);
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  llm_keeper_free (fixture->keeper);
  g_object_unref (fixture->governor);
  llm_ledger_unref (fixture->ledger);
  llm_test_folder_remove (fixture->root);
  g_free (fixture->root);
}

static void
look (Fixture *fixture)
{
  llm_keeper_look (fixture->keeper);
  while (g_main_context_iteration (NULL, FALSE))
    ;
}

static void
test_allowed (Fixture      *fixture,
              gconstpointer data)
{
  look (fixture);
  g_assert_cmpuint (llm_keeper_get_state (fixture->keeper)->allowed, ==, 6144 * MIB);
  g_assert_true (llm_ledger_has_room (fixture->ledger, 2000 * MIB));
  /* what is over an administrator's budget goes, cheap things only */
  llm_keeper_set_allowed (fixture->keeper, 500 * MIB);
  look (fixture);
  g_assert_cmpuint (fixture->kv, ==, 0);
  g_assert_cmpuint (fixture->pages, ==, 600 * MIB);
}

/* The machine has nothing left: what is anonymous goes, as much as is needed, then what can be read
 * again; and the ledger lets nobody take it again. */
static void
test_gives (Fixture      *fixture,
            gconstpointer data)
{
  put_available (fixture, 400 * MIB);
  look (fixture);
  g_assert_cmpuint (fixture->kv, ==, 288 * MIB);
  g_assert_false (llm_ledger_has_room (fixture->ledger, MIB));
  g_assert_cmpuint (llm_keeper_get_state (fixture->keeper)->n_cuts, ==, 1);
  put_available (fixture, 0);
  look (fixture);
  g_assert_cmpuint (fixture->kv, ==, 0);
  put_available (fixture, 0);
  look (fixture);
  g_assert_cmpuint (fixture->pages, ==, 0);
  g_assert_cmpuint (llm_governor_get_given (fixture->governor, "pages"), ==, 600 * MIB);
  g_assert_cmpint (llm_keeper_get_state (fixture->keeper)->action.level, ==, LLM_PRESSURE_CRITICAL);
}

/* Pages that a call uses stay: it would read them again. */
static void
test_busy (Fixture      *fixture,
           gconstpointer data)
{
  fixture->is_busy = TRUE;
  put_available (fixture, 0);
  look (fixture);
  look (fixture);
  g_assert_cmpuint (fixture->kv, ==, 0);
  g_assert_cmpuint (fixture->pages, ==, 600 * MIB);
}

static void
test_grows (Fixture      *fixture,
            gconstpointer data)
{
  look (fixture);
  g_assert_cmpuint (fixture->regrown, >, 1000 * MIB);
}

/* Switched off it looks, and does nothing. */
static void
test_off (Fixture      *fixture,
          gconstpointer data)
{
  put_available (fixture, 0);
  look (fixture);
  g_assert_cmpint (llm_keeper_get_state (fixture->keeper)->action.level, ==, LLM_PRESSURE_CRITICAL);
  g_assert_cmpuint (fixture->kv, ==, 400 * MIB);
  g_assert_true (llm_ledger_has_room (fixture->ledger, MIB));
  g_assert_cmpuint (fixture->n_looked, ==, 1);
}

/* A source wakes it. */
static void
test_source (Fixture      *fixture,
             gconstpointer data)
{
  llm_keeper_find_sources (fixture->keeper);
  while (fixture->n_looked < 2)
    g_main_context_iteration (NULL, TRUE);
}

int
main (int    argc,
      char **argv)
{
  const gpointer on = GINT_TO_POINTER (TRUE);

  g_test_init (&argc, &argv, NULL);
  g_test_add ("/keeper/allowed", Fixture, on, set_up, test_allowed, tear_down);
  g_test_add ("/keeper/gives", Fixture, on, set_up, test_gives, tear_down);
  g_test_add ("/keeper/busy", Fixture, on, set_up, test_busy, tear_down);
  g_test_add ("/keeper/grows", Fixture, on, set_up, test_grows, tear_down);
  g_test_add ("/keeper/off", Fixture, NULL, set_up, test_off, tear_down);
  g_test_add ("/keeper/source", Fixture, on, set_up, test_source, tear_down);
  return g_test_run ();
}
