#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Responses and completions, whole and as a stream."""
import json

import endpoint
import rig

QUESTION = "I want to find an Italian restaurant in San Jose."
TOOL = {"type": "function", "name": "GetWeather", "strict": True,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
                       "additionalProperties": False}}


def respond(http, **members):
    status, _, response = http.ask("POST", "/v1/responses", {"temperature": 0, **members})
    assert status == 200 and response["object"] == "response", response
    return response


def read_events(http, **members):
    """Their types in order, and all of them; each one's number and name are checked."""
    connection = http.connect()
    connection.request("POST", "/v1/responses", json.dumps({"temperature": 0, "stream": True, **members}))
    lines = [part for part in connection.getresponse().read().decode().split("\n\n")
             if part and not part.startswith(":")]
    events = []
    for number, part in enumerate(lines):
        name, data = part.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == "event: " + event["type"] and event["sequence_number"] == number, part
        events.append(event)
    return events


def get_text(response):
    return "".join(part["text"] for item in response["output"] if item["type"] == "message"
                   for part in item["content"])


def test_text(http):
    whole = respond(http, input=QUESTION, instructions="You help.", max_output_tokens=400)
    assert whole["status"] == "completed" and get_text(whole), whole
    assert whole["usage"]["total_tokens"] == \
        whole["usage"]["input_tokens"] + whole["usage"]["output_tokens"], whole
    cut = respond(http, input=QUESTION, max_output_tokens=2)
    assert cut["status"] == "incomplete" and \
        cut["incomplete_details"] == {"reason": "max_output_tokens"}, cut

    events = read_events(http, input=QUESTION, instructions="You help.", max_output_tokens=400)
    kinds = [event["type"] for event in events]
    assert kinds[:4] == ["response.created", "response.in_progress", "response.output_item.added",
                         "response.content_part.added"], kinds
    assert kinds[-4:] == ["response.output_text.done", "response.content_part.done",
                          "response.output_item.done", "response.completed"], kinds
    pieces = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(pieces) == get_text(whole) == get_text(events[-1]["response"]), events

    parts = [{"role": "developer", "content": "You help."},
             {"type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION}]}]
    assert get_text(respond(http, input=parts, max_output_tokens=400)) == get_text(whole)


def test_tools(http):
    items = [endpoint.user("What is the weather like in Paris?")]
    call = respond(http, input=items, tools=[TOOL], tool_choice="required")["output"][0]
    assert call["type"] == "function_call" and "city" in json.loads(call["arguments"]), call
    events = read_events(http, input=items, tools=[TOOL],
                         tool_choice={"type": "function", "name": "GetWeather"})
    done = [event for event in events if event["type"] == "response.function_call_arguments.done"]
    assert len(done) == 1 and json.loads(done[0]["arguments"]), events
    assert events[-1]["response"]["output"][0]["type"] == "function_call", events[-1]
    items += [{"type": "reasoning", "id": "rs_1", "summary": []}, call,
              {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}]
    after = respond(http, input=items, tools=[TOOL], tool_choice="none", max_output_tokens=8)
    assert after["usage"]["input_tokens_details"]["cached_tokens"] > 0, after


def test_form(http):
    schema = {"type": "object", "properties": {"city": {"enum": ["Rome", "Paris"]}}, "required": ["city"],
              "additionalProperties": False}
    response = respond(http, input=QUESTION,
                       text={"format": {"type": "json_schema", "name": "c", "schema": schema}})
    assert json.loads(get_text(response))["city"] in ("Rome", "Paris"), response


def test_refused(http):
    for members, part in (({"input": 5}, "“input”"), ({}, "“input”"),
                          ({"input": "x", "previous_response_id": "resp_1"}, "“previous_response_id”"),
                          ({"input": "x", "background": True}, "“background”"),
                          ({"input": "x", "tools": [{"type": "web_search"}]}, "tools[0]"),
                          ({"input": [{"type": "image_generation_call"}]}, "input[0]"),
                          ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "“input_image”")):
        endpoint.fails(http.ask("POST", "/v1/responses", members), 400, part)


def complete(http, **members):
    return http.ask("POST", "/v1/completions", {"prompt": "Once upon a time", "temperature": 0, **members})


def test_completions(http):
    status, _, whole = complete(http, max_tokens=8)
    assert status == 200 and whole["object"] == "text_completion", whole
    assert whole["choices"][0]["text"] and whole["usage"]["completion_tokens"] <= 8, whole
    assert complete(http)[2]["usage"]["completion_tokens"] <= 16
    connection = http.connect()
    connection.request("POST", "/v1/completions", json.dumps(
        {"prompt": ["Once upon a time"], "temperature": 0, "max_tokens": 8, "stream": True}))
    lines = connection.getresponse().read().decode().split("\n\n")
    assert json.loads(lines[0].removeprefix("data: "))["choices"][0]["text"] == \
        whole["choices"][0]["text"], lines
    assert lines[-2:] == ["data: [DONE]", ""], lines
    endpoint.fails(complete(http, prompt=[1, 2]), 400, "“prompt”")
    endpoint.fails(complete(http, echo=True), 400, "“echo”")
    endpoint.fails(complete(http, best_of=3), 400, "“best_of”")
    endpoint.fails(complete(http, suffix="the end"), 400, "suffix")


def main():
    service = rig.Rig()
    try:
        http = endpoint.Endpoint(service)
        try:
            for test in (test_text, test_tools, test_form, test_refused, test_completions):
                print(test.__name__, flush=True)
                test(http)
        finally:
            http.stop()
    finally:
        service.close()


main()
