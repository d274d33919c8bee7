"""Every form of input gives the same filter, and bad input gives an error that says what is wrong."""

import ctypes
import importlib
import importlib.util
import io
import mmap
import re
import threading
import time

import nutfilter
import pytest
from conftest import malformed, points
from nutfilter import DecodeError, Filter, ParamsError, SortedHashes

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

ITEMS = points(1000)
PACKED = b"".join(ITEMS)
ARRAY = np.frombuffer(PACKED, np.uint8).reshape(-1, 33)
FIXED = pa.array(ITEMS, pa.binary(33))
EXPECTED = Filter.build(ITEMS)

FORMS = {
    "tuple": tuple(ITEMS),
    "generator": (item for item in ITEMS),
    "dictionary": dict.fromkeys(ITEMS),
    "bytearrays": [bytearray(item) for item in ITEMS],
    "memoryviews": [memoryview(item) for item in ITEMS],
    "numpy rows": list(ARRAY),
    "numpy uint8": ARRAY,
    "numpy V33": ARRAY.view("V33").ravel(),
    "numpy columns of a wider array": np.hstack([ARRAY, ARRAY])[:, :33],
    "numpy reversed": ARRAY[::-1],
    "numpy Fortran order": np.asfortranarray(ARRAY),
    "numpy objects": np.array(ITEMS, object),
    "numpy V33 with a step": np.repeat(ARRAY, 2, axis=0).view("V33").ravel()[::2],
    "memoryview with a shape": memoryview(PACKED).cast("B", (1000, 33)),
    "Arrow fixed-size": FIXED,
    "Arrow binary": FIXED.cast(pa.binary()),
    "Arrow large binary": FIXED.cast(pa.large_binary()),
    "Arrow binary view": FIXED.cast(pa.binary()).cast(pa.binary_view()),
    "Arrow slice": pa.concat_arrays([FIXED[:7], FIXED])[7:],
    "Arrow binary slice": pa.concat_arrays([FIXED[:7], FIXED]).cast(pa.binary())[7:],
    "Arrow chunked": pa.chunked_array([FIXED[:10], FIXED[10:10], FIXED[10:]]),
    "Arrow table": pa.table({"y": FIXED}),
    "Arrow batch": pa.record_batch({"y": FIXED}),
    "Arrow reader": pa.table({"y": FIXED}).to_reader(100),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_filter(form):
    assert Filter.build(FORMS[form]) == EXPECTED


@pytest.mark.parametrize("form", [form for form in FORMS if form not in ("generator", "Arrow reader")])
def test_every_form_can_be_queried(form):
    assert EXPECTED.matches(FORMS[form]) == [True] * 1000


def test_packed_records(tmp_path):
    path = tmp_path / "records"
    path.write_bytes(PACKED)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        for packed in [PACKED, bytearray(PACKED), memoryview(PACKED), np.frombuffer(PACKED, np.uint8), mapped]:
            assert Filter.build(packed, record_bytes=33) == EXPECTED


def test_padded_byte_strings_need_their_width():
    strings = ARRAY.view("S33").ravel()
    # numpy pads a shorter item with NUL bytes and hides those of a longer one.
    for padded in [np.array([b"alice", b"bob"]), np.array([b"alice"], "S9"), strings]:
        with pytest.raises(TypeError, match="padded.*record_bytes=%d" % padded.itemsize):
            Filter.build(padded)
        with pytest.raises(TypeError, match="padded"):
            EXPECTED.matches(padded)
        with pytest.raises(TypeError, match="items are bytes"):
            EXPECTED.contains(padded[0:1].reshape(()))
    assert Filter.build(strings, record_bytes=33) == EXPECTED
    assert Filter.build(np.repeat(ARRAY, 2, axis=0).view("S33").ravel()[::2], record_bytes=33) == EXPECTED
    with pytest.raises(TypeError, match="record_bytes is 32, and the items have 33 bytes"):
        Filter.build(strings, record_bytes=32)
    # Single elements have lost the NUL bytes at their ends.
    for call in [lambda: Filter.build(list(strings)), lambda: EXPECTED.contains(strings[0])]:
        with pytest.raises(TypeError, match="bytes_ of numpy, which loses NUL bytes"):
            call()


def test_containers_of_padded_byte_strings_are_refused(tmp_path):
    strings, refused = np.array(ITEMS), {}
    if pandas := optional("pandas"):
        refused["Series"], refused["frame"] = pandas.Series(strings), pandas.DataFrame({"i": range(1000)})
        refused["frame"]["y"] = strings
        refused["frame"] = refused["frame"][["y"]]
        refused["index"] = pandas.Index(strings)
    if xarray := optional("xarray"):
        refused["xarray"] = xarray.DataArray(strings)
    if h5py := optional("h5py"):
        file = h5py.File(tmp_path / "items.h5", "w")
        refused["h5py"] = file.create_dataset("y", data=strings)
    for name, given in refused.items():
        holds = [given.dtype] if hasattr(given, "dtype") else list(given.dtypes)
        if any(dtype.kind == "S" for dtype in holds):
            with pytest.raises(TypeError, match="holds byte strings of"):
                Filter.build(given)
            with pytest.raises(TypeError, match="holds byte strings of"):
                EXPECTED.matches(given)
        else:
            # It has copied them as objects, before anything was lost here.
            assert name in ("Series", "frame", "index")


def test_frames_of_pandas_are_their_only_column():
    pandas = pytest.importorskip("pandas")
    objects = [ITEMS, list(map(bytearray, ITEMS)), list(ARRAY), list(ARRAY.view("V33").ravel())]
    for given in [*objects, pandas.arrays.ArrowExtensionArray(FIXED)]:
        frame = pandas.DataFrame({"y": given})
        for form in [frame, frame["y"], frame.sample(frac=1, random_state=1), frame.set_index(pandas.Index(ITEMS))]:
            assert Filter.build(form) == EXPECTED
            assert len(nutfilter.bip158.Watchlist(form)) == 1000
    for given, words in [
        (pandas.DataFrame({"y": [b"a", "bb"]}), "item 1 is str"),  # Arrow makes bytes of it.
        (pandas.DataFrame({"y": list(ARRAY.view("S33").ravel())}), "item 0 is bytes_ of numpy"),
        (pandas.DataFrame({b"a": [b"b"], b"c": [b"d"]}), "DataFrame has 2 columns"),
        (pandas.DataFrame(index=ITEMS), "DataFrame has 0 columns"),
        (pandas.DataFrame({"y": [b"a", None]}), "item 1 is NoneType"),
    ]:
        for make in [Filter.build, nutfilter.bip158.Watchlist]:
            with pytest.raises(TypeError, match=words):
                make(given)


class Series3(list):
    """A column of objects in pandas 3, which offers Arrow data."""

    dtype = np.dtype(object)

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.chunked_array([pa.array(self)]).__arrow_c_stream__()


def test_columns_of_objects_are_not_taken_as_arrow_data():
    assert Filter.build(Series3(ITEMS)) == EXPECTED
    with pytest.raises(TypeError, match="item 1 is str"):
        Filter.build(Series3([b"a", "bb"]))


def test_record_bytes_is_checked_for_each_item():
    """What numpy, pandas and polars convert from S33 has lost the NUL bytes at the ends of some."""
    strings = ARRAY.view("S33").ravel()
    cut = strings.astype(object)
    at = next(at for at, item in enumerate(cut) if len(item) != 33)
    for given in [cut, list(cut), pa.array(list(cut)), pa.chunked_array([pa.array(cut[:5]), pa.array(cut[5:])])]:
        with pytest.raises(ValueError, match=f"item {at} has 32 bytes, and record_bytes is 33"):
            Filter.build(given, record_bytes=33)
    for form in ["tuple", "numpy objects", "memoryviews", "Arrow fixed-size", "Arrow binary view", "Arrow table"]:
        assert Filter.build(FORMS[form], record_bytes=33) == EXPECTED
        with pytest.raises(ValueError, match="item 0 has 33 bytes, and record_bytes is 32"):
            Filter.build(FORMS[form], record_bytes=32)


def optional(name):
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def test_masked_records_are_refused_by_number():
    hidden = np.arange(1000) % 10 == 7
    for array, more in [(ARRAY.view("V33").ravel(), {}), (ARRAY.view("S33").ravel(), {"record_bytes": 33})]:
        with pytest.raises(ValueError, match="100 records are masked, the first is record 7"):
            Filter.build(np.ma.MaskedArray(array, mask=hidden), **more)
    rows = np.repeat(hidden[:, None], 33, axis=1)
    with pytest.raises(ValueError, match="100 records are masked"):
        Filter.build(np.ma.MaskedArray(ARRAY, mask=rows))
    # netCDF4 masks single bytes of value 255.
    assert Filter.build(np.ma.MaskedArray(ARRAY, mask=ARRAY == 255)) == EXPECTED
    assert Filter.build(np.ma.MaskedArray(ARRAY)) == EXPECTED
    # Packed records: the mask of each byte counts by record.
    packed = ARRAY.ravel()
    for mask in [packed == 255, np.arange(33_000) % 33 == 5, np.ma.nomask]:
        assert Filter.build(np.ma.MaskedArray(packed, mask=mask), record_bytes=33) == EXPECTED
    with pytest.raises(ValueError, match="100 records are masked, the first is record 7"):
        EXPECTED.matches(np.ma.MaskedArray(packed, mask=rows.ravel()), record_bytes=33)
    for width in [0, 7, 66_000]:
        with pytest.raises(ValueError, match="whole number of records"):
            Filter.build(np.ma.MaskedArray(packed, mask=rows.ravel()), record_bytes=width)
    # Rows of a masked array, one by one.
    masked = np.ma.MaskedArray(ARRAY, mask=rows)
    with pytest.raises(ValueError, match="item 7 is masked"):
        Filter.build(list(masked))
    with pytest.raises(ValueError, match="item is masked"):
        EXPECTED.contains(masked[7])
    assert Filter.build(list(np.ma.MaskedArray(ARRAY, mask=ARRAY == 255))) == EXPECTED
    with pytest.raises(ValueError, match="item 7 is masked"):
        Filter.build(list(np.ma.MaskedArray(ARRAY.view("V33").ravel(), mask=hidden)))


def test_arrow_types_that_are_not_known_to_be_bytes_are_refused():
    polars = optional("polars")
    if polars:
        objects = polars.Series("y", ITEMS, dtype=polars.Object)
        for given in [objects, polars.DataFrame({"y": objects})]:
            with pytest.raises(TypeError, match="holds Python objects"):
                Filter.build(given)
            with pytest.raises(TypeError, match="holds Python objects"):
                EXPECTED.matches(given)
    uuid = pa.array([bytes(16)], pa.uuid())
    for given in [uuid, pa.chunked_array([uuid]), pa.table({"y": uuid})]:
        with pytest.raises(TypeError, match="extension type 'arrow.uuid'"):
            Filter.build(given)
    for name in ["int8", "uint64", "float32", "bool_", "string", "large_string", "string_view", "date32", "month_day_nano_interval"]:
        with pytest.raises(TypeError, match="has the type"):
            Filter.build(pa.nulls(0, getattr(pa, name)()))
    for kind in [pa.list_(pa.binary()), pa.dictionary(pa.int8(), pa.string()), pa.timestamp("s"), pa.decimal128(9),
                 pa.run_end_encoded(pa.int32(), pa.string()), pa.map_(pa.int8(), pa.binary())]:
        with pytest.raises(TypeError, match="has the type"):
            Filter.build(pa.array([], kind))


def test_other_engines():
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    assert Filter.build(polars.Series(ITEMS)) == EXPECTED
    assert Filter.build(polars.DataFrame({"y": ITEMS})) == EXPECTED
    with pytest.raises(TypeError, match=r"LazyFrame has no rows yet; pass its collect\(\)"):
        Filter.build(polars.LazyFrame({"y": ITEMS}))
    notes = pa.table({"y": FIXED})
    assert Filter.build(duckdb.sql("SELECT y FROM notes")) == EXPECTED
    with pytest.raises(TypeError, match="holds bit strings.*cast them to BLOB"):
        Filter.build(duckdb.sql("SELECT '0101'::BIT"))
    assert len(notes) == 1000


def test_empty_forms_give_the_empty_filter():
    for empty in [[], np.zeros((0, 33), np.uint8), pa.array([], pa.binary(33)), pa.chunked_array([], pa.binary())]:
        assert Filter.build(empty) == Filter(b"", 0)


def with_offsets(kind, integer):
    """An array of which pyarrow checks the first and the last offset only."""
    offsets = pa.py_buffer(np.array([0, 3, 2, 4], integer))
    return pa.Array.from_buffers(kind, 3, [None, offsets, pa.py_buffer(b"abcd")])


# The second item, of 13 bytes, has its bytes in a buffer that does not exist.
WRONG_VIEW = pa.Array.from_buffers(pa.binary_view(), 2, [
    None, pa.py_buffer(np.array([0, 0, 0, 0, 13, 0, 7, 0], np.int32)), pa.py_buffer(bytes(13)),
])


def nested(levels):
    array = pa.array([b"a"])
    for _ in range(levels):
        array = pa.StructArray.from_arrays([array], ["x"])
    return array


BAD = [
    ("00" * 33, TypeError, "items is str"),
    (PACKED, TypeError, "record_bytes"),
    (5, TypeError, "not int"),
    (None, TypeError, "not NoneType"),
    ([b"a", 5], TypeError, "item 1 is int"),
    ([b"a", "b"], TypeError, "item 1 is str.*fromhex"),
    ([b"a", np.str_("b")], TypeError, "item 1 is str_"),
    ([b"a", np.zeros(4, np.uint64)], TypeError, "item 1 is ndarray"),
    (list(pa.array([b"a", "b"], pa.binary())) + list(pa.array(["00ff"])), TypeError, "item 2 is StringScalar"),
    (iter(pa.array(["00ff"], pa.string_view())), TypeError, "item 0 is StringViewScalar"),
    (pa.array(["00ff"], pa.large_string()).to_numpy(zero_copy_only=False), TypeError, "item 0 is str"),
    ([np.array([b"a"], object)], TypeError, "item 0 is ndarray"),
    ([ARRAY[:500], ARRAY[500:]], TypeError, r"item 0 is ndarray of shape \[500, 33\]"),
    (list(ARRAY.view("V33").reshape(10, 100)), TypeError, r"item 0 is ndarray of shape \[100\]"),
    ([memoryview(PACKED).cast("B", (1000, 33))], TypeError, r"item 0 is memoryview of shape \[1000, 33\]"),
    (list(ARRAY.ravel()), TypeError, r"item 0 is uint8 of shape \[\]"),
    (ARRAY.flat, TypeError, r"item 0 is uint8 of shape \[\]"),
    ([ctypes.c_ubyte(5)], TypeError, r"item 0 is c_ubyte of shape \[\]"),
    ([ctypes.create_string_buffer(b"a")], TypeError, "item 0 is c_char_Array_2"),
    (io.BytesIO(b"a\nb\n"), TypeError, r"items is a file \(BytesIO\), whose lines have line ends"),
    (pa.table({}), TypeError, "0 columns"),
    (pa.chunked_array([], pa.string()), TypeError, "Utf8"),
    (pa.table({"a": pa.array([], pa.binary()), "b": pa.array([], pa.binary())}).to_reader(), TypeError, "2 columns"),
    (np.zeros(5, np.uint64), TypeError, r"shape \[5\]"),
    (np.zeros((3, 3, 3), np.uint8), TypeError, "shape"),
    (np.zeros((5, 0), np.uint8), ValueError, "0 bytes"),
    (np.array([b"a", None], object), TypeError, "item 1 is NoneType"),
    (pa.array(["a"]), TypeError, "Utf8"),
    (pa.array([1]), TypeError, "Int64"),
    (pa.array([b"a", None]), ValueError, "1 null"),
    (pa.array([b"a"]).dictionary_encode(), TypeError, "Dictionary"),
    (pa.table({"a": [b"a"], "b": [b"b"]}), TypeError, "2 columns"),
    (pa.array([None, b"a" * 33], pa.binary(33)), ValueError, "1 null"),
    (with_offsets(pa.binary(), np.int32), ValueError, "offsets of item 1"),
    (with_offsets(pa.large_binary(), np.int64), ValueError, "offsets of item 1"),
    (pa.chunked_array([with_offsets(pa.binary(), np.int32)]), ValueError, "offsets of item 1"),
    (WRONG_VIEW, ValueError, "invalid Arrow data"),
    (nested(5000), TypeError, "more than 64 levels"),
    (pa.chunked_array([nested(5000)]), TypeError, "more than 64 levels"),
]


@pytest.mark.parametrize(("items", "error", "words"), BAD)
def test_bad_items_are_rejected(items, error, words):
    set_of_items = SortedHashes([b"kept"])
    with pytest.raises(error, match=words):
        set_of_items.add(items)
    assert len(set_of_items) == 1


def test_errors_name_items_behind_the_first_batch():
    items = [b"a"] * 20_000
    wide = [*items, b"bb"]
    for given, words in [
        ([*items, 5], "item 20000 is int"), (wide, "item 20000 has 2 bytes"), (pa.array(wide), "item 20000 has 2 bytes"),
        (pa.chunked_array([pa.array(items), with_offsets(pa.binary(), np.int32)]), "offsets of item 20001"),
    ]:
        with pytest.raises((TypeError, ValueError), match=words):
            Filter.build(given, record_bytes=None if "offsets" in words else 1)


def test_errors_of_a_producer_are_passed_on():
    def broken():
        yield b"a"
        raise RuntimeError("disk on fire")

    schema = pa.schema([("y", pa.binary())])

    def batches():
        raise RuntimeError("disk on fire")
        yield

    class Broken:
        def __iter__(self):
            raise TypeError("disk on fire")

    with pytest.raises(RuntimeError, match="disk on fire"):
        Filter.build(broken())
    with pytest.raises(TypeError, match="iterable of bytes.*not Broken") as raised:
        Filter.build(Broken())
    assert "disk on fire" in str(raised.value.__cause__)
    with pytest.raises(ValueError, match="disk on fire"):
        Filter.build(pa.RecordBatchReader.from_batches(schema, batches()))


class WrongCapsule:
    def __arrow_c_stream__(self, requested_schema=None):
        return FIXED.__arrow_c_array__()[0]


def test_wrong_capsules_are_rejected():
    with pytest.raises(ValueError, match="incorrect name"):
        Filter.build(WrongCapsule())


def test_malformed_rows_have_their_class():
    seen = 0
    for row, content in malformed():
        error = None
        try:
            Filter(content, row["n"], row["p"], row["m"])
        except (DecodeError, ParamsError) as raised:
            error = getattr(raised, "kind", "bad-parameter")
            assert isinstance(raised, ValueError)
        expected = row.get("error") and re.sub("(?<!^)([A-Z])", r"-\1", row["error"]).lower()
        assert error == expected, (row["name"], len(content))
        seen += 1
    assert seen > 600
    with pytest.raises(DecodeError):
        Filter(b"", -1)


@pytest.mark.parametrize("parameters", [
    {"p": 33}, {"p": -1}, {"p": 2**70}, {"m": 0}, {"m": 2**32}, {"m": -(2**70)},
    {"profile": "nut26"}, {"profile": "siphash"}, {"profile": "siphash", "key": b"short"}, {"key": bytes(16)},
])
def test_parameters_outside_the_format_are_rejected(parameters):
    with pytest.raises(ParamsError):
        Filter(b"", 0, **parameters)
    with pytest.raises(ParamsError):
        Filter.build([], **parameters)


def test_single_items_are_bytes():
    for wrong in [np.zeros(4, np.uint64), np.array([b"a"], object), np.str_("a"), np.float64(1), "a", pa.scalar("a")]:
        for ask in [EXPECTED.contains, nutfilter.hash64, lambda item: Filter(item, 1)]:
            with pytest.raises(TypeError, match="items are bytes"):
                ask(wrong)
    for row in [ARRAY[5], ARRAY.view("V33").ravel()[5], memoryview(ITEMS[5])]:
        assert EXPECTED.contains(row)


@pytest.mark.parametrize("number", [-1, 2**64, -(2**70)])
def test_numbers_outside_the_limits_are_value_errors(number):
    with pytest.raises(ValueError, match=f"record_bytes is {number}"):
        Filter.build(PACKED, record_bytes=number)
    for name, arguments in [("P", {"p": number}), ("M", {"m": number})]:
        with pytest.raises(ParamsError, match=f"{name} is {number}"):
            Filter.build(ITEMS, **arguments)
    with pytest.raises(OverflowError):
        Filter.build(ITEMS, p=10**400)


def test_resident_filters_are_stored_and_refused():
    resident = EXPECTED.to_resident()
    stored = resident.to_bytes()
    read = nutfilter.ResidentFilter.from_bytes(stored)
    assert all(read.matches(ITEMS)) and len(read) == read.n == len(ITEMS)
    for damaged, reason in [(stored[:-1] + b"x", "checksum"), (b"x" + stored[1:], "not a resident filter"), (b"", "bytes")]:
        with pytest.raises(nutfilter.ResidentError, match=reason):
            nutfilter.ResidentFilter.from_bytes(damaged)
    with pytest.raises(nutfilter.ResidentError, match="M is 2097152"):
        Filter.build(ITEMS, p=21, m=2**21).to_resident()


def test_sets_with_different_keys_do_not_merge():
    keyed = SortedHashes(profile="siphash", key=bytes(16))
    with pytest.raises(nutfilter.BuildError, match="hash function"):
        keyed.merge(SortedHashes(profile="siphash", key=bytes(15) + b"x"))
    keyed.merge(keyed)


def test_hashes_must_be_unsigned_words():
    for wrong in [np.zeros(3, np.int64), np.zeros(3, np.float64), np.zeros(3, ">u8"), bytes(8), [1, 2]]:
        with pytest.raises(TypeError, match="uint64"):
            SortedHashes.from_hashes(wrong)


def building():
    records = np.random.default_rng(1).integers(0, 256, (3_000_000, 33), np.uint8)
    return lambda: Filter.build(records)


def scanning():
    blocks = [(bytes(32), nutfilter.bip158.build(bytes(32), ITEMS))] * 5000
    watched = nutfilter.bip158.Watchlist(points(200, seed=2))
    return lambda: watched.scan(blocks)


@pytest.mark.parametrize("work", [building, scanning])
def test_work_runs_without_the_gil(work):
    """While one thread works, another runs Python code."""
    work, times = work(), []

    def timed():
        times.append(time.perf_counter())
        work()
        times.append(time.perf_counter())

    thread = threading.Thread(target=timed)
    pause, last = 0, time.perf_counter()
    thread.start()
    while len(times) < 2:
        now = time.perf_counter()
        pause, last = max(pause, now - last), now
    thread.join()
    # With the GIL held, this loop would not run at all between the start and the end of the work.
    assert pause < (times[1] - times[0]) / 2


def test_threads_can_share_a_set():
    shared, other = SortedHashes(), SortedHashes()

    def work(part):
        for start in range(0, 250, 50):
            shared.add(part[start:start + 50])
            other.merge(shared)
            shared.encode()
            len(other)

    threads = [threading.Thread(target=work, args=(ITEMS[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shared.encode() == EXPECTED
