/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The only place that decides who may do what. Tables name what each method
 * asks for, and which properties can be read; what they do not name is refused. Which contexts and
 * answers are a caller's own is one comparison, of LlmCaller.app, that LlmBusTree makes before
 * it comes here. Main thread; polkit is asked asynchronously.
 */

#pragma once

#include "bus/llm-bus.h"

G_BEGIN_DECLS

#define LLM_TYPE_BUS_BOUNCER (llm_bus_bouncer_get_type ())
G_DECLARE_FINAL_TYPE (LlmBusBouncer, llm_bus_bouncer, LLM, BUS_BOUNCER, GObject)

/* @error is NULL when the call may go on. */
typedef void (*LlmBusBouncerDecided) (const GError *error,
                                      gpointer      data);

/* @connection: where polkit is asked, when @is_system. */
LlmBusBouncer *llm_bus_bouncer_new              (GDBusConnection      *connection,
                                                 gboolean              is_system);

/**
 * llm_bus_bouncer_check:
 * @interactive: whether the message allows that the user is asked
 * @decided: called once, at once when polkit need not be asked
 */
void           llm_bus_bouncer_check            (LlmBusBouncer        *self,
                                                 LlmCaller            *caller,
                                                 const char           *interface,
                                                 const char           *method,
                                                 gboolean              interactive,
                                                 LlmBusBouncerDecided  decided,
                                                 gpointer              data);

/* Whether what @caller stores under a name can be found again as its own: not
 * when nobody knows which application it is. */
gboolean       llm_bus_bouncer_may_keep         (LlmBusBouncer        *self,
                                                 LlmCaller            *caller,
                                                 GError              **error)
                                                 G_GNUC_WARN_UNUSED_RESULT;

/* Whether @caller may say which application it is: not from a sandbox. */
gboolean       llm_bus_bouncer_may_register     (LlmBusBouncer        *self,
                                                 LlmCaller            *caller,
                                                 GError              **error)
                                                 G_GNUC_WARN_UNUSED_RESULT;

/* Whether @caller may act on what belongs to the user @uid. */
gboolean       llm_bus_bouncer_may_act_for      (LlmBusBouncer        *self,
                                                 LlmCaller            *caller,
                                                 guint32               uid,
                                                 GError              **error)
                                                 G_GNUC_WARN_UNUSED_RESULT;

/* Whether a property may be read, which all may or nobody. */
gboolean       llm_bus_bouncer_check_property   (const char           *interface,
                                                 const char           *property,
                                                 GError              **error)
                                                 G_GNUC_WARN_UNUSED_RESULT;

/* Whether @caller may see what belongs to all users. */
gboolean       llm_bus_bouncer_is_administrator (LlmBusBouncer        *self,
                                                 LlmCaller            *caller);

G_END_DECLS
