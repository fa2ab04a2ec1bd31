/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The loop: made-up kernel files, holders made of numbers. */

#include "memory/llm-governor.h"

#include "base/llm-clock.h"
#include "support/llm-test-folder.h"

#define MIB (G_GUINT64_CONSTANT (1) << 20)

typedef struct
{
  char *root;
  LlmLedger *ledger;
  LlmGovernor *governor;
  gboolean is_busy;
  guint n_looked;
  guint64 kv;
  guint64 pages;
  guint64 all_pages;    /* of the model */
  gboolean has_grown;   /* not shrunk, when they last changed */
  guint n_changes;      /* of that direction */
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

static void
note_pages (Fixture *fixture,
            gboolean has_grown)
{
  fixture->n_changes += fixture->has_grown != has_grown;
  fixture->has_grown = has_grown;
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
  note_pages (fixture, FALSE);
  llm_ledger_remove (fixture->ledger, LLM_HOLDER_WEIGHTS, freed);
  llm_ledger_remove (fixture->ledger, LLM_LEDGER_BACKED, freed);
  done (freed, data);
}

static void
take_pages (gpointer holder,
            guint64  bytes)
{
  Fixture *fixture = holder;
  guint64 missing = fixture->all_pages - fixture->pages;

  fixture->regrown = bytes;
  if (missing == 0 || missing > bytes)
    return;
  fixture->pages += missing;
  note_pages (fixture, TRUE);
  llm_ledger_add (fixture->ledger, LLM_LEDGER_BACKED, missing);
  llm_ledger_add (fixture->ledger, LLM_HOLDER_WEIGHTS, missing);
}

static gboolean
are_backed (gpointer holder)
{
  return TRUE;
}

static void
on_wake (gpointer data)
{
  Fixture *fixture = data;

  llm_governor_look (fixture->governor, fixture->is_busy, FALSE);
  fixture->n_looked++;
}

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  const LlmReclaimer kv = { "kv", LLM_RECLAIM_CHEAP, get_kv, give_kv, .holder = fixture };
  const LlmReclaimer pages = { "pages", LLM_RECLAIM_COSTLY, get_pages, give_pages, take_pages,
                               are_backed, fixture };
  LlmGovernorConfig config = { .reacts = GPOINTER_TO_INT (data) };

  fixture->root = llm_test_folder_new ();
  config.root = fixture->root;
  put_available (fixture, 4096 * MIB);
  fixture->ledger = llm_ledger_new ();
  llm_ledger_add_reclaimer (fixture->ledger, &kv);
  llm_ledger_add_reclaimer (fixture->ledger, &pages);
  fixture->kv = 400 * MIB;
  fixture->pages = 600 * MIB;
  fixture->all_pages = fixture->pages;
  llm_ledger_add (fixture->ledger, LLM_HOLDER_KV, fixture->kv);
  llm_ledger_add (fixture->ledger, LLM_LEDGER_BACKED, fixture->pages);
  llm_ledger_add (fixture->ledger, LLM_HOLDER_WEIGHTS, fixture->pages);
  fixture->governor = llm_governor_new (fixture->ledger, &config, on_wake, fixture);
  llm_governor_set_allowed (fixture->governor, 0);
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  llm_governor_free (fixture->governor);
  llm_ledger_unref (fixture->ledger);
  llm_test_folder_remove (fixture->root);
  g_free (fixture->root);
}

static void
look (Fixture *fixture)
{
  on_wake (fixture);
  /* a governor that gives and takes in turn would never end */
  for (guint i = 0; i < 20 && g_main_context_iteration (NULL, FALSE); i++)
    ;
}

static guint64
get_reclaimed (Fixture    *fixture,
               const char *name)
{
  GPtrArray *reclaimers = llm_ledger_get_reclaimers (fixture->ledger);

  for (guint i = 0; i < reclaimers->len; i++)
    {
      const LlmReclaimer *reclaimer = g_ptr_array_index (reclaimers, i);

      if (g_str_equal (reclaimer->name, name))
        return reclaimer->reclaimed;
    }
  return 0;
}

static void
test_allowed (Fixture      *fixture,
              gconstpointer data)
{
  look (fixture);
  g_assert_cmpuint (llm_governor_get_state (fixture->governor)->allowed, ==, 6144 * MIB);
  g_assert_true (llm_ledger_has_room (fixture->ledger, 2000 * MIB));
  /* what is over an administrator's budget goes, contexts before pages */
  llm_governor_set_allowed (fixture->governor, 500 * MIB);
  look (fixture);
  g_assert_cmpuint (fixture->kv, ==, 0);
  g_assert_cmpuint (fixture->pages, ==, 500 * MIB);
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
  g_assert_cmpuint (llm_governor_get_state (fixture->governor)->n_cuts, ==, 1);
  put_available (fixture, 0);
  look (fixture);
  g_assert_cmpuint (fixture->kv, ==, 0);
  put_available (fixture, 0);
  look (fixture);
  g_assert_cmpuint (fixture->pages, ==, 0);
  g_assert_cmpuint (get_reclaimed (fixture, "pages"), ==, 600 * MIB);
  g_assert_cmpint (llm_governor_get_state (fixture->governor)->action.level, ==, LLM_PRESSURE_CRITICAL);
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

/* A budget that is lowered while a call runs: what of the weights does not stay is released by the call, and
 * is not asked of others a second time. */
static void
test_lowered_while_busy (Fixture      *fixture,
                         gconstpointer data)
{
  fixture->is_busy = TRUE;
  look (fixture);
  llm_governor_set_allowed (fixture->governor, 400 * MIB);
  look (fixture);
  g_assert_cmpuint (llm_governor_get_state (fixture->governor)->action.keep_backed, ==, 400 * MIB);
  g_assert_cmpuint (fixture->kv, ==, 0);
  g_assert_cmpuint (fixture->pages, ==, 600 * MIB);
  g_assert_cmpuint (llm_governor_get_excess (fixture->governor, TRUE), ==, 0);
  g_assert_cmpuint (llm_governor_get_excess (fixture->governor, FALSE), ==, 200 * MIB);
  /* pages that are not in memory give nothing */
  llm_ledger_add (fixture->ledger, LLM_LEDGER_ABSENT, 150 * MIB);
  llm_ledger_add (fixture->ledger, LLM_HOLDER_KV, 100 * MIB);
  g_assert_cmpuint (llm_governor_get_excess (fixture->governor, FALSE), ==, 150 * MIB);
  g_assert_cmpuint (llm_governor_get_excess (fixture->governor, TRUE), ==, 100 * MIB);
  llm_ledger_remove (fixture->ledger, LLM_HOLDER_KV, 100 * MIB);
  llm_ledger_remove (fixture->ledger, LLM_LEDGER_ABSENT, 150 * MIB);
}

static void
test_grows (Fixture      *fixture,
            gconstpointer data)
{
  look (fixture);
  g_assert_cmpuint (fixture->regrown, >, 1000 * MIB);
}

/* --- a recorded trace --- */

enum { TIME_MS, SYSTEM_SOME, SYSTEM_FULL, OWN_SOME, OWN_FULL, AVAILABLE, TOTAL, LIMIT, USAGE, CACHE,
       N_COLUMNS };

static void
put_number (Fixture    *fixture,
            const char *path,
            guint64     number)
{
  g_autofree char *text = g_strdup_printf ("%ju\n", number);

  put (fixture, path, text);
}

/* The kernel files as they were at that time. */
static void
put_row (Fixture       *fixture,
         const guint64 *row)
{
  g_autofree char *stall =
      g_strdup_printf ("some avg10=0.00 avg60=0.00 avg300=0.00 total=%ju\n"
                       "full avg10=0.00 avg60=0.00 avg300=0.00 total=%ju\n",
                       row[SYSTEM_SOME], row[SYSTEM_FULL]);
  g_autofree char *meminfo = g_strdup_printf ("MemTotal: %ju kB\nMemAvailable: %ju kB\n",
                                              row[TOTAL] / 1024, row[AVAILABLE] / 1024);
  g_autofree char *stat = g_strdup_printf ("total_inactive_file %ju\ntotal_active_file 0\n",
                                           row[CACHE]);

  llm_clock_set_for_test ((gint64) row[TIME_MS] * 1000 + G_USEC_PER_SEC);
  put (fixture, "proc/pressure/memory", stall);
  put (fixture, "proc/meminfo", meminfo);
  put (fixture, "sys/fs/cgroup/memory/app/memory.stat", stat);
  put_number (fixture, "sys/fs/cgroup/memory/app/memory.limit_in_bytes", row[LIMIT]);
  put_number (fixture, "sys/fs/cgroup/memory/app/memory.usage_in_bytes", row[USAGE]);
}

/* The reader looks for groups when it is made. */
static void
set_up_group (Fixture      *fixture,
              gconstpointer data)
{
  LlmGovernorConfig config = { .reacts = TRUE };

  set_up (fixture, data);
  put (fixture, "proc/self/cgroup", "4:memory:/app\n");
  put (fixture, "proc/self/mountinfo",
       "30 20 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  llm_governor_free (fixture->governor);
  config.root = fixture->root;
  fixture->governor = llm_governor_new (fixture->ledger, &config, on_wake, fixture);
  llm_ledger_remove (fixture->ledger, LLM_HOLDER_KV, fixture->kv);
  fixture->kv = 0;
}

/* Others press a little all the time: file pages that were given stay given, until it is calm, and
 * don't come and go by the second. */
static void
test_steady (Fixture      *fixture,
             gconstpointer data)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "..", "bench", "traces", "pressure",
                                                 "recorded-steady.txt", NULL);
  g_autofree char *text = NULL;
  g_auto(GStrv) lines = NULL;
  guint64 row[N_COLUMNS] = { 0 };
  guint n_rows = 0;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_auto(GStrv) fields = g_strsplit (lines[i], " ", -1);

      if (*lines[i] == '#' || g_strv_length (fields) != N_COLUMNS)
        continue;
      for (guint column = 0; column < N_COLUMNS; column++)
        row[column] = g_ascii_strtoull (fields[column], NULL, 10);
      put_row (fixture, row);
      look (fixture);
      n_rows++;
    }
  g_assert_cmpuint (n_rows, >, 70);
  /* only ever down */
  g_assert_cmpuint (fixture->n_changes, ==, 0);
  g_assert_cmpuint (fixture->pages, <, fixture->all_pages);

  /* the others go: after the calm period all comes back */
  row[USAGE] = row[CACHE] = 100 * MIB;
  for (guint second = 0; second < 30; second++)
    {
      row[TIME_MS] += 1000;
      put_row (fixture, row);
      look (fixture);
    }
  g_assert_cmpuint (fixture->pages, ==, fixture->all_pages);
  g_assert_cmpuint (fixture->n_changes, ==, 1);
  llm_clock_set_for_test (-1);
}

static guint64
get_held (gpointer holder)
{
  return *(guint64 *) holder;
}

static void
release (gpointer       holder,
         guint64        bytes,
         gint64         deadline_us,
         LlmReclaimDone done,
         gpointer       data)
{
  guint64 *held = holder;
  guint64 freed = MIN (bytes, *held);

  *held -= freed;
  done (freed, data);
}

/* To be asked for memory, and counted, a holder of a new kind has to register and nothing else. */
static void
test_new_holder (Fixture      *fixture,
                 gconstpointer data)
{
  guint64 held = 300 * MIB;
  LlmReclaimer reclaimer = { "new", LLM_RECLAIM_CHEAP, get_held, release, .holder = &held };

  llm_ledger_add_reclaimer (fixture->ledger, &reclaimer);
  g_assert_cmpuint (llm_ledger_get_reclaimable (fixture->ledger, LLM_RECLAIM_CHEAP), ==,
                    700 * MIB);
  llm_ledger_add (fixture->ledger, LLM_HOLDER_KV_COMPRESSED, held);
  put_available (fixture, 0);
  look (fixture);
  g_assert_cmpuint (held, ==, 0);
  g_assert_cmpuint (get_reclaimed (fixture, "new"), ==, 300 * MIB);
}

/* Switched off it looks, and does nothing. */
static void
test_off (Fixture      *fixture,
          gconstpointer data)
{
  put_available (fixture, 0);
  look (fixture);
  g_assert_cmpint (llm_governor_get_state (fixture->governor)->action.level, ==, LLM_PRESSURE_CRITICAL);
  g_assert_cmpuint (fixture->kv, ==, 400 * MIB);
  g_assert_true (llm_ledger_has_room (fixture->ledger, MIB));
  g_assert_cmpuint (fixture->n_looked, ==, 1);
}

/* A source wakes it. */
static void
test_source (Fixture      *fixture,
             gconstpointer data)
{
  llm_governor_start (fixture->governor);
  while (fixture->n_looked < 1)
    g_main_context_iteration (NULL, TRUE);
  /* and again, often when it is tight, and seldom when it is not */
  put_available (fixture, 0);
  while (fixture->n_looked < 5)
    g_main_context_iteration (NULL, TRUE);
  put_available (fixture, 4096 * MIB);
  while (fixture->n_looked < 7)
    g_main_context_iteration (NULL, TRUE);
}

int
main (int    argc,
      char **argv)
{
  const gpointer on = GINT_TO_POINTER (TRUE);

  g_test_init (&argc, &argv, NULL);
  g_test_add ("/governor/allowed", Fixture, on, set_up, test_allowed, tear_down);
  g_test_add ("/governor/gives", Fixture, on, set_up, test_gives, tear_down);
  g_test_add ("/governor/busy", Fixture, on, set_up, test_busy, tear_down);
  g_test_add ("/governor/lowered-while-busy", Fixture, on, set_up, test_lowered_while_busy, tear_down);
  g_test_add ("/governor/grows", Fixture, on, set_up, test_grows, tear_down);
  g_test_add ("/governor/new-holder", Fixture, on, set_up, test_new_holder, tear_down);
  g_test_add ("/governor/steady", Fixture, on, set_up_group, test_steady, tear_down);
  g_test_add ("/governor/off", Fixture, NULL, set_up, test_off, tear_down);
  g_test_add ("/governor/source", Fixture, on, set_up, test_source, tear_down);
  return g_test_run ();
}
