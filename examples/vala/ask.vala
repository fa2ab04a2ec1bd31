// SPDX-License-Identifier: LGPL-2.1-or-later

// One question, one answer, without a main loop.
//
//   valac --pkg llmsvc-1 ask.vala
//   ./ask "Find me a comedy movie."

int main (string[] args) {
    Intl.setlocale ();
    try {
        var client = new Llmsvc.Client.sync (BusType.NONE);
        var options = new Llmsvc.Options () { max_tokens = 64, temperature = 0 };
        var answer = client.complete_sync (args.length > 1 ? args[1] : "Hello!", options);
        print ("%s\n", answer.text);
    } catch (Error error) {
        printerr ("%s\n", error.message);
        return 1;
    }
    return 0;
}
