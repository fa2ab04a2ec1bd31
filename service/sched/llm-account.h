/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Service that users, and the applications of each, received, in µs of the machine's time. Users
 * are compared in all their service, whatever the class: their figures of all classes are the same.
 * An application is compared with those of the same user in the same class.
 *
 * A tree of depth two, which belongs to the scheduler and to its thread.
 */

#pragma once

#include "base/llm-app.h"
#include "sched/llm-slo.h"

G_BEGIN_DECLS

typedef struct _LlmAccount LlmAccount;

struct _LlmAccount
{
  LlmAccount *parent;    /* (unowned) (nullable): NULL for the root */
  LlmApp *app;           /* (owned) (nullable): of an application */
  guint32 uid;           /* of a user */
  GHashTable *children;  /* (owned) (element-type LlmAccount): by uid, or by LlmApp */
  int n_calls;           /* of all classes, suspended or not: it must not be forgotten meanwhile */
  int n_active[LLM_N_SLO_CLASSES];     /* that are not suspended, and compete in the class */
  double served_us[LLM_N_SLO_CLASSES]; /* for calls that compete in it */

  /* of its children */
  double virtual_us[LLM_N_SLO_CLASSES]; /* where a child without calls begins */
  double charged_us[LLM_N_SLO_CLASSES]; /* since virtual_us was updated */
  double least_us[LLM_N_SLO_CLASSES];   /* the least service of a child whose calls may run, as of
                                         * the scheduler's last look */

  double burst_us;       /* of the root: by how much a child may be ahead before it is over its
                          * share */

  guint n_rows;          /* while a forecast is made, or decodes are chosen */
};

/* The root: of all users. */
LlmAccount *llm_account_new         (void);
void        llm_account_free        (LlmAccount        *self);
/* (transfer none): the account of @app below the root, made if needed; accounts that can be
 * forgotten are removed. Its parent is that of the user. */
LlmAccount *llm_account_get_app     (LlmAccount        *self,
                                     LlmApp            *app);
/* (nullable): NULL when it does not exist. */
LlmAccount *llm_account_find_user   (LlmAccount        *self,
                                     guint32            uid);
LlmAccount *llm_account_find_app    (LlmAccount        *self,
                                     const LlmApp      *app);
/* Counts a call that begins (@n is 1) or ends (-1), in this account and those above it; the second
 * counts one of class @slo_class that becomes active, or is suspended or ends. */
void        llm_account_count_call  (LlmAccount        *self,
                                     int                n);
void        llm_account_count_active (LlmAccount       *self,
                                     LlmSloClass        slo_class,
                                     int                n);
void        llm_account_charge      (LlmAccount        *self,
                                     LlmSloClass        slo_class,
                                     double             us);
/* Updates virtual time of all accounts. For the root. */
void        llm_account_settle      (LlmAccount        *self);
/* Service of @self (nullable: unknown) of @parent, as it counts for a call that arrives now. */
double      llm_account_get_served  (const LlmAccount  *self,
                                     const LlmAccount  *parent,
                                     LlmSloClass        slo_class);
/* Resets least_us at the beginning of a look, for the root; the second notes each call that may
 * run. */
void        llm_account_reset_least (LlmAccount        *self);
void        llm_account_note_call   (LlmAccount        *self,
                                     LlmSloClass        slo_class);
/* (nullable): of @self and those above it the highest that was served @lead_us more than another
 * whose calls may run. */
LlmAccount *llm_account_find_ahead  (LlmAccount        *self,
                                     LlmSloClass        slo_class,
                                     double             lead_us);
/* Whether the next new child would be so far behind @self, or an account above it, that it should
 * not wait for the end of one of its steps. */
gboolean    llm_account_is_apart    (const LlmAccount  *self,
                                     LlmSloClass        slo_class);
gboolean    llm_account_is_user     (const LlmAccount  *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmAccount, llm_account_free)

G_END_DECLS
