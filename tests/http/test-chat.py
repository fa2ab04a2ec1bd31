#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Chat completions: whole and as a stream, with tools and forms, and conversations whose beginning is kept."""
import json

import endpoint
import rig

QUESTION = "I want to find an Italian restaurant in San Jose."
TOOL = {"type": "function",
        "function": {"name": "GetWeather", "description": "Weather of a city",
                     "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                                    "required": ["city"]}}}


def test_models(http):
    status, _, models = http.ask("GET", "/v1/models")
    assert status == 200 and models["object"] == "list", models
    model = models["data"][0]
    assert model["id"] == "llmsvc-demo-8M-Q8_0" and model["context_length"] == 1024, model
    assert http.ask("GET", "/v1/models/" + model["id"])[2] == model
    endpoint.fails(http.ask("GET", "/v1/models/none"), 404, "“none”")
    assert http.ask("GET", "/health")[0] == 200


def test_answers(http):
    whole = http.chat([endpoint.user(QUESTION)], model="default", max_tokens=24)
    text = whole["choices"][0]["message"]["content"]
    assert whole["object"] == "chat.completion" and whole["model"] == "llmsvc-demo-8M-Q8_0", whole
    assert text and whole["choices"][0]["finish_reason"] in ("stop", "length"), whole
    assert whole["usage"]["total_tokens"] == \
        whole["usage"]["prompt_tokens"] + whole["usage"]["completion_tokens"], whole

    events = http.stream([endpoint.user(QUESTION)], max_tokens=24, stream_options={"include_usage": True})
    pieces = [event["choices"][0]["delta"].get("content", "") for event in events if event["choices"]]
    assert "".join(pieces) == text, events
    assert events[0]["choices"][0]["delta"]["role"] == "assistant", events[0]
    assert events[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"], events[-2]
    assert events[-1]["choices"] == [] and events[-1]["usage"]["completion_tokens"] == \
        whole["usage"]["completion_tokens"], events[-1]
    assert len({event["id"] for event in events}) == 1

    short = http.chat([endpoint.user(QUESTION)], max_completion_tokens=1)
    assert short["choices"][0]["finish_reason"] == "length", short
    stopped = http.chat([endpoint.user(QUESTION)], stop=text.split()[1])
    assert stopped["choices"][0]["message"]["content"] == text[:text.index(text.split()[1])], stopped
    told = http.chat([endpoint.user(QUESTION)], max_tokens=3, logprobs=True, top_logprobs=2)
    assert len(told["choices"][0]["logprobs"]["content"]) == 3, told
    assert len(told["choices"][0]["logprobs"]["content"][0]["top_logprobs"]) == 2, told


def test_forms(http):
    schema = {"type": "object", "properties": {"city": {"enum": ["Rome", "Paris"]}}, "required": ["city"],
              "additionalProperties": False}
    answer = http.chat([endpoint.user(QUESTION)],
                       response_format={"type": "json_schema", "json_schema": {"name": "c", "schema": schema}})
    assert json.loads(answer["choices"][0]["message"]["content"])["city"] in ("Rome", "Paris"), answer


def test_tools(http):
    messages = [endpoint.user("What is the weather like in Paris?")]
    whole = http.chat(messages, tools=[TOOL], tool_choice="required")
    choice = whole["choices"][0]
    call = choice["message"]["tool_calls"][0]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None, choice
    assert call["type"] == "function" and "city" in json.loads(call["function"]["arguments"]), call

    events = http.stream(messages, tools=[TOOL], tool_choice={"type": "function",
                                                              "function": {"name": "GetWeather"}})
    calls = [event["choices"][0]["delta"]["tool_calls"][0] for event in events
             if "tool_calls" in event["choices"][0]["delta"]]
    assert len(calls) == 1 and calls[0]["index"] == 0 and \
        calls[0]["function"]["name"] == "GetWeather", events
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls", events

    # what the tool said, and the call with it, as clients send them back
    messages += [choice["message"], {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}]
    after = http.chat(messages, tools=[TOOL], tool_choice="none")
    assert after["usage"]["prompt_tokens_details"]["cached_tokens"] >= \
        whole["usage"]["prompt_tokens"], after
    messages[-1]["tool_call_id"] = "another"
    endpoint.fails(http.ask("POST", "/v1/chat/completions", {"messages": messages}), 400, "tool_call_id")


def test_connection(http):
    """A connection serves one request after the other."""
    connection = http.connect()
    connection.connect()
    kept = connection.sock
    for streams in (False, True, False):
        body = {"messages": [endpoint.user(QUESTION)], "max_tokens": 3, "stream": streams}
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        reply = connection.getresponse()
        assert reply.status == 200 and reply.read(), reply.status
        assert connection.sock is kept, "the connection was closed"


def count_cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def count_contexts(http):
    apps = json.loads(http.rig.run("apps", "--json").output)["apps"]
    return next(app["contexts"] for app in apps if app["app-id"] == "org.llm.Http")


def go_on(messages, answer, text):
    return messages + [answer["choices"][0]["message"], endpoint.user(text)]


def test_conversations(http):
    """The beginning of a conversation is there already, also after either program has ended."""
    first = [{"role": "system", "content": "You help."}, endpoint.user(QUESTION)]
    answer = http.chat(first, max_tokens=20)
    second = go_on(first, answer, "For two people, please.")
    again = http.chat(second, max_tokens=20)
    n_before = answer["usage"]["total_tokens"]
    assert count_cached(again) >= n_before - 2, (answer, again)
    third = go_on(second, again, "At seven.")
    expected = http.chat(third, max_tokens=20)

    # another end of the same conversation begins anew, and leaves that alone
    other = http.chat(go_on(second, again, "At eight."), max_tokens=20)
    assert other["choices"], other

    http.stop()
    http.start()
    fourth = go_on(third, expected, "Thank you.")
    after = http.chat(fourth, max_tokens=20)
    assert count_cached(after) >= expected["usage"]["total_tokens"] - 2, (expected, after)
    http.rig.stop()
    http.rig.start()
    fifth = go_on(fourth, after, "Bye.")
    n_contexts = count_contexts(http)
    # what is sooner there, reading it back or computing it, is the service's choice
    http.chat(fifth, max_tokens=20)
    assert count_contexts(http) == n_contexts


def test_named(http):
    messages = [endpoint.user(QUESTION)]
    name = {"X-LLM-Context": "notes"}
    answer = http.chat(messages, name, max_tokens=8)
    later = http.chat(go_on(messages, answer, "And in Rome?"), name, max_tokens=8)
    assert count_cached(later) > 0, later
    body = {"messages": [endpoint.user("Something else")]}
    endpoint.fails(http.ask("POST", "/v1/chat/completions", body, name), 409, "“notes”")


def main():
    service = rig.Rig()
    try:
        http = endpoint.Endpoint(service)
        try:
            for test in (test_models, test_answers, test_forms, test_tools, test_connection, test_conversations,
                         test_named):
                print(test.__name__, flush=True)
                test(http)
        finally:
            http.stop()
    finally:
        service.close()


main()
