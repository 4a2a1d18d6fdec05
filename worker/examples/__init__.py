"""Three agents to look at, to run and to start from: ``STEPKEEPER_AGENTS=worker.examples``.

docs        answers from a folder of Markdown, by listing, searching and reading
shop        a shop's support: prepares, and hands to people what people decide
calculator  a typed answer, and a tool with a hidden context
folder      the files that ``docs`` may see
book        the entries that tools of ``shop`` and ``calculator`` make, once per key
scripts     what a model would say, for running all three without one
pages       what ``docs`` reads, unless there is something better
"""

from worker.examples.calculator import calculator as calculator_agent
from worker.examples.docs import docs as docs_agent
from worker.examples.shop import shop as shop_agent

__all__ = ["calculator_agent", "docs_agent", "shop_agent"]
