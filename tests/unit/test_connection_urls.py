"""Redis URLs that cannot be meant as they are written."""

from __future__ import annotations

import pytest

from api_client.connection import connect
from api_client.errors import InvalidInput


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://h/xx", "database 'xx' is no number"),
        ("redis://h/1/2", "database '1/2' is no number"),
        ("redis://h/-1", "database '-1' is no number"),
        ("rediss://h/zero", "database 'zero' is no number"),
        ("sentinel://a,b/zz?master=m", "database 'zz' is no number"),
        ("redis://h/0?nope=1", "'nope' is no option"),
        ("redis://h:x/0", "Port"),
        ("http://h/0", "begins with none of redis"),
    ],
)
def test_what_is_wrong_with_a_url_is_told_without_its_password(url: str, told: str) -> None:
    scheme, rest = url.split("//")
    with pytest.raises(InvalidInput, match="Redis URL") as refused:
        connect(f"{scheme}//user:hush@{rest}")
    assert told in str(refused.value)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["redis://h", "redis://h/", "redis://h/3", "unix:///s?db=2", "rediss://h/0?ssl_cert_reqs=none"],
)
def test_other_urls_are_taken(url: str) -> None:
    connect(url)
