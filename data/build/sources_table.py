"""Write the table of sources at the top of data/README.md from data/sources.csv.

python data/build/sources_table.py
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from carbonrouter_core.report.sources import markdown_table  # noqa: E402

readme = ROOT / "data" / "README.md"
text = readme.read_text(encoding="utf-8")
table = re.compile(r"^\| table \|.*?(?=\n\n)", re.DOTALL | re.MULTILINE)
readme.write_text(table.sub(lambda _: markdown_table(), text, count=1), encoding="utf-8")
