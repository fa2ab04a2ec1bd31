/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The tables of the context database, and how older ones become today's. Database thread. */

#pragma once

#include "contexts/llm-db.h"

G_BEGIN_DECLS

/* Creates the tables of a new database, or adds to an older one what is new. Fails with STORAGE
 * for a database of a newer service. After a failure, closing @db leaves it as it was. */
gboolean llm_db_schema_prepare (sqlite3 *db,
                                GError **error);

G_END_DECLS
