"""A browser that runs no script, for the tests of the console."""

from __future__ import annotations

from html.parser import HTMLParser

import httpx

from tests.support.web import WebServer


class Forms(HTMLParser):
    """The forms of a page: where they go, and the fields that stand in them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: dict[str, dict[str, str]] = {}
        self.ids: dict[str, tuple[str, dict[str, str]]] = {}
        self._fields: dict[str, str] | None = None
        self._area: str | None = None
        self._select: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._fields = {}
            self.found[given["action"]] = self._fields
            if "id" in given:
                self.ids[given["id"]] = given["action"], self._fields
        elif self._fields is None:
            return
        elif tag == "input":
            self._fields[given["name"]] = given.get("value", "")
        elif tag == "textarea":
            self._area = given["name"]
            self._fields[self._area] = ""
        elif tag == "select":
            self._select = given["name"]
        elif tag == "option" and self._select is not None:
            first = self._select not in self._fields
            if first or "selected" in given:
                self._fields[self._select] = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._fields = None
        elif tag == "textarea":
            self._area = None
        elif tag == "select":
            self._select = None

    def handle_data(self, data: str) -> None:
        if self._area is not None and self._fields is not None:
            # A line break right behind the tag does not count.
            self._fields[self._area] += data.removeprefix("\n")


class Markup(HTMLParser):
    """The tags of a page, their attributes, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._in_field = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_field = tag == "textarea"

    def handle_endtag(self, tag: str) -> None:
        self._in_field = False

    def handle_data(self, data: str) -> None:
        if not self._in_field:
            self.text += data


class Rows(HTMLParser):
    """The lines of a page's tables: the cells of each, by the text of its head."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: dict[str, list[str]] = {}
        self.tight: list[str] = []
        self._line: list[str] = []
        self._inside = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self._line = []
        elif tag in ("th", "td"):
            self._line.append("")
            self._inside = True
            if ("class", "tight") in attrs:
                self.tight.append(str(dict(attrs)["data-name"]))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td"):
            self._inside = False
        elif tag == "tr":
            name, *cells = self._line
            self.found[name] = cells

    def handle_data(self, data: str) -> None:
        if self._inside:
            self._line[-1] += data


class Browser:
    """Follows forms and redirects, keeps cookies, runs no script."""

    def __init__(self, web: WebServer, **headers: str) -> None:
        self.http = httpx.Client(
            base_url=web.url,
            trust_env=False,
            follow_redirects=True,
            headers={"Origin": web.url, "Accept-Language": "en", **headers},
        )
        self.page: httpx.Response

    def get(self, path: str, **params: str) -> str:
        """Open a page."""
        self.page = self.http.get(path, params=params or None)
        return self.page.text

    def send(self, action: str, **typed: str) -> str:
        """Send a form of the page that is open, with some fields changed."""
        form = Forms(self.page.text).found[action]
        self.page = self.http.post(action, data={**form, **typed})
        return self.page.text

    def send_form(self, form_id: str) -> str:
        """Send the form of this id as it stands."""
        action, form = Forms(self.page.text).ids[form_id]
        self.page = self.http.post(action, data=form)
        return self.page.text

    def login(self, key: str, name: str = "") -> str:
        """Log in."""
        self.get("/login")
        return self.send("/login", key=key, name=name)
