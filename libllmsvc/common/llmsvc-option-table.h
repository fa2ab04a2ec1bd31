/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The table of options: the one list of every option of every method, with its
 * type, range, help and the calls that take it. The service checks calls
 * against it; the library, the command line and the docs are made from it. Any
 * thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The calls that take options, as bits. */
typedef enum
{
  LLMSVC_CALL_GENERATE       = 1 << 0,
  LLMSVC_CALL_ASK            = 1 << 1,
  LLMSVC_CALL_COMPLETE       = 1 << 2,
  LLMSVC_CALL_COUNT_TOKENS   = 1 << 3,
  LLMSVC_CALL_PREWARM        = 1 << 4,
  LLMSVC_CALL_CREATE_CONTEXT = 1 << 5,
  LLMSVC_CALL_OPEN_CONTEXT   = 1 << 6,
  LLMSVC_CALL_LIST_CONTEXTS  = 1 << 7,
  LLMSVC_CALL_APPEND         = 1 << 8,
  LLMSVC_CALL_GET_MESSAGES   = 1 << 9,
  LLMSVC_CALL_ROLLBACK       = 1 << 10,
  LLMSVC_CALL_FORK           = 1 << 11,
  LLMSVC_CALL_CLOSE          = 1 << 12,
  LLMSVC_CALL_CANCEL         = 1 << 13,
  LLMSVC_CALL_REGISTER       = 1 << 14,
  LLMSVC_CALL_SELECT_MODEL   = 1 << 15,
  LLMSVC_CALL_GET_STATISTICS = 1 << 16,
  LLMSVC_CALL_SET_BUDGET     = 1 << 17,
  LLMSVC_CALL_TRIM           = 1 << 18,
  LLMSVC_CALL_LIST_APPS      = 1 << 19,
  LLMSVC_CALL_SET_QUOTA      = 1 << 20,
  LLMSVC_CALL_GET_MEMORY     = 1 << 21,
} LlmsvcCall;

/* Alternatives of a token that a call may ask for, as in OpenAI's API. */
#define LLMSVC_MAX_LOGPROBS 20

#define LLMSVC_CALLS_ANSWER (LLMSVC_CALL_GENERATE | LLMSVC_CALL_ASK | LLMSVC_CALL_COMPLETE)

typedef enum
{
  /* timing */
  LLMSVC_OPTION_SLO,
  LLMSVC_OPTION_TTFT_MS,
  LLMSVC_OPTION_TPOT_MS,
  LLMSVC_OPTION_TTFT_SHARE,
  LLMSVC_OPTION_TPOT_SHARE,
  LLMSVC_OPTION_CALL_SHARE,
  LLMSVC_OPTION_DEADLINE_MS,
  /* sampling */
  LLMSVC_OPTION_MAX_TOKENS,
  LLMSVC_OPTION_TEMPERATURE,
  LLMSVC_OPTION_TOP_K,
  LLMSVC_OPTION_TOP_P,
  LLMSVC_OPTION_MIN_P,
  LLMSVC_OPTION_REPEAT_PENALTY,
  LLMSVC_OPTION_FREQUENCY_PENALTY,
  LLMSVC_OPTION_PRESENCE_PENALTY,
  LLMSVC_OPTION_LOGIT_BIAS,
  LLMSVC_OPTION_SEED,
  /* shape */
  LLMSVC_OPTION_STOP,
  LLMSVC_OPTION_END_REPEATS,
  LLMSVC_OPTION_RESPONSE_FORMAT,
  LLMSVC_OPTION_SCHEMA,
  LLMSVC_OPTION_GRAMMAR,
  LLMSVC_OPTION_REGEX,
  LLMSVC_OPTION_TOOLS,
  LLMSVC_OPTION_TOOL_CHOICE,
  LLMSVC_OPTION_PARALLEL_TOOLS,
  LLMSVC_OPTION_STRICT,
  LLMSVC_OPTION_THINKING,
  LLMSVC_OPTION_TEMPLATE,
  /* what is told, and where the answer begins */
  LLMSVC_OPTION_LOGPROBS,
  LLMSVC_OPTION_CONTINUE,
  LLMSVC_OPTION_SUFFIX,
  /* quality */
  LLMSVC_OPTION_SUB_MODEL,
  LLMSVC_OPTION_LEAST_SUB_MODEL,
  LLMSVC_OPTION_LEAST_QUALITY,
  LLMSVC_OPTION_ACTIVE,
  LLMSVC_OPTION_PROMPT_LEVEL,
  LLMSVC_OPTION_ON_OVERFLOW,
  LLMSVC_OPTION_ON_CANCEL,
  LLMSVC_OPTION_DRAFT,
  LLMSVC_OPTION_PREFILL,
  /* safety */
  LLMSVC_OPTION_IF_REVISION,
  LLMSVC_OPTION_REQUEST_ID,
  /* stream */
  LLMSVC_OPTION_STREAM,
  /* contexts and single answers */
  LLMSVC_OPTION_NAME,
  LLMSVC_OPTION_CREATE,
  LLMSVC_OPTION_EXACT,
  LLMSVC_OPTION_SHARED_PREFIX,
  LLMSVC_OPTION_SYSTEM,
  LLMSVC_OPTION_MESSAGES,
  LLMSVC_OPTION_RAW,
  LLMSVC_OPTION_WAIT,
  /* administration */
  LLMSVC_OPTION_BYTES,
  LLMSVC_OPTION_CONTEXT_RATIO,
  LLMSVC_OPTION_APP_ID,
  LLMSVC_OPTION_TARGET_BYTES,
  LLMSVC_OPTION_HOLD,
  LLMSVC_OPTION_CONTEXTS,
  LLMSVC_OPTION_TOKENS,
  LLMSVC_OPTION_CALLS,
  LLMSVC_OPTION_DISK,
  LLMSVC_OPTION_SHARE,
  LLMSVC_OPTION_RATE,
  LLMSVC_OPTION_MESSAGE,
  LLMSVC_OPTION_ANSWER,
  LLMSVC_OPTION_NAMED,
  LLMSVC_OPTION_APPS,
  LLMSVC_OPTION_QUEUE,
  LLMSVC_OPTION_UID,
  LLMSVC_N_OPTIONS
} LlmsvcOption;

typedef struct
{
  LlmsvcOption id;
  const char *key;             /* "max-tokens" */
  const char *type;            /* D-Bus type: "u", "d", "as", "a(ssa{sv})" */
  guint calls;                 /* LlmsvcCall bits */
  double min;                  /* of numbers, both ends included; of strings without choices */
  double max;                  /* and of each string of `as`, their bytes (max 0: no limit here) */
  guint max_entries;           /* of `as` and `a{ud}`; 0 elsewhere */
  const char *const *choices;  /* (nullable): the strings allowed, NULL-terminated */
  gboolean takes_names;        /* and other ones, which name something: from min to max bytes */
  gboolean takes_numbers;      /* and whole numbers, also as a D-Bus number: from min to max */
  const char *unit;            /* (nullable): "ms", "bytes", "percent", "tokens" */
  const char *summary;         /* one sentence for people, to be translated where it is shown */
  const char *feature;         /* (nullable): the name in `Features` that must be there for it,
                                * or for those of its values that need the ability */
  gboolean keeps_result;       /* it does not change what is answered or added: a request that is
                                * sent again may have another value of it */
  guint since;                 /* the ApiVersion that brought it */
} LlmsvcOptionInfo;

/* An option, or an extra of a message, that callers know from other services of this kind and that
 * changes the result. This one has it not: left out silently it would give another result. */
typedef struct
{
  const char *key;
  const char *feature;         /* the name in `Features` that will be there with it */
  const char *neutral;         /* (nullable): the value that changes nothing, as text; false and
                                * what is empty change nothing either */
  const char *advice;          /* (nullable): what to do instead; to be translated */
} LlmsvcForeignKey;

/* Every option, in the order of LlmsvcOption; NULL for an id out of range. */
const LlmsvcOptionInfo *llmsvc_option_get_info   (LlmsvcOption id);
/* (nullable): the option with this key. */
const LlmsvcOptionInfo *llmsvc_option_find       (const char   *key);
/* (nullable): the foreign option with this key, for one of @calls; “_” is read as “-”. */
const LlmsvcForeignKey *llmsvc_option_find_foreign (const char *key,
                                                    guint       calls);
/* (nullable): the same of an extra of a message. */
const LlmsvcForeignKey *llmsvc_extra_find_foreign (const char  *key);
/* Whether @value, given for @self, changes the result. */
gboolean                llmsvc_foreign_key_is_asked (const LlmsvcForeignKey *self,
                                                     GVariant               *value);

G_END_DECLS
