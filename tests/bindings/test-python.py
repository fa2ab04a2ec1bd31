#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""libllmsvc as Python sees it, against the real service.

    test-python.py model            with the demo model
    test-python.py mock             with mock.json, as the others
    test-python.py closing-bus      closes the connection of a search
    test-python.py closing-client   closes that of a client
"""

import sys
import threading
import unittest

import gi

gi.require_version("Llmsvc", "1")
from gi.repository import Gio, GLib, GObject, Llmsvc

GREEDY = {"temperature": 0, "max_tokens": 24}


def make_client():
    return Llmsvc.Client.new_sync(Gio.BusType.NONE, "org.llm.TestPython", None)


def iterate_until(is_done):
    """Runs the main loop until something has happened, or not for far too long."""
    late = []
    timeout = GLib.timeout_add_seconds(60, late.append, True)
    while not is_done() and not late:
        GLib.MainContext.default().iteration(True)
    if not late:
        GLib.source_remove(timeout)


class ModelTest(unittest.TestCase):
    """With the demo model."""

    @classmethod
    def setUpClass(cls):
        cls.client = make_client()
        cls.client.prewarm_sync(None, None)  # else it may still be loading
        cls.client.refresh_sync(None)

    def assert_fails(self, code, function, *arguments):
        with self.assertRaises(GLib.Error) as caught:
            function(*arguments)
        self.assertTrue(caught.exception.matches(Llmsvc.error_quark(), code), caught.exception)
        self.assertNotEqual(caught.exception.message, "")

    def run_async(self, begin, finish, *arguments):
        loop = GLib.MainLoop()
        results = []

        def on_ready(_source, result, *_):
            results.append(result)
            loop.quit()

        begin(*arguments, on_ready)
        loop.run()
        return finish(results[0])

    def test_options(self):
        options = Llmsvc.Options(max_tokens=64, temperature=0.25, slo="background",
                                 stop=["\n\n", "END"], seed=2 ** 63)
        self.assertEqual(options.props.max_tokens, 64)
        self.assertEqual(options.props.stop, ["\n\n", "END"])
        self.assertEqual(options.to_variant().unpack(),
                         {"max-tokens": 64, "temperature": 0.25, "slo": "background",
                          "stop": ["\n\n", "END"], "seed": 2 ** 63})
        self.assertEqual(options.get_value("slo").unpack(), "background")
        self.assertIsNone(options.get_value("top-k"))
        options.set_value("top-k", GLib.Variant("u", 40))
        options.set_from_string("min-p", "0.5")
        options.require("json-schema")
        copy = options.copy()
        options.unset("slo")
        self.assertIsNone(options.get_value("slo"))
        self.assertEqual(copy.to_variant().unpack()["require"], ["json-schema"])
        self.assertEqual(copy.props.min_p, 0.5)
        self.assert_fails(Llmsvc.Error.INVALID_OPTION, options.set_value, "temperature",
                          GLib.Variant("s", "hot"))
        self.assert_fails(Llmsvc.Error.INVALID_OPTION, options.set_from_string, "max-tokens", "0")

    def test_tool_result(self):
        call = '{"id": "abc", "type": "function", "function": {"name": "f", "arguments": "{}"}}'
        message = Llmsvc.Message.new_tool_result(call, '{"x": 1}')
        self.assertEqual((message.props.role, message.props.text), ("tool", '{"x": 1}'))
        self.assertEqual(message.props.extras.unpack(), {"tool-call-id": "abc", "name": "f"})
        for wrong in ("", "[]", '{"id": "abc"}', '{"id": 1, "function": {"name": "f"}}'):
            self.assert_fails(Llmsvc.Error.INVALID_ARGUMENT, Llmsvc.Message.new_tool_result, wrong, "")

    def test_client(self):
        self.assertEqual(self.client.props.availability, Llmsvc.Availability.READY)
        self.assertEqual(self.client.props.bus_type, Gio.BusType.SESSION)
        self.assertIsInstance(self.client.props.connection, Gio.DBusConnection)
        self.assertGreaterEqual(self.client.props.api_version, 1)
        for feature in self.client.props.features:
            self.assertTrue(self.client.has_feature(feature))
        self.assertFalse(self.client.has_feature("telepathy"))

    def test_models(self):
        models = self.client.props.models
        self.assertIsInstance(models, Gio.ListModel)
        self.assertEqual(models.get_item_type(), Llmsvc.Model.__gtype__)
        self.assertEqual(len(models), 1)
        self.assertIsInstance(models[0], Llmsvc.Model)
        self.assertEqual(models[0].props.context_length, 1024)
        self.assertEqual(models[0].props.architecture, "llama")
        self.assertIn("architecture", models[0].props.info.unpack())
        self.assertEqual(self.client.props.active_model.props.id, models[0].props.id)

    def test_answer(self):
        answer = self.client.complete_sync("Find me a comedy movie.", Llmsvc.Options(**GREEDY),
                                           None)
        self.assertGreater(len(answer.props.text), 10)
        self.assertIn(answer.props.finish_reason,
                      (Llmsvc.FinishReason.STOP, Llmsvc.FinishReason.LENGTH))
        self.assertGreater(answer.props.output_tokens, 0)
        self.assertEqual(answer.props.model_id, self.client.props.active_model.props.id)
        self.assertEqual(answer.props.ignored, [])
        self.assertEqual(answer.props.results.unpack()["output-tokens"],
                         answer.props.output_tokens)
        again = self.run_async(self.client.complete_async, self.client.complete_finish,
                               "Find me a comedy movie.", Llmsvc.Options(**GREEDY), None)
        self.assertEqual(again.props.text, answer.props.text)

    def test_drafts(self):
        prompt = "Red, green, blue. Red, green, blue. Red, green, blue. Red, green,"
        plain = self.client.complete_sync(prompt, Llmsvc.Options(raw=True, **GREEDY), None)
        options = Llmsvc.Options(raw=True, draft="lookup", **GREEDY)
        self.assertEqual(options.props.draft, "lookup")
        answer = self.client.complete_sync(prompt, options, None)
        self.assertEqual(answer.props.text, plain.props.text)
        self.assertEqual(answer.props.ignored, [])
        results = answer.props.results.unpack()
        self.assertEqual([answer.props.drafted_tokens, answer.props.accepted_tokens,
                          answer.props.passes],
                         [results["drafted-tokens"], results["accepted-tokens"],
                          results["passes"]])
        self.assertGreater(answer.props.passes, 0)
        self.assertEqual(plain.props.passes, 0)
        self.assert_fails(Llmsvc.Error.INVALID_OPTION, self.client.complete_sync, prompt,
                          Llmsvc.Options(draft="no-such-model"), None)

    def test_ignored(self):
        options = Llmsvc.Options(**GREEDY)
        options.set_value("colour", GLib.Variant("s", "red"))
        answer = self.client.complete_sync("Hello!", options, None)
        self.assertEqual(answer.props.ignored, ["colour"])
        options.require("colour")
        self.assert_fails(Llmsvc.Error.UNSUPPORTED, self.client.complete_sync, "Hello!", options,
                          None)

    def test_stream(self):
        context = self.client.create_context_sync(None, None)
        generation = context.prompt_sync("Find me a comedy movie.", Llmsvc.Options(**GREEDY), None)
        self.assertEqual(generation.props.context, context)
        self.assertIsNone(generation.props.answer)
        self.assertNotEqual(generation.props.request_id, "")
        pieces = []
        while (piece := generation.next_sync(None)) is not None:
            pieces.append(piece)
        self.assertGreater(len(pieces), 1)
        self.assertTrue(generation.props.is_done)
        self.assertEqual(generation.props.answer.props.text, "".join(pieces))
        self.assertEqual(generation.finish_sync(None).props.text, "".join(pieces))

        other = self.client.create_context_sync(None, None)
        generation = other.prompt_sync("Find me a comedy movie.", Llmsvc.Options(**GREEDY), None)
        stream = generation.get_input_stream()
        self.assertIsInstance(stream, Gio.InputStream)
        text = b""
        while (chunk := stream.read_bytes(16, None)).get_size() > 0:
            text += chunk.get_data()
        self.assertEqual(text.decode(), "".join(pieces))

    def test_messages(self):
        messages = [Llmsvc.Message.new(Llmsvc.ROLE_SYSTEM, "Be short."),
                    Llmsvc.Message(role="user", text="Hello!")]
        self.assertIsNone(messages[0].props.extras)
        alone = self.client.count_tokens_sync(messages[:1], None, None)
        both = self.client.count_tokens_sync(messages, None, None)
        self.assertGreater(both, alone)

        context = self.client.create_context_sync(None, None)
        context.generate_sync(messages, Llmsvc.Options(**GREEDY), None).finish_sync(None)
        added = context.append_sync([Llmsvc.Message.new("user", "And good bye.")],
                                    Llmsvc.Options(wait=True), None)
        self.assertGreater(added, 0)
        listed = context.list_messages_sync(None)
        self.assertEqual([message.props.role for message in listed],
                         ["system", "user", "assistant", "user"])
        self.assertEqual(listed[3].props.text, "And good bye.")
        context.refresh_sync(None)
        self.assertGreater(context.props.tokens, both)
        self.assertGreater(context.props.revision, 0)

    def test_memory(self):
        context = self.client.create_context_sync(None, None)
        self.assertEqual(context.get_memory_sync(None).props.residency, "text")
        context.ask_sync("Find me a comedy movie.", Llmsvc.Options(**GREEDY), None)
        memory = self.run_async(context.get_memory_async, context.get_memory_finish, None)
        self.assertIsInstance(memory, Llmsvc.ContextMemory)
        self.assertEqual(memory.props.residency, context.props.residency)
        self.assertEqual(memory.props.chunk_tokens, 16)
        self.assertGreater(memory.props.n_chunks, 0)
        self.assertGreater(memory.props.memory_bytes, 0)
        self.assertEqual(memory.props.memory_bytes,
                         sum(memory.get_memory_bytes_at(bits) for bits in (32, 16, 8, 4, 3, 2)))
        for chunk in range(memory.props.n_chunks):
            self.assertIn(memory.get_chunk_bits(chunk), (32, 16, 8, 4, 3, 2))
            self.assertIn(memory.get_chunk_place(chunk),
                          (Llmsvc.ChunkPlace.MEMORY, Llmsvc.ChunkPlace.BOTH))
        self.assertEqual(memory.props.info.unpack()["tokens"], memory.props.tokens)

    def test_named_context(self):
        options = Llmsvc.Options(create=True)
        self.assert_fails(Llmsvc.Error.NOT_FOUND, self.client.open_context_sync, "python", None,
                          None)
        context = self.client.open_context_sync("python", options, None)
        self.assertEqual(context.props.name, "python")
        answer = context.ask_sync("Hello!", Llmsvc.Options(**GREEDY), None)
        self.assertEqual(answer.props.revision, context.props.revision)

        again = make_client().open_context_sync("python", None, None)
        self.assertEqual([message.props.text for message in again.list_messages_sync(None)],
                         ["Hello!", answer.props.text])
        self.assertIn("python", [context.props.name
                                 for context in self.client.list_contexts_sync(None)])
        fork = again.fork_sync(None, None)
        again.rollback_sync(1, None, None)
        self.assertEqual(again.list_messages_sync(None), [])
        self.assertEqual(len(fork.list_messages_sync(None)), 2)

        reasons = []
        context.connect("closed", lambda _context, reason: reasons.append(reason))
        context.close_sync(None)
        self.assertTrue(context.props.is_closed)
        self.assertEqual(reasons, ["closed"])

    def test_asynchronous_constructor(self):
        client = self.run_async(Llmsvc.Client.new_async, Llmsvc.Client.new_finish,
                                Gio.BusType.SESSION, None, None)
        self.assertIsInstance(client, Llmsvc.Client)
        other = self.run_async(Llmsvc.Client.new_for_connection_async,
                               Llmsvc.Client.new_for_connection_finish,
                               client.props.connection, "", None)
        self.assertEqual(other.props.connection, client.props.connection)

    def test_find_bus(self):
        connection, found, is_running = Llmsvc.bus_find_sync(Gio.BusType.NONE, None)
        self.assertIsInstance(connection, Gio.DBusConnection)
        self.assertEqual((found, is_running), (Gio.BusType.SESSION, True))
        self.assert_fails(Llmsvc.Error.NOT_AVAILABLE, Llmsvc.bus_find_sync, Gio.BusType.SYSTEM,
                          None)

    def test_nothing_else_is_dispatched(self):
        """A twin leaves what waits in the caller's main context alone."""
        ran = []
        GLib.idle_add(ran.append, True)
        self.client.refresh_sync(None)
        self.assertEqual(ran, [])
        iterate_until(lambda: ran)
        self.assertEqual(ran, [True])

    def test_home_of_the_client(self):
        """Signals of what twins made come in the caller's main context."""
        context = self.client.open_context_sync("home", Llmsvc.Options(create=True), None)
        reasons = []
        context.connect("closed", lambda _context, reason: reasons.append(reason))
        make_client().open_context_sync("home", None, None).close_sync(None)
        self.client.refresh_sync(None)
        self.assertEqual(reasons, [])
        iterate_until(lambda: reasons)
        self.assertEqual(reasons, ["closed"])

    def test_constants(self):
        self.assertEqual(Llmsvc.Error.get_name(Llmsvc.Error.CONTEXT_FULL), "ContextFull")
        self.assertEqual(Llmsvc.MAJOR_VERSION, 0)
        self.assertTrue(GObject.type_is_a(Llmsvc.Client, GObject.Object))


class MockTest(unittest.TestCase):
    """With a script that answers slowly."""

    def test_cancel(self):
        client = make_client()
        context = client.create_context_sync(None, None)
        generation = context.prompt_sync("slow", Llmsvc.Options(on_cancel="keep"), None)
        first = generation.next_sync(None)
        generation.cancel_sync(None)
        while generation.next_sync(None) is not None:
            pass
        answer = generation.props.answer
        self.assertEqual(answer.props.finish_reason, Llmsvc.FinishReason.CANCELLED)
        self.assertTrue(answer.props.text.startswith(first))

    def test_cancellable(self):
        client = make_client()
        cancellable = Gio.Cancellable()
        loop = GLib.MainLoop()
        errors = []

        def on_ready(_source, result, *_):
            try:
                client.complete_finish(result)
            except GLib.Error as error:
                errors.append(error)
            loop.quit()

        client.complete_async("slow", None, cancellable, on_ready)
        GLib.timeout_add(50, cancellable.cancel)
        loop.run()
        self.assertTrue(errors[0].matches(Llmsvc.error_quark(), Llmsvc.Error.CANCELLED))

    def test_cancel_of_a_twin(self):
        """From another thread, which is the only way."""
        cancellable = Gio.Cancellable()
        threading.Timer(0.05, cancellable.cancel).start()
        with self.assertRaises(GLib.Error) as caught:
            make_client().complete_sync("slow", None, cancellable)
        self.assertTrue(caught.exception.matches(Llmsvc.error_quark(), Llmsvc.Error.CANCELLED))

    def test_error(self):
        client = make_client()
        with self.assertRaises(GLib.Error) as caught:
            client.complete_sync("fail", None, None)
        self.assertTrue(caught.exception.matches(Llmsvc.error_quark(), Llmsvc.Error.NO_MEMORY))


class ClosingTest(unittest.TestCase):
    """In a process of its own, because the connection is shared: what a twin connects to tells
    its end in the caller's main context."""

    def check(self, connection):
        closed = []
        connection.connect("closed", lambda *_: closed.append(True))
        connection.close_sync(None)
        iterate_until(lambda: closed)
        self.assertEqual(closed, [True])


class BusClosingTest(ClosingTest):
    def test_home_of_the_connection(self):
        connection, _found, _is_running = Llmsvc.bus_find_sync(Gio.BusType.NONE, None)
        self.check(connection)


class ClientClosingTest(ClosingTest):
    def test_home_of_the_connection(self):
        self.check(make_client().props.connection)


if __name__ == "__main__":
    kind = {"model": ModelTest, "mock": MockTest, "closing-bus": BusClosingTest,
            "closing-client": ClientClosingTest}[sys.argv.pop(1)]
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(kind)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
