"""The smallest set of inputs, and zips that are the same for the same inputs."""

import pathlib
import tempfile
import unittest

import corpora


class Folder(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.kept.name)
        self.addCleanup(self.kept.cleanup)

    def inputs(self, **about):
        """`name=(length, features)`."""
        found = {}
        for name, (length, has) in about.items():
            path = self.folder / name
            path.write_bytes(name.encode()[:1] * length)
            found[path] = frozenset(has)
        return found


class Cover(Folder):
    def test_every_feature_is_kept(self):
        features = self.inputs(a=(10, {1, 2}), b=(500, {2, 3}), c=(20, {3}), d=(9000, {4}))
        chosen = corpora.cover(features)
        self.assertEqual(set().union(*(features[path] for path in chosen)), {1, 2, 3, 4})
        self.assertEqual({path.name for path in chosen}, {"a", "c", "d"})

    def test_what_seeds_have_needs_no_input(self):
        features = self.inputs(a=(10, {1, 2}), b=(10, {3}))
        self.assertEqual([path.name for path in corpora.cover(features, frozenset({1, 2}))], ["b"])
        self.assertEqual(corpora.cover(features, frozenset({1, 2, 3})), [])

    def test_an_input_that_later_ones_made_needless_is_taken_out(self):
        # `a` has most a byte and comes first; `b` and `c` are needed anyway and have all of it.
        features = self.inputs(a=(1, {1, 2, 3, 4}), b=(100, {1, 2, 5, 6, 7}), c=(100, {3, 4, 8, 9, 10}))
        self.assertEqual({path.name for path in corpora.cover(features)}, {"b", "c"})

    def test_nothing_covers_nothing(self):
        self.assertEqual(corpora.cover({}), [])


class ControlFile(unittest.TestCase):
    def test_inputs_that_crashed_have_no_features(self):
        found = corpora.parse_control("3\n1\n/x/a\n/x/b\n/x/c d\nSTARTED 0 5\nFT 0 1 4\nCOV 0 7\nSTARTED 1 6\nSTARTED 2 7\n"
                                      "FT 2\nCOV 2\n")
        self.assertEqual(found, {pathlib.Path("/x/a"): {1, 4}, pathlib.Path("/x/c d"): frozenset()})

    def test_a_line_cut_by_a_kill_is_not_half_read(self):
        found = corpora.parse_control("1\n0\n/x/a\nSTARTED 0 5\nFT 0 1 4 ")
        self.assertEqual(found, {})


class Zips(Folder):
    def test_the_same_inputs_make_the_same_bytes_in_any_order(self):
        one, two = self.folder / "one.zip", self.folder / "two.zip"
        corpora.write_zip(one, [b"first", b"second", b"first"])
        corpora.write_zip(two, [b"second", b"first"])
        self.assertEqual(one.read_bytes(), two.read_bytes())

    def test_members_are_named_by_their_content(self):
        import hashlib
        import zipfile
        path = self.folder / "one.zip"
        corpora.write_zip(path, [b"first", b""])
        with zipfile.ZipFile(path) as archive:
            self.assertEqual(archive.namelist(), sorted(hashlib.sha1(content).hexdigest() for content in (b"first", b"")))
            self.assertEqual({entry.date_time for entry in archive.infolist()}, {(1980, 1, 1, 0, 0, 0)})


if __name__ == "__main__":
    unittest.main()
