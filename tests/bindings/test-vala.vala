// SPDX-License-Identifier: LGPL-2.1-or-later

// libllmsvc as Vala sees it, against the real service: the argument is “model” or “mock”.

async Llmsvc.Client make_client () throws Error {
    return yield new Llmsvc.Client (BusType.NONE, "org.llm.TestVala", null);
}

Llmsvc.Options greedy () {
    return new Llmsvc.Options () { temperature = 0, max_tokens = 24 };
}

async string read_all (Llmsvc.Generation generation) throws Error {
    var text = new StringBuilder ();
    string? piece;
    while ((piece = yield generation.next_async (null)) != null)
        text.append (piece);
    return text.str;
}

async void test_options () throws Error {
    var options = new Llmsvc.Options () {
        max_tokens = 64, temperature = 0.25, slo = "background", stop = { "END" }
    };
    assert (options.max_tokens == 64);
    assert (options.stop[0] == "END");
    var sent = options.to_variant ();
    assert (sent.lookup_value ("slo", VariantType.STRING).get_string () == "background");
    options.unset ("slo");
    assert (options.get_value ("slo") == null);
    options.set_from_string ("top-k", "40");
    assert (options.top_k == 40);
    try {
        options.set_value ("temperature", new Variant.string ("hot"));
        assert_not_reached ();
    } catch (Llmsvc.Error.INVALID_OPTION error) {
        assert (error.message != "");
    }
}

async void test_client () throws Error {
    var client = yield make_client ();
    yield client.prewarm_async ();
    yield client.refresh_async ();
    assert (client.availability == Llmsvc.Availability.READY);
    foreach (var feature in client.features)
        assert (client.has_feature (feature));
    ListModel models = client.models;
    assert (models.get_n_items () == 1);
    var model = (Llmsvc.Model) models.get_item (0);
    assert (model.context_length == 1024);
    assert (client.active_model.id == model.id);
}

async void test_answer () throws Error {
    var client = yield make_client ();
    var answer = yield client.complete_async ("Find me a comedy movie.", greedy (), null);
    assert (answer.text.length > 10);
    assert (answer.finish_reason == Llmsvc.FinishReason.STOP ||
            answer.finish_reason == Llmsvc.FinishReason.LENGTH);
    assert (answer.ignored.length == 0);
    assert (client.complete_sync ("Find me a comedy movie.", greedy (), null).text == answer.text);
    var options = greedy ();
    options.draft = "lookup";
    var drafted = yield client.complete_async ("Find me a comedy movie.", options, null);
    assert (drafted.text == answer.text);
    assert (drafted.passes > 0 && drafted.accepted_tokens <= drafted.drafted_tokens);

    var context = yield client.create_context_async (null, null);
    var generation = yield context.prompt_async ("Find me a comedy movie.", greedy (), null);
    var text = yield read_all (generation);
    assert (text == generation.answer.text);
    assert ((yield generation.finish_async (null)).text == text);
}

async void test_memory () throws Error {
    var client = yield make_client ();
    var context = yield client.create_context_async (null, null);
    yield context.ask_async ("Find me a comedy movie.", greedy (), null);
    var memory = yield context.get_memory_async (null);
    assert (memory.residency == context.residency);
    assert (memory.n_chunks > 0);
    assert (memory.memory_bytes > 0);
    assert (memory.get_chunk_bits (0) > 0);
    assert (memory.get_chunk_place (0) != Llmsvc.ChunkPlace.UNKNOWN);
    assert (context.get_memory_sync (null).tokens == memory.tokens);
}

async void test_messages () throws Error {
    var client = yield make_client ();
    Llmsvc.Message[] messages = {
        new Llmsvc.Message (Llmsvc.ROLE_SYSTEM, "Be short."),
        new Llmsvc.Message (Llmsvc.ROLE_USER, "Hello!"),
    };
    uint tokens;
    yield client.count_tokens_async (messages, null, null, out tokens);
    assert (tokens > 0);
    var context = yield client.create_context_async (null, null);
    yield read_all (yield context.generate_async (messages, greedy (), null));
    Llmsvc.Message[] more = { new Llmsvc.Message (Llmsvc.ROLE_USER, "Bye.") };
    yield context.append_async (more, new Llmsvc.Options () { wait = true }, null, out tokens);
    assert (tokens > 0);
    var listed = yield context.list_messages_async (null);
    assert (listed.length == 4);
    assert (listed[3].role == "user" && listed[3].text == "Bye.");
}

async void test_named_context () throws Error {
    var client = yield make_client ();
    try {
        yield client.open_context_async ("vala", null, null);
        assert_not_reached ();
    } catch (Llmsvc.Error.NOT_FOUND error) {
        assert (error.message != "");
    }
    var options = new Llmsvc.Options () { create = true };
    var context = yield client.open_context_async ("vala", options, null);
    var answer = yield context.ask_async ("Hello!", greedy (), null);
    var other = yield make_client ();
    var again = yield other.open_context_async ("vala", null, null);
    var listed = yield again.list_messages_async (null);
    assert (listed.length == 2 && listed[1].text == answer.text);
    yield context.close_async (null);
    assert (context.is_closed);
}

async void test_cancel () throws Error {
    var client = yield make_client ();
    var context = yield client.create_context_async (null, null);
    var options = new Llmsvc.Options () { on_cancel = "keep" };
    var generation = yield context.prompt_async ("slow", options, null);
    var first = yield generation.next_async (null);
    yield generation.cancel_async (null);
    yield read_all (generation);
    assert (generation.answer.finish_reason == Llmsvc.FinishReason.CANCELLED);
    assert (generation.answer.text.has_prefix (first));
}

async void test_cancellable () throws Error {
    var client = yield make_client ();
    var cancellable = new Cancellable ();
    Timeout.add (50, () => {
        cancellable.cancel ();
        return Source.REMOVE;
    });
    try {
        yield client.complete_async ("slow", null, cancellable);
        assert_not_reached ();
    } catch (Llmsvc.Error.CANCELLED error) {
        assert (error.message != "");
    }
}

async void run_all (bool is_mock) throws Error {
    if (is_mock) {
        yield test_cancel ();
        yield test_cancellable ();
        return;
    }
    yield test_options ();
    yield test_client ();
    yield test_answer ();
    yield test_memory ();
    yield test_messages ();
    yield test_named_context ();
}

int main (string[] args) {
    var status = 0;
    var loop = new MainLoop ();
    run_all.begin (args[1] == "mock", (_, result) => {
        try {
            run_all.end (result);
        } catch (Error error) {
            printerr ("%s: %s\n", error.domain.to_string (), error.message);
            status = 1;
        }
        loop.quit ();
    });
    loop.run ();
    return status;
}
