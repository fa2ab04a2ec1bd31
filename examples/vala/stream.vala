// SPDX-License-Identifier: LGPL-2.1-or-later

// An answer word by word as it is made. Ctrl-C stops it, here and at the service.
//
//   valac --pkg llmsvc-1 --pkg posix stream.vala
//   ./stream "Find me a comedy movie."

async void stream (string prompt, Cancellable cancellable) throws Error {
    var client = yield new Llmsvc.Client (BusType.NONE, null, cancellable);
    var context = yield client.create_context_async (null, cancellable);
    var options = new Llmsvc.Options () { max_tokens = 64, temperature = 0 };
    var generation = yield context.prompt_async (prompt, options, cancellable);

    string? piece;
    while ((piece = yield generation.next_async (cancellable)) != null) {
        stdout.puts (piece);
        stdout.flush ();
    }
    stdout.putc ('\n');
}

int main (string[] args) {
    Intl.setlocale ();
    var status = 0;
    var loop = new MainLoop ();
    var cancellable = new Cancellable ();

    Unix.signal_add (Posix.Signal.INT, () => {
        cancellable.cancel ();
        return Source.CONTINUE;
    });

    stream.begin (args.length > 1 ? args[1] : "Hello!", cancellable, (_, result) => {
        try {
            stream.end (result);
        } catch (Error error) {
            printerr ("%s\n", error.message);
            status = 1;
        }
        loop.quit ();
    });
    loop.run ();
    return status;
}
