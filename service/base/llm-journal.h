/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Records with fields for the system's journal, for programs that count and search, in its own
 * protocol: one datagram each. Never waits: when the journal does not keep up, or there are too
 * many, records are dropped and the next one says how many. The sender must make sure that a record
 * holds no text of users. One thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define LLM_JOURNAL_SOCKET "/run/systemd/journal/socket"

typedef struct
{
  const char *name;    /* A–Z, 0–9 and _ */
  char *value;         /* (nullable): NULL leaves the field out */
} LlmJournalField;

typedef struct _LlmJournal LlmJournal;

/* @path: (nullable): the socket of a journal; NULL for the system's, when stderr goes there,
 * and otherwise none. */
LlmJournal *llm_journal_new  (const char            *path);
void        llm_journal_free (LlmJournal            *self);

/* Whether records go to a journal at all. */
gboolean    llm_journal_is_connected (LlmJournal    *self);

/* Sends @message with @fields, up to the one without a name. FALSE when it was dropped, or
 * there is no journal. */
gboolean    llm_journal_send (LlmJournal            *self,
                              const char            *message,
                              const LlmJournalField *fields);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmJournal, llm_journal_free)

G_END_DECLS
