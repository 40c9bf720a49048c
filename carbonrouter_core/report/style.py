"""The style of the HTML report: one column that fits A4, nothing cut where a page ends."""

STYLE = """
@page { size: A4; margin: 16mm 15mm 18mm; }
* { box-sizing: border-box; }
html { color-scheme: light; -webkit-print-color-adjust: exact; print-color-adjust: exact; }
body { margin: 0; background: #fff; color: #15292e;
  font: 14px/1.45 "Source Sans 3", "Source Sans Pro", "Segoe UI", "Helvetica Neue", Arial,
  sans-serif; }
main { max-width: 720px; margin: 0 auto; padding: 20px; }
header { border-bottom: 3px solid #0b5d4b; margin-bottom: 18px; padding-bottom: 8px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 8px; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 22px 0 6px; color: #0b5d4b; break-after: avoid; }
p { margin: 6px 0; }
p.kicker { margin: 0; color: #52606d; }
p.muted { color: #52606d; overflow-wrap: anywhere; }
p.answer { font-size: 17px; line-height: 1.4; margin: 6px 0 8px; }
p.labels span { display: inline-block; border: 1px solid #0b5d4b; border-radius: 3px;
  padding: 0 7px; margin: 0 6px 4px 0; font-size: 12px; color: #0b5d4b; }
table { border-collapse: collapse; width: 100%; margin: 8px 0; font-size: 12.5px; }
thead { display: table-header-group; }
tr { break-inside: avoid; }
th { text-align: left; color: #52606d; font-weight: 600; border-bottom: 1.5px solid #7b8794; }
td, th { padding: 3px 8px 3px 0; vertical-align: top; overflow-wrap: anywhere; }
td, li { unicode-bidi: isolate; }
bdi { display: inline-block; max-width: 100%; overflow-wrap: anywhere; vertical-align: top; }
td { border-bottom: 1px solid #dde3e8; }
td:last-child, th:last-child { padding-right: 0; }
.num { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.wide { width: 50%; }
.short { white-space: nowrap; }
section.whole { break-inside: avoid; }
figure { margin: 10px 0; break-inside: avoid; }
figcaption b { display: block; }
figcaption span { display: block; color: #52606d; font-size: 12.5px; margin-bottom: 6px; }
svg { display: block; width: 100%; height: auto; font-family: inherit; }
ul { margin: 6px 0; padding-left: 18px; }
li { margin: 3px 0; break-inside: avoid; overflow-wrap: anywhere; }
p { orphans: 3; widows: 3; }
@media print { main { max-width: none; padding: 0; } body { font-size: 10.5pt; } }
"""
