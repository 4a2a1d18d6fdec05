"""The support agent of an online shop: it prepares, and people decide about money."""

from __future__ import annotations

from api_client.contract import JobSpec
from worker.agent import Agent
from worker.errors import ToolFailed
from worker.examples.book import Book, data_url
from worker.texts import texts_for
from worker.tools import hand_to_human_tool, tool

DELIVERED = "zugestellt"
ORDERS = {"1187": (DELIVERED, "26. Oktober"), "1042": ("unterwegs", "3. November")}
hand_to_human = hand_to_human_tool(texts=texts_for("de"))


def find(order_id: str) -> tuple[str, str]:
    """Status and date of an order; raises ``ToolFailed`` if there is none."""
    if order_id not in ORDERS:
        raise ToolFailed(f"keine Bestellung {order_id}")
    return ORDERS[order_id]


@tool("Status und Datum einer Bestellung nach ihrer Nummer.", effects="safe")
def get_order_status(order_id: str) -> str:
    status, date = find(order_id)
    return f"{order_id} — {status}, Lieferung {date}"


@tool("Das Lieferdatum, das der Kurier erwartet.", effects="safe")
def estimate_delivery(order_id: str) -> str:
    status, date = find(order_id)
    if status == DELIVERED:
        return f"{order_id} — schon zugestellt"
    return f"{order_id} — erwartete Lieferung {date}, kein neuer Scan"


@tool("Öffnet eine Rückgabeanfrage. Ein Kollege gibt sie frei.")
def open_return_request(order_id: str, requests: Book) -> str:
    if find(order_id)[0] != DELIVERED:
        raise ToolFailed(f"{order_id} ist noch nicht zugestellt")
    number = requests.add(requests.idempotency_key, f"für {order_id}")
    return f"R-{number} für {order_id} — wartet auf die Freigabe durch einen Kollegen"


def open_requests(_spec: JobSpec) -> Book:
    """The list that a colleague looks at, at the URL in ``STEPKEEPER_SHOP_DB``."""
    return Book(data_url("STEPKEEPER_SHOP_DB", "shop.sqlite3"))


shop = Agent(
    name="shop",
    goal="Du bist der Support-Agent eines Online-Shops. "
    "Nutze die Tools; über Geld entscheidet ein Mensch.",
    tools=[get_order_status, estimate_delivery, open_return_request, hand_to_human],
    context=open_requests,
    max_steps=5,
    max_repeats=2,
    language="de",
)
