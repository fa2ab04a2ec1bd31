/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The only place that decides which caller may do what. The table of each interface names what a
 * method asks for; one that names nothing is refused. Properties are the same for all callers, or
 * of a caller's own objects; one that the interface does not list can't be read. Which contexts and
 * answers are a caller's own is one comparison, llm_caller_same_app(), that the look-ups of
 * LlmBusTreeKind make before it comes here. Main thread; polkit is asked asynchronously.
 */

#pragma once

#include "bus/objects/llm-bus-call.h"

G_BEGIN_DECLS

/* @error is NULL when the call may go on. */
typedef void (*LlmBusBouncerDecided) (const GError *error,
                                      gpointer      data);

/**
 * llm_bus_bouncer_check:
 * @bus: on a system's bus, polkit is asked
 * @interactive: whether the message allows that the user is asked
 * @decided: called once, at once when polkit need not be asked
 */
void     llm_bus_bouncer_check            (LlmBus               *bus,
                                           LlmCaller            *caller,
                                           const LlmBusInterface *interface,
                                           const LlmBusMethod   *method,
                                           gboolean              interactive,
                                           LlmBusBouncerDecided  decided,
                                           gpointer              data);

/* Whether what @caller stores under a name can be found again as its own: not when its application
 * is unknown. */
gboolean llm_bus_bouncer_may_keep         (LlmCaller            *caller,
                                           GError              **error)
                                           G_GNUC_WARN_UNUSED_RESULT;

/* Whether @caller may register an application id of the user @uid: not from a sandbox; of another user
 * only the endpoint. */
gboolean llm_bus_bouncer_may_register     (LlmCaller            *caller,
                                           guint32               uid,
                                           GError              **error)
                                           G_GNUC_WARN_UNUSED_RESULT;

/* Whether @caller may act on what belongs to the user @uid. */
gboolean llm_bus_bouncer_may_act_for      (LlmBus               *bus,
                                           LlmCaller            *caller,
                                           guint32               uid,
                                           GError              **error)
                                           G_GNUC_WARN_UNUSED_RESULT;

/* Whether @caller may see what belongs to all users. */
gboolean llm_bus_bouncer_is_administrator (LlmBus               *bus,
                                           LlmCaller            *caller);

G_END_DECLS
