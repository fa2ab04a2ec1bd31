/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Named contexts in the database: transactions for llm_db_run_async(), each
 * with the data it takes and fills in. They run on the database's thread and
 * touch nothing but their data.
 */

#pragma once

#include "accounts/llm-db.h"
#include "contexts/llm-conversation.h"

G_BEGIN_DECLS

/* As options allow them. */
#define LLM_STORED_MAX_NAME_BYTES 128

/* Bits: what was chosen for a context when it was made or opened, and what it has. */
typedef enum
{
  LLM_CONTEXT_EXACT = 1,          /* see LLMSVC_OPTION_EXACT */
  LLM_CONTEXT_SHARES_ANY = 2,     /* see LLMSVC_OPTION_SHARED_PREFIX */
  LLM_CONTEXT_TOOK_QUANTIZED = 4, /* its texts were computed from chunks that another quantized */
  LLM_CONTEXT_ALL_TRAITS = 7,
} LlmContextTraits;

/* One context as stored. */
typedef struct
{
  char *id;
  guint32 uid;
  char *app;
  char *name;
  guint64 revision;
  gint64 created;          /* seconds since 1970 */
  gint64 used;
  guint max_tokens;        /* 0: as many as the model has */
  char *slo;
  LlmContextTraits traits;
  guint n_turns;
  guint n_tokens;          /* as counted by the model */
  char *counted_by;        /* (nullable): of this identity; NULL: an estimate */
  guint64 bytes;           /* of text and tokens */
  char *damage;            /* (nullable): it can't be used, as what is stored of it is damaged. A
                            * copy of the database as it was found has this path; "": none has */
  LlmConversation *turns;  /* (nullable) */

  /* of a change: */
  guint dropped;           /* the first of n_turns whose tokens go; G_MAXUINT: none */
  LlmTurn *added;          /* (nullable) (unowned): a turn behind them */
} LlmStoredContext;

typedef struct
{
  guint32 uid;
  char *app;
  char *key;
  double value;
} LlmStoredQuota;

/* What is read once, at start. */
typedef struct
{
  GPtrArray *contexts;     /* (element-type LlmStoredContext) (owned): without turns */
  GPtrArray *quotas;       /* (element-type LlmStoredQuota) (owned) */
  char *model;             /* (nullable): id of the model chosen by SelectModel */
  guint n_damaged;         /* contexts found damaged now */
  guint n_unowned;         /* contexts of which it can't be told whose they are: left out */
  guint n_bad_settings;    /* quotas and settings that make no sense: left out */
  gboolean is_corrupt;     /* SQLite can't read it all: see llm_db_salvage_file() */
} LlmStoredIndex;

LlmStoredContext *llm_stored_context_new  (void);
void              llm_stored_context_free (LlmStoredContext *self);
/* 128 random bits as text that may be part of an object path. */
char             *llm_stored_context_new_id (void);
LlmStoredIndex   *llm_stored_index_new    (void);
void              llm_stored_index_free   (LlmStoredIndex   *self);
LlmStoredQuota   *llm_stored_quota_new    (guint32           uid,
                                           const char       *app,
                                           const char       *key,
                                           double            value);
void              llm_stored_quota_free   (LlmStoredQuota   *self);
/* For llm_db_new(). */
extern const LlmDbSchema llm_context_schema;

/* --- llm-context-index.c --- */

/* What makes no sense costs what it is part of and no more. */
gboolean llm_store_load_index     (sqlite3 *db, gpointer index, GError **error);

/* --- llm-context-load.c --- */

/* Fills in @self of a row that begins with all columns of its table, but for whose it is. FALSE
 * when something of it is damaged: it has the nearest numbers then, and NULL for bad text. */
gboolean llm_stored_context_read  (LlmStoredContext *self, sqlite3_stmt *row);
/* Fills in context->turns, or sets context->damage and fails with STORAGE. Tokens that are damaged
 * are left out where the text is good. */
gboolean llm_store_load_turns     (sqlite3 *db, gpointer context, GError **error);

/* --- llm-context-store.c --- */

/* With its turns. Fails with ALREADY_EXISTS when the name is taken. */
gboolean llm_store_insert_context (sqlite3 *db, gpointer context, GError **error);
/* @id: a string. */
gboolean llm_store_delete_context (sqlite3 *db, gpointer id, GError **error);
/* @context: how it is afterwards: id, revision, used, how many turns are kept, and what changes. */
gboolean llm_store_change         (sqlite3 *db, gpointer context, GError **error);
/* @context: what a model counted: id, n_turns, n_tokens and counted_by. */
gboolean llm_store_set_count      (sqlite3 *db, gpointer context, GError **error);
/* @context: id and traits. Nothing happens to one that was closed. */
gboolean llm_store_set_traits     (sqlite3 *db, gpointer context, GError **error);
gboolean llm_store_set_quota      (sqlite3 *db, gpointer quota, GError **error);
/* @id: a string. */
gboolean llm_store_set_model      (sqlite3 *db, gpointer id, GError **error);

/* --- llm-checksum.c: of rows, as columns beside them: SQLite notices a page that is no page, but
 * not a bit that flipped in a text. Any thread. --- */

/* Of user and application: whose the context is. */
gint64 llm_checksum_of_owner   (const LlmStoredContext *context);
/* Of the rest of its row. */
gint64 llm_checksum_of_context (const LlmStoredContext *context);
/* Of what a turn says; @results (nullable) and @extras (element-type utf8), those of its messages,
 * as they are stored. */
gint64 llm_checksum_of_turn    (const char             *context,
                                gint64                  number,
                                const LlmTurn          *turn,
                                const char             *results,
                                const GPtrArray        *extras);
/* Of the tokens of a turn, which can be made again from what it says. */
gint64 llm_checksum_of_tokens  (const char             *context,
                                gint64                  number,
                                const LlmTurn          *turn);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmStoredContext, llm_stored_context_free)

G_END_DECLS
