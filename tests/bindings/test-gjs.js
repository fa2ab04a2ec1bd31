// SPDX-License-Identifier: LGPL-2.1-or-later

// libllmsvc as gjs sees it, against the real service: the argument is “model” or “mock”.

import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import Llmsvc from 'gi://Llmsvc?version=1';
import {exit, programArgs} from 'system';

for (const type of [Llmsvc.Client, Llmsvc.Context, Llmsvc.Generation]) {
    for (const owner of [type, type.prototype]) {
        for (const name of Object.getOwnPropertyNames(owner)) {
            const finish = name.replace(/_async$/, '_finish');
            if (name.endsWith('_async') && finish in owner)
                Gio._promisify(owner, name, finish);
        }
    }
}

function assertEqual(left, right) {
    if (JSON.stringify(left) !== JSON.stringify(right))
        throw new Error(`${JSON.stringify(left)} is not ${JSON.stringify(right)}`);
}

function assert(value) {
    if (!value)
        throw new Error('not true');
}

async function assertFails(code, begin) {
    let error = null;
    try {
        await begin();
    } catch (caught) {
        error = caught;
    }
    if (!(error instanceof GLib.Error) || !error.matches(Llmsvc.Error, code))
        throw new Error(`${error} is not the error ${code}`);
    assert(error.message.length > 0);
}

function makeClient() {
    return Llmsvc.Client.new_async(Gio.BusType.NONE, 'org.llm.TestGjs', null);
}

async function readAll(generation) {
    const pieces = [];
    let piece;
    while ((piece = await generation.next_async(null)) !== null)
        pieces.push(piece);
    return pieces;
}

const greedy = () => new Llmsvc.Options({temperature: 0, maxTokens: 24});

const modelTests = {
    async options() {
        const options = new Llmsvc.Options({
            max_tokens: 64, temperature: 0.25, slo: 'background', stop: ['END'],
        });
        assertEqual(options.maxTokens, 64);
        assertEqual(options.stop, ['END']);
        assertEqual(options.to_variant().recursiveUnpack(),
            {'max-tokens': 64, slo: 'background', stop: ['END'], temperature: 0.25});
        options.unset('slo');
        assertEqual(options.get_value('slo'), null);
        options.set_from_string('top-k', '40');
        assertEqual(options.top_k, 40);
        await assertFails(Llmsvc.Error.INVALID_OPTION,
            () => options.set_value('temperature', new GLib.Variant('s', 'hot')));
    },

    async client() {
        const client = await makeClient();
        await client.prewarm_async(null, null);
        await client.refresh_async(null);
        assertEqual(client.availability, Llmsvc.Availability.READY);
        assert(client.features.every(feature => client.has_feature(feature)));
        const models = client.models;
        assert(models instanceof Gio.ListModel);
        assertEqual(models.get_n_items(), 1);
        assertEqual(models.get_item(0).context_length, 1024);
        assertEqual(client.active_model.id, models.get_item(0).id);
    },

    async answer() {
        const client = await makeClient();
        const answer = await client.complete_async('Find me a comedy movie.', greedy(), null);
        assert(answer.text.length > 10);
        const {STOP, LENGTH} = Llmsvc.FinishReason;
        assert([STOP, LENGTH].includes(answer.finishReason));
        assertEqual(answer.ignored, []);
        assertEqual(answer.results.deepUnpack()['output-tokens'].unpack(), answer.output_tokens);
        const again = client.complete_sync('Find me a comedy movie.', greedy(), null);
        assertEqual(again.text, answer.text);
        const options = greedy();
        options.draft = 'lookup';
        const drafted = client.complete_sync('Find me a comedy movie.', options, null);
        assertEqual(drafted.text, answer.text);
        assert(drafted.passes > 0 && drafted.acceptedTokens <= drafted.draftedTokens);
    },

    async stream() {
        const client = await makeClient();
        const context = await client.create_context_async(null, null);
        const generation = await context.prompt_async('Find me a comedy movie.', greedy(), null);
        const pieces = await readAll(generation);
        assert(pieces.length > 1);
        assertEqual(generation.answer.text, pieces.join(''));
        assertEqual((await generation.finish_async(null)).text, pieces.join(''));
    },

    async memory() {
        const client = await makeClient();
        const context = await client.create_context_async(null, null);
        await context.ask_async('Find me a comedy movie.', greedy(), null);
        const memory = await context.get_memory_async(null);
        assertEqual(memory.residency, context.residency);
        assert(memory.nChunks > 0);
        assert(memory.memoryBytes > 0);
        const {MEMORY, BOTH} = Llmsvc.ChunkPlace;
        assert([MEMORY, BOTH].includes(memory.get_chunk_place(0)));
        assert(memory.get_chunk_bits(0) > 0);
        assertEqual(context.get_memory_sync(null).tokens, memory.tokens);
    },

    async messages() {
        const client = await makeClient();
        const messages = [
            Llmsvc.Message.new(Llmsvc.ROLE_SYSTEM, 'Be short.'),
            new Llmsvc.Message({role: 'user', text: 'Hello!'}),
        ];
        const tokens = await client.count_tokens_async(messages, null, null);
        assert(tokens > 0);
        const context = await client.create_context_async(null, null);
        await readAll(await context.generate_async(messages, greedy(), null));
        const added = await context.append_async(
            [Llmsvc.Message.new('user', 'Bye.')], new Llmsvc.Options({wait: true}), null);
        assert(added > 0);
        const listed = await context.list_messages_async(null);
        assertEqual(listed.map(message => message.role), ['system', 'user', 'assistant', 'user']);
    },

    async namedContext() {
        const client = await makeClient();
        await assertFails(Llmsvc.Error.NOT_FOUND,
            () => client.open_context_async('gjs', null, null));
        const context = await client.open_context_async(
            'gjs', new Llmsvc.Options({create: true}), null);
        const answer = await context.ask_async('Hello!', greedy(), null);
        const again = await (await makeClient()).open_context_async('gjs', null, null);
        const listed = await again.list_messages_async(null);
        assertEqual(listed.map(message => message.text), ['Hello!', answer.text]);
        const closed = new Promise(resolve => {
            context.connect('closed', (_context, reason) => resolve(reason));
        });
        await context.close_async(null);
        assertEqual(await closed, 'closed');
    },

    async findBus() {
        const [connection, found, isRunning] = Llmsvc.bus_find_sync(Gio.BusType.NONE, null);
        assert(connection instanceof Gio.DBusConnection);
        assertEqual([found, isRunning], [Gio.BusType.SESSION, true]);
    },
};

const mockTests = {
    async cancel() {
        const client = await makeClient();
        const context = await client.create_context_async(null, null);
        const generation = await context.prompt_async(
            'slow', new Llmsvc.Options({on_cancel: 'keep'}), null);
        const first = await generation.next_async(null);
        await generation.cancel_async(null);
        await readAll(generation);
        assertEqual(generation.answer.finish_reason, Llmsvc.FinishReason.CANCELLED);
        assert(generation.answer.text.startsWith(first));
    },

    async cancellable() {
        const client = await makeClient();
        const cancellable = new Gio.Cancellable();
        GLib.timeout_add(GLib.PRIORITY_DEFAULT, 50, () => {
            cancellable.cancel();
            return GLib.SOURCE_REMOVE;
        });
        await assertFails(Llmsvc.Error.CANCELLED,
            () => client.complete_async('slow', null, cancellable));
    },

    async error() {
        const client = await makeClient();
        await assertFails(Llmsvc.Error.NO_MEMORY, () => client.complete_async('fail', null, null));
    },
};

let nFailed = 0;
const tests = programArgs[0] === 'mock' ? mockTests : modelTests;
for (const [name, test] of Object.entries(tests)) {
    try {
        await test();
        print(`ok ${name}`);
    } catch (error) {
        nFailed++;
        print(`not ok ${name}: ${error}\n${error.stack}`);
    }
}
exit(nFailed > 0 ? 1 : 0);
