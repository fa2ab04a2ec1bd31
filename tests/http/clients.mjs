// SPDX-License-Identifier: LGPL-2.1-or-later
// Clients that others wrote, unchanged, at the endpoint: what of each works. Run by clients.sh.
import OpenAI from "openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { ChatOpenAI } from "@langchain/openai";
import { tool as makeTool } from "@langchain/core/tools";
import { generateObject, generateText, streamText, tool } from "ai";
import { z } from "zod";

const [baseURL, apiKey] = process.argv.slice(2);
const HELLO = "Hello, how are you?";
const QUESTION = [{ role: "user", content: "What is the weather like in Paris?" }];
const PARAMETERS = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const WEATHER = { type: "function", function: { name: "GetWeather", parameters: PARAMETERS } };
const CITY = z.object({ city: z.enum(["Rome", "Paris"]) });
const common = { model: "default", temperature: 0 };
let failed = 0;

/** @f returns what must be true. */
async function attempt(name, f) {
  try {
    if (!await f())
      throw new Error("the answer is not what it should be");
    console.log(`ok ${name}`);
  } catch (error) {
    failed++;
    console.log(`not ok ${name}: ${String(error).slice(0, 300)}`);
  }
}

async function join(pieces, read) {
  let text = "";
  for await (const piece of pieces)
    text += read(piece) ?? "";
  return text;
}

const openai = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
await attempt("openai: models", async () => (await openai.models.list()).data[0].id);
await attempt("openai: chat", async () =>
  (await openai.chat.completions.create({ ...common, messages: [{ role: "user", content: HELLO }] }))
    .choices[0].message.content);
await attempt("openai: stream", async () =>
  join(await openai.chat.completions.create({ ...common, stream: true, messages: QUESTION }),
    event => event.choices[0]?.delta?.content));
await attempt("openai: tools", async () =>
  (await openai.chat.completions.create({ ...common, messages: QUESTION, tools: [WEATHER], tool_choice: "required" }))
    .choices[0].message.tool_calls[0].function.name === "GetWeather");
await attempt("openai: responses", async () =>
  (await openai.responses.create({ ...common, input: HELLO })).output_text);
await attempt("openai: responses, stream", async () =>
  (await openai.responses.stream({ ...common, input: HELLO }).finalResponse()).output_text);
await attempt("openai: completions", async () =>
  (await openai.completions.create({ ...common, prompt: "Once upon a time", max_tokens: 8 })).choices[0].text);
await attempt("openai: abort", async () => {
  const stream = await openai.chat.completions.create({ ...common, stream: true, messages: QUESTION });
  for await (const event of stream) {
    stream.controller.abort();
    return event.choices;
  }
});

const provider = createOpenAICompatible({
  name: "llmsvc", baseURL, apiKey, includeUsage: true, supportsStructuredOutputs: true,
});
const ai = { model: provider("default"), temperature: 0, maxRetries: 0 };
const tools = {
  GetWeather: tool({ inputSchema: z.object({ city: z.string() }), execute: async ({ city }) => `sunny in ${city}` }),
};
await attempt("ai: chat", async () => (await generateText({ ...ai, prompt: HELLO })).usage.totalTokens > 0);
await attempt("ai: stream", async () => {
  const result = streamText({ ...ai, prompt: HELLO });
  return await join(result.textStream, text => text) && (await result.usage).totalTokens > 0;
});
await attempt("ai: tools", async () =>
  (await generateText({ ...ai, messages: QUESTION, toolChoice: "required", tools })).toolResults[0].output);
await attempt("ai: tools, stream", async () =>
  (await streamText({ ...ai, messages: QUESTION, toolChoice: "required", tools }).toolResults)[0].output);
await attempt("ai: form", async () =>
  (await generateObject({ ...ai, prompt: "A table in Rome", schema: CITY })).object.city);
await attempt("ai: completions", async () =>
  (await generateText({ ...ai, model: provider.completionModel("default"), prompt: "Once upon a time",
    maxOutputTokens: 8 })).text);

const langchain = new ChatOpenAI({ ...common, apiKey, maxRetries: 0, configuration: { baseURL } });
const weather = makeTool(({ city }) => `sunny in ${city}`, { name: "GetWeather", schema: z.object({ city: z.string() }) });
await attempt("langchain: chat", async () => (await langchain.invoke(HELLO)).content);
await attempt("langchain: stream", async () => join(await langchain.stream(HELLO), piece => piece.content));
await attempt("langchain: tools", async () =>
  (await langchain.bindTools([weather], { tool_choice: "required" }).invoke(QUESTION)).tool_calls[0].args.city);
await attempt("langchain: form", async () => (await langchain.withStructuredOutput(CITY).invoke("A table in Rome")).city);
await attempt("langchain: responses", async () =>
  (await new ChatOpenAI({ ...common, apiKey, useResponsesApi: true, configuration: { baseURL } })
    .invoke(HELLO)).content);

process.exit(failed > 0 ? 1 : 0);
