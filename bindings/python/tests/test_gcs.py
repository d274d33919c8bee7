"""GCSFilter has the interface of nutshell's class."""

import base64
import time
from types import SimpleNamespace

import nutfilter
import pytest
from conftest import points
from nutfilter import GCSFilter

ITEMS, OTHERS = points(500, 1), points(500, 2)


def test_created_filter_matches_its_items():
    made = GCSFilter.create(ITEMS)
    assert (made.num_items, made.inv_fpr, made.rem_bitlength) == (500, 784931, 19)
    received = GCSFilter(made.content, made.num_items)
    answers = received.match_many(ITEMS + OTHERS + ITEMS)
    assert list(answers) == ITEMS + OTHERS
    assert all(answers[item] for item in ITEMS)
    assert not any(answers[item] for item in OTHERS)


def test_parameters_are_given_by_position_or_name():
    made = GCSFilter.create(ITEMS, p=10, m=1024)
    assert GCSFilter(made.content, 500, 1024, 10).match_many(ITEMS) == dict.fromkeys(ITEMS, True)
    named = GCSFilter(content=made.content, num_items=500, inv_fpr=1024, rem_bitlength=10)
    assert named.match_many(ITEMS) == dict.fromkeys(ITEMS, True)
    assert GCSFilter.create(ITEMS, 10, 1024).content == made.content


def test_malformed_content_is_rejected():
    with pytest.raises(nutfilter.DecodeError):
        GCSFilter(b"\xff" * 20, 10)


def test_made_from_a_row_and_from_a_response():
    made = GCSFilter.create(ITEMS)
    row = {"num_items": 500, "content": made.content, "inv_fpr": 784931, "remainder_bitlength": 19}
    assert GCSFilter.from_row(row).content == made.content
    content = base64.b64encode(made.content).decode()
    now = int(time.time())
    for p, m, timestamp in [(19, 784931, 1), (None, None, now + 200)]:
        response = SimpleNamespace(n=500, p=p, m=m, content=content, timestamp=timestamp)
        assert GCSFilter.from_resp_wallet(response).match_many(ITEMS) == dict.fromkeys(ITEMS, True)


@pytest.mark.parametrize(("p", "m", "ahead", "words"), [
    (0, 1, 0, "rate of 1 in 1; at most 1 in 784931"),
    (19, 784930, 0, "1 in 784930"),
    (15, 784931, 0, "P = 15; at least 16"),
    (19, 784931, 86_400, "in the future"),
])
def test_response_outside_the_limits_is_refused(p, m, ahead, words):
    made = GCSFilter.create(ITEMS, p=p, m=m)
    content = base64.b64encode(made.content).decode()
    response = SimpleNamespace(n=500, p=p, m=m, content=content, timestamp=int(time.time()) + ahead)
    with pytest.raises(nutfilter.NutfilterError, match=words):
        GCSFilter.from_resp_wallet(response)
