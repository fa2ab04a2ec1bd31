/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What users, and the applications of each, were served, in µs of the machine's time. Users are
 * compared in all that they were served, whatever the class: their figures of all classes are the
 * same. An application is compared with those of the same user in the same class.
 *
 * A tree of depth two, which belongs to the scheduler and is of its thread.
 */

#pragma once

#include "base/llm-app.h"
#include "sched/llm-slo.h"

G_BEGIN_DECLS

typedef struct _LlmAccount LlmAccount;

struct _LlmAccount
{
  LlmAccount *parent;    /* (unowned) (nullable): NULL of that of all users */
  LlmApp *app;           /* (owned) (nullable): of an application */
  guint32 uid;           /* of a user */
  GHashTable *children;  /* (owned) (element-type LlmAccount): by uid, or by LlmApp */
  int n_calls;           /* of all classes, standing still or not: it must not go meanwhile */
  int n_active[LLM_N_SLO_CLASSES];     /* that are not suspended, and compete in the class */
  double served_us[LLM_N_SLO_CLASSES]; /* for calls that compete in it */

  /* of its children */
  double virtual_us[LLM_N_SLO_CLASSES]; /* where one begins that had not called */
  double charged_us[LLM_N_SLO_CLASSES]; /* since that was brought up to date */
  double least_us[LLM_N_SLO_CLASSES];   /* that one was served whose calls may run, as of the
                                         * scheduler's last look */

  double burst_us;       /* of the root: what one may be ahead before it is over its share */

  guint n_rows;          /* while a forecast is made, or decodes are chosen */
};

/* The root: of all users. */
LlmAccount *llm_account_new         (void);
void        llm_account_free        (LlmAccount        *self);
/* (transfer none): of the root, that of @app, made if it is not there; those that need not be
 * remembered go. Its parent is that of the user. */
LlmAccount *llm_account_get_app     (LlmAccount        *self,
                                     LlmApp            *app);
/* (nullable): only if it is there. */
LlmAccount *llm_account_find_user   (LlmAccount        *self,
                                     guint32            uid);
LlmAccount *llm_account_find_app    (LlmAccount        *self,
                                     const LlmApp      *app);
/* A call comes (@n is 1) and goes (-1), in this account and those above it; one of class
 * @slo_class begins or goes on, and is suspended or ends. */
void        llm_account_count_call  (LlmAccount        *self,
                                     int                n);
void        llm_account_count_active (LlmAccount       *self,
                                     LlmSloClass        slo_class,
                                     int                n);
void        llm_account_charge      (LlmAccount        *self,
                                     LlmSloClass        slo_class,
                                     double             us);
/* Brings virtual time up to date, of all. For the root. */
void        llm_account_settle      (LlmAccount        *self);
/* Where @self (nullable: not known) of @parent stands for a call that comes now. */
double      llm_account_get_served  (const LlmAccount  *self,
                                     const LlmAccount  *parent,
                                     LlmSloClass        slo_class);
/* As a look begins, for the root; and for each call that may run. */
void        llm_account_reset_least (LlmAccount        *self);
void        llm_account_note_call   (LlmAccount        *self,
                                     LlmSloClass        slo_class);
/* (nullable): of @self and those above it the highest that was served @lead_us more than another
 * whose calls may run. */
LlmAccount *llm_account_find_ahead  (LlmAccount        *self,
                                     LlmSloClass        slo_class,
                                     double             lead_us);
/* Whether the next one that comes would be so far behind @self, or one above it, that it should not
 * have to wait for the end of a step of its. */
gboolean    llm_account_is_apart    (const LlmAccount  *self,
                                     LlmSloClass        slo_class);
gboolean    llm_account_is_user     (const LlmAccount  *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmAccount, llm_account_free)

G_END_DECLS
