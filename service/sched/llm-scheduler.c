/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sched/llm-scheduler.h"

/* A call that got nothing for so many turns goes before all others once:
 * background work yields, but it is not starved. */
#define STARVED_TURNS 16

typedef struct
{
  char *key;
  guint n_tickets;
  guint64 served;       /* rows; a newcomer starts at the least of those present */
} App;

struct _LlmTicket
{
  App *app;             /* (unowned) */
  LlmSloClass slo_class;
  guint n_prompt;       /* rows still to be read; 0: it writes */
  gboolean is_parked;
  guint64 arrival;      /* running number */
  guint64 last_turn;    /* that served it, or when it arrived */
  gpointer data;
};

struct _LlmScheduler
{
  guint max_rows;
  GPtrArray *tickets;   /* (element-type LlmTicket) (owned) */
  GHashTable *apps;     /* (element-type utf8 App) (owned) */
  guint64 n_arrived;
  guint64 turn;
  guint64 class_turn[LLM_N_SLO_CLASSES];  /* when readers of each had one last */
};

static void
app_free (App *app)
{
  g_free (app->key);
  g_free (app);
}

LlmScheduler *
llm_scheduler_new (guint max_rows)
{
  LlmScheduler *self = g_new0 (LlmScheduler, 1);

  g_assert (max_rows > 0);
  self->max_rows = max_rows;
  self->tickets = g_ptr_array_new_with_free_func (g_free);
  self->apps = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, (GDestroyNotify) app_free);
  return self;
}

void
llm_scheduler_set_rows (LlmScheduler *self,
                        guint         max_rows)
{
  g_assert (max_rows > 0);
  self->max_rows = max_rows;
}

void
llm_scheduler_free (LlmScheduler *self)
{
  g_ptr_array_unref (self->tickets);
  g_hash_table_unref (self->apps);
  g_free (self);
}

static guint64
find_least_served (LlmScheduler *self)
{
  guint64 least = G_MAXUINT64;
  GHashTableIter iter;
  App *app;

  g_hash_table_iter_init (&iter, self->apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &app))
    least = MIN (least, app->served);
  return least == G_MAXUINT64 ? 0 : least;
}

LlmTicket *
llm_scheduler_add (LlmScheduler *self,
                   const char   *app_key,
                   LlmSloClass   slo_class,
                   guint         n_prompt,
                   gpointer      data)
{
  App *app = g_hash_table_lookup (self->apps, app_key);
  LlmTicket *ticket = g_new0 (LlmTicket, 1);

  if (app == NULL)
    {
      app = g_new0 (App, 1);
      app->key = g_strdup (app_key);
      app->served = find_least_served (self);
      g_hash_table_insert (self->apps, app->key, app);
    }
  app->n_tickets++;

  ticket->app = app;
  ticket->slo_class = slo_class;
  ticket->n_prompt = n_prompt;
  ticket->arrival = self->n_arrived++;
  ticket->last_turn = self->turn;
  ticket->data = data;
  g_ptr_array_add (self->tickets, ticket);
  return ticket;
}

void
llm_scheduler_remove (LlmScheduler *self,
                      LlmTicket    *ticket)
{
  App *app = ticket->app;

  if (!g_ptr_array_remove (self->tickets, ticket))
    g_assert_not_reached ();
  if (--app->n_tickets == 0)
    g_hash_table_remove (self->apps, app->key);
}

gpointer
llm_ticket_get_data (LlmTicket *ticket)
{
  return ticket->data;
}

guint
llm_ticket_get_n_prompt (LlmTicket *ticket)
{
  return ticket->n_prompt;
}

void
llm_ticket_set_n_prompt (LlmTicket *ticket,
                         guint      n_prompt)
{
  ticket->n_prompt = n_prompt;
}

void
llm_ticket_set_parked (LlmTicket *ticket,
                       gboolean   is_parked)
{
  ticket->is_parked = is_parked;
}

static gboolean
is_starved (LlmScheduler    *self,
            const LlmTicket *ticket)
{
  guint64 last = ticket->last_turn;

  if (ticket->n_prompt > 0)
    last = MAX (last, self->class_turn[ticket->slo_class]);
  return self->turn - last > STARVED_TURNS;
}

static int
compare_tickets (gconstpointer a,
                 gconstpointer b,
                 gpointer      data)
{
  const LlmTicket *left = *(LlmTicket *const *) a;
  const LlmTicket *right = *(LlmTicket *const *) b;
  LlmScheduler *self = data;
  int starved = is_starved (self, right) - is_starved (self, left);

  if (starved != 0)
    return starved;
  if (left->slo_class != right->slo_class)
    return left->slo_class < right->slo_class ? -1 : 1;
  if (left->app->served != right->app->served)
    return left->app->served < right->app->served ? -1 : 1;
  if (left->last_turn != right->last_turn)
    return left->last_turn < right->last_turn ? -1 : 1;
  return left->arrival < right->arrival ? -1 : 1;
}

guint
llm_scheduler_plan_writers (LlmScheduler *self,
                            LlmShare     *shares,
                            guint         n_max_shares)
{
  guint n_shares = 0;

  g_ptr_array_sort_with_data (self->tickets, compare_tickets, self);
  for (guint i = 0; i < self->tickets->len && n_shares < MIN (n_max_shares, self->max_rows); i++)
    {
      LlmTicket *ticket = g_ptr_array_index (self->tickets, i);

      if (!ticket->is_parked && ticket->n_prompt == 0)
        shares[n_shares++] = (LlmShare) { ticket, 1 };
    }

  if (n_shares > 0)
    self->turn++;
  return n_shares;
}

guint
llm_scheduler_plan_readers (LlmScheduler *self,
                            LlmSloClass   slo_class,
                            LlmShare     *shares,
                            guint         n_max_shares)
{
  guint n_shares = 0;
  guint n_rows = self->max_rows;

  g_ptr_array_sort_with_data (self->tickets, compare_tickets, self);
  for (guint i = 0; i < self->tickets->len && n_shares < n_max_shares && n_rows > 0; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (self->tickets, i);
      guint n = MIN (ticket->n_prompt, n_rows);

      if (ticket->is_parked || ticket->slo_class != slo_class || n == 0)
        continue;
      shares[n_shares++] = (LlmShare) { ticket, n };
      n_rows -= n;
    }
  return n_shares;
}

gboolean
llm_scheduler_choose_class (LlmScheduler *self,
                            LlmSloClass  *slo_class)
{
  g_ptr_array_sort_with_data (self->tickets, compare_tickets, self);
  for (guint i = 0; i < self->tickets->len; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (self->tickets, i);

      if (ticket->is_parked || ticket->n_prompt == 0)
        continue;
      *slo_class = ticket->slo_class;
      return TRUE;
    }
  return FALSE;
}

void
llm_scheduler_note_turn (LlmScheduler *self,
                         LlmSloClass   slo_class)
{
  self->class_turn[slo_class] = ++self->turn;
}

void
llm_scheduler_charge (LlmScheduler   *self,
                      const LlmShare *share)
{
  LlmTicket *ticket = share->ticket;

  ticket->app->served += share->n_rows;
  ticket->last_turn = self->turn;
  if (ticket->n_prompt > 0)
    {
      g_assert (share->n_rows <= ticket->n_prompt);
      ticket->n_prompt -= share->n_rows;
    }
}
