# SPDX-License-Identifier: LGPL-2.1-or-later
"""llmsvc-distill-draft without what needs PyTorch: arguments, documents, the folder of a run, and
the file that is written."""
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

import numpy

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = SOURCE / "offline/llmsvc-distill-draft"
MODELS = pathlib.Path(os.environ["LLM_TEST_DATA"]) / "models"
DRAFT = MODELS / "llmsvc-demo-draft-1M-F32.gguf"
TARGET = pathlib.Path(os.environ["LLM_MODEL_DIR"]) / "llmsvc-demo-8M-Q8_0.gguf"
NEEDED = ("--target", TARGET, "--draft", DRAFT, "--texts", "t", "--work", "w", "--out", "o")
HEADER = "<|im_start|>assistant\n"

sys.path.insert(0, str(SOURCE / "offline"))
sys.dont_write_bytecode = True

from distill import files, folder, texts
from modelfile import arrays


def run(*arguments):
    return subprocess.run([sys.executable, "-B", PROGRAM, *map(str, arguments)], text=True,
                          capture_output=True)


class Arguments(unittest.TestCase):
    def test_wrong(self):
        for arguments, named in (
                ((), "--target"), ((*NEEDED, "--steps", "0"), "--steps must be 1 or more"),
                ((*NEEDED, "--tokens", "1"), "--tokens must be 2"),
                ((*NEEDED, "--rate", "2"), "--rate must be above 0"),
                ((*NEEDED, "--rate", "nan"), "--rate must be above 0"),
                ((*NEEDED, "--type", "Q4_K"), "--type"), ((*NEEDED, "--header", ""), "--header"),
                ((*NEEDED, "--seed", "-1"), "--seed"), ((*NEEDED, "--window", "x"), "--window"),
                ((*NEEDED, "--doc", "1"), "--doc")):
            outcome = run(*arguments)
            self.assertEqual(outcome.returncode, 2, arguments)
            self.assertIn(named, outcome.stderr)

    def test_page(self):
        """The man page has the options that --help has."""
        page = (SOURCE / "docs/man/llmsvc-distill-draft.1.md").read_text()
        listed = {line.split("`")[1].split("=")[0] for line in page.splitlines()
                  if line.startswith("- `--")}
        known = {word.strip("[],") for word in run("--help").stdout.split()
                 if word.strip("[]").startswith("--")}
        self.assertEqual(listed, {word for word in known if word.count("-") >= 2} - {"--help"})


class Documents(unittest.TestCase):
    def setUp(self):
        self.pieces = files.Pieces(files.Gguf(DRAFT))
        self.tokens = {text: i for i, text in enumerate(self.pieces.texts)}

    def encode(self, *pieces):
        return [self.tokens[piece] for piece in pieces]

    def make(self):
        user = self.encode("<|im_start|>", "\u2581user", "<0x0A>", "What", "<|im_end|>", "<0x0A>")
        reply = self.encode("<|im_start|>", "\u2581assistant", "<0x0A>", "In", "<|im_end|>")
        return [self.pieces.bos] + user + reply + user + reply

    def test_replies(self):
        """Behind each header, whether or not a space stands behind the special token."""
        document = self.make()
        self.assertEqual(texts.find_replies(document, self.pieces, HEADER), [10, 21])
        bare = [self.tokens["assistant"] if self.pieces.texts[token] == "\u2581assistant" else token
                for token in document] if "assistant" in self.tokens else document
        self.assertEqual(texts.find_replies(bare, self.pieces, HEADER), [10, 21])
        self.assertEqual(texts.find_replies(document, self.pieces, "<|im_start|>tool\n"), [])
        self.assertEqual(texts.find_replies(document[:9], self.pieces, HEADER), [])

    def test_documents(self):
        """Each begins at the first token; replies that begin behind the context are left out."""
        document = self.make()
        plain = [self.pieces.bos] + self.encode("What", "In")
        window = numpy.array([plain + document + document[:12]], numpy.uint16)
        found = list(texts.cut_documents(window, self.pieces, HEADER, 20))
        self.assertEqual([replies for _, replies in found], [[10], [10]])
        self.assertEqual(found[0][0].tolist(), document)
        self.assertEqual(found[1][0].tolist(), document[:12])

    def test_wrong_files(self):
        with tempfile.TemporaryDirectory() as made:
            path = pathlib.Path(made, "texts.u16")
            for data, named in ((b"", "0 bytes"), (b"x" * 30, "--window"),
                                (numpy.full(4, 4096, "<u2").tobytes(), "token 4096")):
                path.write_bytes(data)
                with self.assertRaisesRegex(files.GgufError, named):
                    texts.read_windows(path, 4, 4096)
            with self.assertRaisesRegex(files.GgufError, "No such file"):
                texts.read_windows(f"{made}/none", 4, 4096)

    def test_no_vocabulary(self):
        source = files.Gguf(DRAFT)
        broken = types.SimpleNamespace(path="x", keys={}, values=source.values)
        with self.assertRaisesRegex(files.GgufError, "tokenizer.ggml.tokens is missing"):
            files.Pieces(broken)
        broken.keys = source.keys
        broken.values = {**source.values, "tokenizer.ggml.eot_token_id": 4096}
        with self.assertRaisesRegex(files.GgufError, "eot_token_id"):
            files.Pieces(broken)


class Folders(unittest.TestCase):
    def setUp(self):
        self.made = tempfile.TemporaryDirectory()
        self.addCleanup(self.made.cleanup)

    def make_answers(self, n):
        return [folder.Answers(*(numpy.arange(i + n, dtype=numpy.uint16)
                                 for i in range(len(folder.Answers._fields)))) for n in range(n)]

    def test_kept(self):
        work = folder.Folder(f"{self.made.name}/a/b", {"seed": 1})
        self.assertIsNone(work.load_answers("answers-00000"))
        made = self.make_answers(12)
        work.save_answers("answers-00000", made)
        found = folder.Folder(f"{self.made.name}/a/b", {"seed": 1}).load_answers("answers-00000")
        self.assertEqual([[x.tolist() for x in answers] for answers in found],
                         [[x.tolist() for x in answers] for answers in made])

    def test_other_settings(self):
        folder.Folder(self.made.name, {"seed": 1, "tokens": 64})
        with self.assertRaisesRegex(folder.FolderError, "another --tokens"):
            folder.Folder(self.made.name, {"seed": 1, "tokens": 32})

    def test_damaged(self):
        work = folder.Folder(self.made.name, {"seed": 1})
        work.save_answers("x", self.make_answers(2))
        path = work.get_answers_path("x")
        data = path.read_bytes()
        for damaged in (data[:100], b"", b"x" * 1000):
            path.write_bytes(damaged)
            with self.assertRaisesRegex(folder.FolderError, "x.npz is damaged"):
                work.load_answers("x")
        (work.path / "settings.json").write_text("{")
        with self.assertRaisesRegex(folder.FolderError, "settings.json is damaged"):
            folder.Folder(self.made.name, {"seed": 1})


class Written(unittest.TestCase):
    def test_files(self):
        """The keys of the source, weights as they were given, and files that the engine uses as it
        uses the source, as a model and as a draft."""
        source = files.Gguf(DRAFT)
        arrays = {}
        for name, tensor in source.tensors.items():
            source.check(name, *tensor.dims)
            arrays[name] = source.read(name)
        with tempfile.TemporaryDirectory() as made:
            for kind, most in (("F32", 0), ("F16", 1e-3), ("Q8_0", 1e-2)):
                path = f"{made}/{kind}.gguf"
                files.write(path, source, kind, arrays, "taught")
                found = files.Gguf(path)
                self.assertEqual(found.values["general.description"], "taught")
                self.assertEqual(found.values["general.file_type"], files.TYPES[kind])
                self.assertEqual(found.keys["tokenizer.ggml.tokens"],
                                 source.keys["tokenizer.ggml.tokens"])
                for name, values in arrays.items():
                    found.check(name, *source.tensors[name].dims)
                    off = abs(found.read(name) - values).max() / abs(values).max()
                    self.assertLessEqual(off, most, (kind, name))
            text = self.generate("--model", DRAFT)
            self.assertEqual(self.generate("--model", f"{made}/F32.gguf"), text)
            self.assertEqual(self.generate("--model", DRAFT, "--draft", f"{made}/Q8_0.gguf"), text)

    def generate(self, *arguments):
        outcome = subprocess.run([os.environ["LLM_TOOL"], "generate", *map(str, arguments),
                                  "--max-tokens", "24", "--temperature", "0", "Find me a movie."],
                                 text=True, capture_output=True)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return outcome.stdout

    def test_failure(self):
        """What was there stays when the new file can't be made whole."""
        source = files.Gguf(DRAFT)
        with tempfile.TemporaryDirectory() as made:
            path = pathlib.Path(made, "draft.gguf")
            path.write_text("old")
            with self.assertRaises(KeyError):
                files.write(path, source, "F16", {}, "taught")
            self.assertEqual([path.name], os.listdir(made))
            self.assertEqual(path.read_text(), "old")


class FullDisk(unittest.TestCase):
    """/dev/full in place of what is written: nothing stays, and the error names the file."""

    def test_folder(self):
        with tempfile.TemporaryDirectory() as root:
            os.symlink("/dev/full", os.path.join(root, "settings.json.partial"))
            with self.assertRaises(folder.FolderError) as caught:
                folder.Folder(root, {"seed": 1})
            self.assertIn(f"{root}/settings.json: No space left on device", str(caught.exception))
            self.assertIn(f"make room in {root}", str(caught.exception))
            self.assertEqual(os.listdir(root), [])

    def test_arrays(self):
        """A zip archive fails more than once."""
        with tempfile.TemporaryDirectory() as root:
            path = pathlib.Path(root) / "step.npz"
            os.symlink("/dev/full", f"{path}.partial")
            with self.assertRaises(OSError) as caught:
                arrays.save(path, {"a": numpy.zeros(100000)})
            self.assertEqual(caught.exception.filename, str(path))
            self.assertEqual(os.listdir(root), [])


if __name__ == "__main__":
    unittest.main()
