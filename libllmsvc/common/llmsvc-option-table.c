/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "common/llmsvc-option-table.h"

#include <glib/gi18n.h>
#include <string.h>

#define CALLS_CONTEXT_ANSWER (LLMSVC_CALL_GENERATE | LLMSVC_CALL_ASK)
#define CALLS_MADE           (LLMSVC_CALL_CREATE_CONTEXT | LLMSVC_CALL_FORK)
/* Whatever changes the prompt or the answer: counting takes the same options. */
#define CALLS_PROMPT         (LLMSVC_CALLS_ANSWER | LLMSVC_CALL_COUNT_TOKENS)

#define MAX_MS     86400000.0
#define MAX_TOKENS 16777216.0
#define MAX_UINT   4294967295.0
/* G_MAXUINT64 as a double rounds up to 2^64, which no guint64 exceeds. */
#define MAX_UINT64 18446744073709551615.0

static const char *const slo_choices[] = { "interactive", "responsive", "background", NULL };
static const char *const format_choices[] = { "text", "json", "json-schema", "regex", "grammar",
                                             NULL };
static const char *const overflow_choices[] = { "error", "slide", NULL };
static const char *const cancel_choices[] = { "discard", "keep", NULL };
static const char *const prefix_choices[] = { "exact", "any", NULL };
static const char *const draft_choices[] = { "auto", "off", "lookup", "own", NULL };
/* In the order of LlmPrefill. */
static const char *const prefill_choices[] = { "auto", "exact", "w8a8", NULL };
static const char *const thinking_choices[] = {
  "auto", "off", "on", "low", "medium", "high", NULL
};
static const char *const stream_choices[] = { "text", "jsonl", NULL };

/* `if-revision`, `request-id` and `on-cancel` speak of a context's turns, so
 * Complete doesn't take them: it has no context. `stream` needs a pipe. */
static const LlmsvcOptionInfo table[] = {
  { .id = LLMSVC_OPTION_SLO, .key = "slo", .type = "s",
    .calls = CALLS_PROMPT | CALLS_MADE | LLMSVC_CALL_PREWARM | LLMSVC_CALL_APPEND,
    .choices = slo_choices,
    .summary = N_("How soon the answer is wanted; for a new context, the default of its calls."),
    .keeps_result = TRUE, .since = 1 },
  { .id = LLMSVC_OPTION_TTFT_MS, .key = "ttft-ms", .type = "u", .calls = CALLS_PROMPT,
    .min = 1, .max = MAX_MS, .unit = "ms",
    .summary = N_("Time wanted from the call to the first token."),
    .keeps_result = TRUE, .since = 1 },
  { .id = LLMSVC_OPTION_TPOT_MS, .key = "tpot-ms", .type = "u", .calls = CALLS_PROMPT,
    .min = 1, .max = MAX_MS, .unit = "ms",
    .summary = N_("Time wanted for each further token."), .keeps_result = TRUE, .since = 1 },
  { .id = LLMSVC_OPTION_TTFT_SHARE, .key = "ttft-share", .type = "d", .calls = CALLS_PROMPT,
    .min = 0.01, .max = 1,
    .summary = N_("Time to the first token as a part of the full model's on this machine."),
    .feature = "slo-shares", .keeps_result = TRUE, .since = 1 },
  { .id = LLMSVC_OPTION_TPOT_SHARE, .key = "tpot-share", .type = "d", .calls = CALLS_PROMPT,
    .min = 0.01, .max = 1,
    .summary = N_("Time for each further token as a part of the full model's on this machine."),
    .feature = "slo-shares", .keeps_result = TRUE, .since = 1 },
  { .id = LLMSVC_OPTION_CALL_SHARE, .key = "call-share", .type = "d", .calls = CALLS_PROMPT,
    .min = 0.01, .max = 1,
    .summary = N_("Time for the whole call as a part of the full model's on this machine."),
    .feature = "slo-shares", .keeps_result = TRUE, .since = 6 },
  { .id = LLMSVC_OPTION_DEADLINE_MS, .key = "deadline-ms", .type = "u",
    .calls = CALLS_PROMPT | LLMSVC_CALL_APPEND | LLMSVC_CALL_TRIM,
    .min = 1, .max = MAX_MS, .unit = "ms",
    .summary = N_("The call ends this long after it came, finished or not."),
    .keeps_result = TRUE, .since = 1 },

  { .id = LLMSVC_OPTION_MAX_TOKENS, .key = "max-tokens", .type = "u",
    .calls = CALLS_PROMPT | CALLS_MADE,
    .min = 1, .max = MAX_TOKENS, .unit = "tokens",
    .summary = N_("The longest answer; for a new context, how many tokens it may hold."),
    .since = 1 },
  { .id = LLMSVC_OPTION_TEMPERATURE, .key = "temperature", .type = "d", .calls = CALLS_PROMPT,
    .min = 0, .max = 5,
    .summary = N_("How freely tokens are chosen; 0 always takes the most probable one."),
    .since = 1 },
  { .id = LLMSVC_OPTION_TOP_K, .key = "top-k", .type = "u", .calls = CALLS_PROMPT,
    .min = 0, .max = 2147483648.0,
    .summary = N_("Choose among so many of the most probable tokens; 0 for all."), .since = 1 },
  { .id = LLMSVC_OPTION_TOP_P, .key = "top-p", .type = "d", .calls = CALLS_PROMPT,
    .min = 0, .max = 1,
    .summary = N_("Choose among the most probable tokens that reach this probability together; "
               "0 leaves only the most probable one."), .since = 1 },
  { .id = LLMSVC_OPTION_MIN_P, .key = "min-p", .type = "d", .calls = CALLS_PROMPT,
    .min = 0, .max = 1,
    .summary = N_("Leave out tokens less probable than this part of the most probable one."),
    .since = 1 },
  { .id = LLMSVC_OPTION_REPEAT_PENALTY, .key = "repeat-penalty", .type = "d",
    .calls = CALLS_PROMPT, .min = 0.01, .max = 10,
    .summary = N_("Over 1 makes tokens that were used lately less probable; 1 changes nothing."),
    .since = 1 },
  { .id = LLMSVC_OPTION_FREQUENCY_PENALTY, .key = "frequency-penalty", .type = "d",
    .calls = CALLS_PROMPT, .min = -2, .max = 2,
    .summary = N_("Taken off a token's score for each time it was used."), .since = 1 },
  { .id = LLMSVC_OPTION_PRESENCE_PENALTY, .key = "presence-penalty", .type = "d",
    .calls = CALLS_PROMPT, .min = -2, .max = 2,
    .summary = N_("Taken off a token's score once it was used."), .since = 1 },
  { .id = LLMSVC_OPTION_LOGIT_BIAS, .key = "logit-bias", .type = "a{ud}", .calls = CALLS_PROMPT,
    .min = -100, .max = 100, .max_entries = 1024,
    .summary = N_("Added to the scores of single tokens, by token id."), .since = 1 },
  { .id = LLMSVC_OPTION_SEED, .key = "seed", .type = "t", .calls = CALLS_PROMPT,
    .min = 0, .max = MAX_UINT64,
    .summary = N_("Makes the random choices repeatable."), .since = 1 },

  { .id = LLMSVC_OPTION_STOP, .key = "stop", .type = "as", .calls = CALLS_PROMPT,
    .min = 1, .max = 256, .max_entries = 16,
    .summary = N_("The answer ends before the first of these strings."), .since = 1 },
  { .id = LLMSVC_OPTION_END_REPEATS, .key = "end-repeats", .type = "b", .calls = CALLS_PROMPT,
    .summary = N_("Whether an answer ends that says the same again and again."), .since = 6 },
  { .id = LLMSVC_OPTION_RESPONSE_FORMAT, .key = "response-format", .type = "s",
    .calls = CALLS_PROMPT, .choices = format_choices,
    .summary = N_("What the answer must look like."),
    .feature = "json-schema", .since = 1 },
  { .id = LLMSVC_OPTION_SCHEMA, .key = "schema", .type = "s", .calls = CALLS_PROMPT,
    .min = 1, .max = 1048576,
    .summary = N_("The JSON schema that the answer keeps to."),
    .feature = "json-schema", .since = 1 },
  { .id = LLMSVC_OPTION_GRAMMAR, .key = "grammar", .type = "s", .calls = CALLS_PROMPT,
    .min = 1, .max = 1048576,
    .summary = N_("The grammar that the answer keeps to."),
    .feature = "grammar", .since = 1 },
  { .id = LLMSVC_OPTION_REGEX, .key = "regex", .type = "s", .calls = CALLS_PROMPT,
    .min = 1, .max = 65536,
    .summary = N_("The regular expression that the whole answer matches."),
    .feature = "regex", .since = 6 },
  { .id = LLMSVC_OPTION_TOOLS, .key = "tools", .type = "s",
    .calls = CALLS_PROMPT | LLMSVC_CALL_APPEND, .min = 1, .max = 1048576,
    .summary = N_("The functions that the answer may call, as JSON."),
    .feature = "tools", .since = 6 },
  { .id = LLMSVC_OPTION_TOOL_CHOICE, .key = "tool-choice", .type = "s", .calls = CALLS_PROMPT,
    .min = 1, .max = 64,
    .summary = N_("Whether tools are called: auto, none, required, or the name of the one."),
    .feature = "tools", .since = 6 },
  { .id = LLMSVC_OPTION_PARALLEL_TOOLS, .key = "parallel-tools", .type = "b", .calls = CALLS_PROMPT,
    .summary = N_("Whether an answer may call several tools."),
    .feature = "tools", .since = 6 },
  { .id = LLMSVC_OPTION_STRICT, .key = "strict", .type = "b", .calls = CALLS_PROMPT,
    .summary = N_("Whether what a schema asks for and the service can't hold to is an error."),
    .feature = "json-schema", .since = 6 },
  { .id = LLMSVC_OPTION_THINKING, .key = "thinking", .type = "s",
    .calls = CALLS_PROMPT | LLMSVC_CALL_APPEND, .choices = thinking_choices,
    .takes_numbers = TRUE, .max = MAX_TOKENS,
    .summary = N_("Whether the model reasons before it answers, with which effort, or for how many "
                  "tokens at most."),
    .feature = "thinking", .since = 6 },
  { .id = LLMSVC_OPTION_TEMPLATE, .key = "template", .type = "s",
    .calls = CALLS_PROMPT | LLMSVC_CALL_APPEND, .min = 1, .max = 64,
    .summary = N_("Which of the model's chat templates, where its file has several."), .since = 6 },

  { .id = LLMSVC_OPTION_LOGPROBS, .key = "logprobs", .type = "u", .calls = CALLS_PROMPT,
    .min = 0, .max = LLMSVC_MAX_LOGPROBS,
    .summary = N_("Tells the log-probability of each token of the answer, and of so many of the "
                  "most probable ones in its place."),
    .feature = "logprobs", .since = 6 },
  { .id = LLMSVC_OPTION_CONTINUE, .key = "continue", .type = "b", .calls = CALLS_CONTEXT_ANSWER,
    .summary = N_("Goes on with the last answer of the context, without a new message."),
    .feature = "continue", .since = 6 },
  { .id = LLMSVC_OPTION_SUFFIX, .key = "suffix", .type = "s",
    .calls = LLMSVC_CALL_COMPLETE | LLMSVC_CALL_COUNT_TOKENS, .min = 0, .max = 1048576,
    .summary = N_("Writes what stands between the prompt and this text, for models that were "
                  "trained for it."),
    .feature = "infill", .since = 6 },

  { .id = LLMSVC_OPTION_SUB_MODEL, .key = "sub-model", .type = "u", .calls = CALLS_PROMPT,
    .min = 0, .max = 100, .unit = "percent",
    .summary = N_("The share of the model to use; 0 lets the service choose."),
    .feature = "sub-models", .since = 1 },
  { .id = LLMSVC_OPTION_LEAST_SUB_MODEL, .key = "least-sub-model", .type = "u",
    .calls = CALLS_PROMPT, .min = 20, .max = 100, .unit = "percent",
    .summary = N_("The smallest share of the model that may answer when a larger one would be "
                  "late."),
    .feature = "sub-models", .since = 6 },
  { .id = LLMSVC_OPTION_LEAST_QUALITY, .key = "least-quality", .type = "u",
    .calls = CALLS_PROMPT, .min = 0, .max = 100, .unit = "percent",
    .summary = N_("How good a part of the model must be that answers when a larger one would be late, in "
                  "percent of the whole one, as it was measured."),
    .feature = "sub-models", .since = 6 },
  { .id = LLMSVC_OPTION_ACTIVE, .key = "active", .type = "u", .calls = CALLS_PROMPT,
    .min = 0, .max = 80, .unit = "percent",
    .summary = N_("The share of the weights that each token of the answer leaves out, where its "
                  "values are small; 0 leaves out nothing."),
    .since = 6 },
  { .id = LLMSVC_OPTION_PROMPT_LEVEL, .key = "prompt-level", .type = "u", .calls = CALLS_PROMPT,
    .min = 0, .max = 100, .unit = "percent",
    .summary = N_("The share of the prompt to keep: words that tell least are left out, none of system "
                  "messages and tools; 0 keeps all."),
    .feature = "prompt-levels", .since = 1 },
  { .id = LLMSVC_OPTION_ON_OVERFLOW, .key = "on-overflow", .type = "s", .calls = CALLS_PROMPT,
    .choices = overflow_choices,
    .summary = N_("What happens to a text longer than the context: it fails, or the model goes on "
               "with its beginning and its newest part."),
    .feature = "sliding-window", .since = 1 },
  { .id = LLMSVC_OPTION_ON_CANCEL, .key = "on-cancel", .type = "s",
    .calls = CALLS_CONTEXT_ANSWER, .choices = cancel_choices,
    .summary = N_("Whether a cancelled answer stays in the context."),
    .keeps_result = TRUE, .since = 1 },
  { .id = LLMSVC_OPTION_DRAFT, .key = "draft", .type = "s", .calls = CALLS_PROMPT,
    .choices = draft_choices, .takes_names = TRUE, .min = 1, .max = 256,
    .summary = N_("What guesses the answer's next tokens, so that several are verified at once; "
                  "the text is the same. The id of a model is that configured draft."),
    .keeps_result = TRUE, .since = 5 },
  { .id = LLMSVC_OPTION_PREFILL, .key = "prefill", .type = "s",
    .calls = CALLS_PROMPT | LLMSVC_CALL_APPEND, .choices = prefill_choices,
    .summary = N_("How the prompt is computed: exactly, with 8 bits and one scale, or so where that is "
                  "faster and loses next to nothing."),
    .feature = "prefill", .since = 6 },

  { .id = LLMSVC_OPTION_IF_REVISION, .key = "if-revision", .type = "t",
    .calls = CALLS_CONTEXT_ANSWER | LLMSVC_CALL_ROLLBACK,
    .min = 0, .max = MAX_UINT64,
    .summary = N_("Do it only while the context has this revision."),
    .keeps_result = TRUE, .since = 1 },
  { .id = LLMSVC_OPTION_REQUEST_ID, .key = "request-id", .type = "s",
    .calls = CALLS_CONTEXT_ANSWER | LLMSVC_CALL_APPEND, .min = 1, .max = 128,
    .summary = N_("Names the request, so that sending it again does not do it twice."),
    .keeps_result = TRUE, .since = 1 },

  { .id = LLMSVC_OPTION_STREAM, .key = "stream", .type = "s", .calls = LLMSVC_CALL_GENERATE,
    .choices = stream_choices,
    .summary = N_("What the pipe carries: text alone, or lines of JSON."),
    .keeps_result = TRUE, .since = 1 },

  { .id = LLMSVC_OPTION_NAME, .key = "name", .type = "s", .calls = CALLS_MADE,
    .min = 1, .max = 128,
    .summary = N_("Keeps the context under this name, to be opened again later."), .since = 1 },
  { .id = LLMSVC_OPTION_CREATE, .key = "create", .type = "b",
    .calls = LLMSVC_CALL_OPEN_CONTEXT,
    .summary = N_("Makes the context when there is none of that name."), .since = 1 },
  { .id = LLMSVC_OPTION_EXACT, .key = "exact", .type = "b",
    .calls = CALLS_MADE | LLMSVC_CALL_OPEN_CONTEXT,
    .summary = N_("Its memory loses no bits when memory is short."), .since = 5 },
  { .id = LLMSVC_OPTION_SHARED_PREFIX, .key = "shared-prefix", .type = "s",
    .calls = CALLS_MADE | LLMSVC_CALL_OPEN_CONTEXT, .choices = prefix_choices,
    .summary = N_("Whether it may begin with what another context has compressed."), .since = 5 },
  { .id = LLMSVC_OPTION_SYSTEM, .key = "system", .type = "s",
    .calls = CALLS_MADE | LLMSVC_CALL_COMPLETE | LLMSVC_CALL_COUNT_TOKENS,
    .summary = N_("The system text, before all messages."), .since = 1 },
  { .id = LLMSVC_OPTION_MESSAGES, .key = "messages", .type = "a(ssa{sv})",
    .calls = CALLS_MADE | LLMSVC_CALL_COMPLETE,
    .summary = N_("Messages to start from: role, text and extras of each."), .since = 1 },
  { .id = LLMSVC_OPTION_RAW, .key = "raw", .type = "b",
    .calls = LLMSVC_CALL_COMPLETE | LLMSVC_CALL_COUNT_TOKENS,
    .summary = N_("Takes the prompt as it is, without the model's template."), .since = 1 },
  { .id = LLMSVC_OPTION_WAIT, .key = "wait", .type = "b", .calls = LLMSVC_CALL_APPEND,
    .summary = N_("Replies only when the text has been read in."),
    .keeps_result = TRUE, .since = 1 },

  { .id = LLMSVC_OPTION_BYTES, .key = "bytes", .type = "t", .calls = LLMSVC_CALL_SET_BUDGET,
    .min = 0, .max = MAX_UINT64, .unit = "bytes",
    .summary = N_("The most memory to hold; 0 lets the service decide."), .since = 1 },
  { .id = LLMSVC_OPTION_CONTEXT_RATIO, .key = "context-ratio", .type = "u",
    .calls = LLMSVC_CALL_SET_BUDGET, .min = 1, .max = 100, .unit = "percent",
    .summary = N_("What contexts that no call uses may take, of their bytes with 8 bits."),
    .since = 1 },
  { .id = LLMSVC_OPTION_APP_ID, .key = "app-id", .type = "s", .calls = LLMSVC_CALL_SET_BUDGET,
    .min = 0, .max = 255,
    .summary = N_("The application it is about, instead of the whole service."), .since = 1 },
  { .id = LLMSVC_OPTION_TARGET_BYTES, .key = "target-bytes", .type = "t",
    .calls = LLMSVC_CALL_TRIM, .min = 0, .max = MAX_UINT64, .unit = "bytes",
    .summary = N_("Enough when so much was given back."), .since = 1 },
  { .id = LLMSVC_OPTION_HOLD, .key = "hold", .type = "b", .calls = LLMSVC_CALL_TRIM,
    .summary = N_("Does not grow again until the caller leaves the bus."), .since = 1 },
  { .id = LLMSVC_OPTION_CONTEXTS, .key = "contexts", .type = "u",
    .calls = LLMSVC_CALL_SET_QUOTA, .min = 0, .max = MAX_UINT,
    .summary = N_("How many contexts the application may hold."), .since = 1 },
  { .id = LLMSVC_OPTION_TOKENS, .key = "tokens", .type = "t", .calls = LLMSVC_CALL_SET_QUOTA,
    .min = 0, .max = MAX_UINT64, .unit = "tokens",
    .summary = N_("How many tokens its contexts may hold together."), .since = 1 },
  { .id = LLMSVC_OPTION_CALLS, .key = "calls", .type = "u", .calls = LLMSVC_CALL_SET_QUOTA,
    .min = 0, .max = MAX_UINT,
    .summary = N_("How many of its calls may be under way at a time."), .since = 1 },
  { .id = LLMSVC_OPTION_DISK, .key = "disk", .type = "t", .calls = LLMSVC_CALL_SET_QUOTA,
    .min = 0, .max = MAX_UINT64, .unit = "bytes",
    .summary = N_("How much storage its contexts may take."), .since = 1 },
  { .id = LLMSVC_OPTION_SHARE, .key = "share", .type = "d", .calls = LLMSVC_CALL_SET_QUOTA,
    .min = 0, .max = 1,
    .summary = N_("The part of the context memory that it may fill."), .since = 1 },
  { .id = LLMSVC_OPTION_RATE, .key = "rate", .type = "u", .calls = LLMSVC_CALL_SET_QUOTA,
    .min = 0, .max = MAX_UINT,
    .summary = N_("How many calls it may make in a second."), .since = 4 },
  { .id = LLMSVC_OPTION_MESSAGE, .key = "message", .type = "t", .calls = LLMSVC_CALL_SET_QUOTA,
    .min = 0, .max = MAX_UINT64, .unit = "bytes",
    .summary = N_("How much text one of its calls may bring."), .since = 4 },
  { .id = LLMSVC_OPTION_ANSWER, .key = "answer", .type = "u", .calls = LLMSVC_CALL_SET_QUOTA,
    .min = 0, .max = MAX_UINT,
    .summary = N_("How many tokens one answer may have."), .since = 7 },
  { .id = LLMSVC_OPTION_NAMED, .key = "named", .type = "u", .calls = LLMSVC_CALL_SET_QUOTA,
    .min = 0, .max = MAX_UINT,
    .summary = N_("How many named contexts all applications of a user may hold together."),
    .since = 4 },
  { .id = LLMSVC_OPTION_APPS, .key = "apps", .type = "u", .calls = LLMSVC_CALL_SET_QUOTA,
    .min = 0, .max = MAX_UINT,
    .summary = N_("How many applications of a user may use the service."), .since = 4 },
  { .id = LLMSVC_OPTION_QUEUE, .key = "queue", .type = "u", .calls = LLMSVC_CALL_SET_QUOTA,
    .min = 0, .max = MAX_UINT,
    .summary = N_("How many calls of all applications of a user may be under way at a time."),
    .since = 4 },
  { .id = LLMSVC_OPTION_UID, .key = "uid", .type = "u",
    .calls = LLMSVC_CALL_SET_QUOTA | LLMSVC_CALL_REGISTER,
    .min = 0, .max = MAX_UINT,
    .summary = N_("The user whose application it is, for the administrator."), .since = 4 },
};
G_STATIC_ASSERT (G_N_ELEMENTS (table) == LLMSVC_N_OPTIONS);

#define ADVICE_ENERGY N_("no energy of a single call can be measured here; ttft-share, tpot-share " \
                         "and call-share take parts of its time")
#define ADVICE_N N_("make as many calls, each with a seed of its own; where they go on from one " \
                    "context, each in a fork of it")

static const LlmsvcForeignKey foreign_options[] = {
  { "tools", "tools", NULL },
  { "tool-choice", "tools", "none" },
  { "parallel-tool-calls", "parallel-tool-calls", NULL },
  { "functions", "functions", NULL },
  { "function-call", "functions", "none" },
  { "json-schema", "json-schema", NULL },
  { "energy", "slo-energy", NULL, ADVICE_ENERGY },
  { "energy-share", "slo-energy", NULL, ADVICE_ENERGY },
  { "energy-mj", "slo-energy", NULL, ADVICE_ENERGY },
  { "image", "images", NULL },
  { "images", "images", NULL },
  { "audio", "audio", NULL },
  { "video", "video", NULL },
  { "n", "choices", "1", ADVICE_N },
  { "best-of", "choices", "1", ADVICE_N },
  { "logprobs", "logprobs", NULL, N_("only calls that answer take it") },
  { "top-logprobs", "logprobs", "0", N_("the option “logprobs” takes this number") },
  { "suffix", "infill", NULL, N_("only Complete() and CountTokens() take it") },
  { "min-tokens", "min-tokens", "0" },
  { "ignore-eos", "min-tokens", NULL },
  { "typical-p", "samplers", "1" },
  { "mirostat", "samplers", "0" },
  { "reasoning-effort", "thinking", "none", N_("the option “thinking” takes the level") },
  { "lora", "adapters", NULL },
};

/* What a message says beside its text that this service does not know. */
static const LlmsvcForeignKey foreign_extras[] = {
  { "image", "images", NULL },
  { "images", "images", NULL },
  { "image-url", "images", NULL },
  { "audio", "audio", NULL },
  { "input-audio", "audio", NULL },
  { "video", "video", NULL },
  { "file", "files", NULL },
  { "files", "files", NULL },
  { "content", "content-parts", NULL },
  { "function-call", "functions", NULL },
};

const LlmsvcOptionInfo *
llmsvc_option_get_info (LlmsvcOption id)
{
  if ((guint) id >= LLMSVC_N_OPTIONS)
    return NULL;

  return &table[id];
}

const LlmsvcOptionInfo *
llmsvc_option_find (const char *key)
{
  g_return_val_if_fail (key != NULL, NULL);

  for (gsize i = 0; i < G_N_ELEMENTS (table); i++)
    if (strcmp (table[i].key, key) == 0)
      return &table[i];

  return NULL;
}

static const LlmsvcForeignKey *
find_foreign (const LlmsvcForeignKey *keys,
              gsize                   n_keys,
              const char             *key)
{
  g_autofree char *dashed = g_strdelimit (g_strdup (key), "_", '-');

  for (gsize i = 0; i < n_keys; i++)
    if (strcmp (keys[i].key, dashed) == 0)
      return &keys[i];

  return NULL;
}

const LlmsvcForeignKey *
llmsvc_option_find_foreign (const char *key,
                            guint       calls)
{
  g_return_val_if_fail (key != NULL, NULL);

  if ((calls & (CALLS_PROMPT | CALLS_MADE | LLMSVC_CALL_APPEND)) == 0)
    return NULL;

  return find_foreign (foreign_options, G_N_ELEMENTS (foreign_options), key);
}

const LlmsvcForeignKey *
llmsvc_extra_find_foreign (const char *key)
{
  g_return_val_if_fail (key != NULL, NULL);

  return find_foreign (foreign_extras, G_N_ELEMENTS (foreign_extras), key);
}

gboolean
llmsvc_foreign_key_is_asked (const LlmsvcForeignKey *self,
                             GVariant               *value)
{
  g_autofree char *text = NULL;

  g_return_val_if_fail (self != NULL && value != NULL, FALSE);

  if (g_variant_is_container (value))
    return g_variant_n_children (value) > 0;

  text = g_variant_is_of_type (value, G_VARIANT_TYPE_STRING) ? g_variant_dup_string (value, NULL)
         : g_variant_is_of_type (value, G_VARIANT_TYPE_DOUBLE)
           ? g_strdup_printf ("%g", g_variant_get_double (value))
           : g_variant_print (value, FALSE);
  return *text != '\0' && strcmp (text, "false") != 0 && g_strcmp0 (text, self->neutral) != 0;
}
